// Gloo: the engine that PyTorch's users launch on CPUs.
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <cstdlib>
#include <sstream>

#include "frn/dist/engines.h"
#include "frn/dist/own_address.h"

namespace frn::dist {
namespace {

using Device = std::shared_ptr<gloo::transport::Device>;

// The interfaces that a person named, by PyTorch's variable, else the one that leads to the others.
std::vector<Device> network_devices(const Place& place) {
  std::vector<Device> out;
  const char* const names = std::getenv("GLOO_SOCKET_IFNAME");
  std::istringstream list(names == nullptr ? "" : names);
  for (std::string name; std::getline(list, name, ',');) {
    out.push_back(c10d::ProcessGroupGloo::createDeviceForInterface(name, /*lazyInit=*/false));
  }
  if (!out.empty()) return out;
  const auto own = own_address_towards(place.master_address);
  return {c10d::ProcessGroupGloo::createDeviceForHostname(own, /*lazyInit=*/false)};
}

}  // namespace

BackendPointer make_gloo(const StorePointer& store, const Place& place, std::chrono::milliseconds timeout) {
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  options->devices = network_devices(place);
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, static_cast<int>(place.rank), static_cast<int>(place.world),
                                                     options);
}

}  // namespace frn::dist
