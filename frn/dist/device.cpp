#include "frn/dist/device.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

namespace frn::dist {

at::Device choose_device(const std::string& name, const Place& place) {
  if (name == "cpu") return at::kCPU;
  if (name != "cuda") throw Error("device", fmt::format("device must be cpu or cuda but is '{}'", name));
  if (!at::hasCUDA()) {
    throw Error("device",
                "device must be cpu here but is cuda: this program was built without CUDA (build the preset cuda), "
                "or the machine shows no GPU");
  }
  // NOLINTNEXTLINE(bugprone-signed-char-misuse): a count that LibTorch keeps in 8 bits
  const auto count = static_cast<int64_t>(at::detail::getCUDAHooks().deviceCount());
  if (place.local_rank >= count) {
    throw Error("device",
                fmt::format("each process of a machine needs a GPU of its own but process {} finds {}; start at "
                            "most {} processes on it",
                            place.local_rank, count, count));
  }
  const at::Device device(at::kCUDA, static_cast<c10::DeviceIndex>(place.local_rank));
  c10::impl::VirtualGuardImpl(at::kCUDA).setDevice(device);
  return device;
}

}  // namespace frn::dist
