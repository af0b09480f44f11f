// Preloaded by tests: a file system that takes no locks, as some network file systems do; and with FRN_TEST_NO_NAMES
// set, a machine that gives no names to sockets.
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

extern "C" __attribute__((visibility("default"))) int flock(int /*descriptor*/, int /*operation*/) {
  errno = ENOLCK;
  return -1;
}

extern "C" __attribute__((visibility("default"))) int bind(int descriptor, const sockaddr* address, socklen_t length) {
  if (address->sa_family == AF_UNIX && std::getenv("FRN_TEST_NO_NAMES") != nullptr) {
    errno = EACCES;
    return -1;
  }
  return static_cast<int>(syscall(SYS_bind, descriptor, address, length));
}
