#include "frn/dist/own_address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "frn/core/error.h"

namespace frn::dist {
namespace {

struct Closer {
  explicit Closer(int number) : descriptor(number) {}
  ~Closer() {
    if (descriptor >= 0) ::close(descriptor);
  }
  Closer(const Closer&) = delete;
  Closer& operator=(const Closer&) = delete;
  int descriptor;
};

// Connecting a datagram socket only looks up the way. Empty when there is none.
std::string own_address(const addrinfo& host) {
  const Closer socket(::socket(host.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own{};
  socklen_t length = sizeof(own);
  auto* const address = reinterpret_cast<sockaddr*>(&own);
  if (socket.descriptor < 0 || ::connect(socket.descriptor, host.ai_addr, host.ai_addrlen) != 0 ||
      ::getsockname(socket.descriptor, address, &length) != 0) {
    return "";
  }
  char text[NI_MAXHOST];
  if (::getnameinfo(address, length, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) != 0) return "";
  return text;
}

}  // namespace

std::string own_address_towards(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(host.c_str(), "9", &hints, &found);  // any port: nothing is sent
  if (code != 0) {
    throw Error("dist",
                "MASTER_ADDR must be a machine that ranks can reach but is '" + host + "': " + gai_strerror(code));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, &::freeaddrinfo);
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if (auto address = own_address(*one); !address.empty()) return address;
  }
  throw Error("dist", "MASTER_ADDR must be a machine that ranks can reach but no way leads to '" + host +
                          "': " + std::strerror(errno) + "; is the network up?");
}

}  // namespace frn::dist
