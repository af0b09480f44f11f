// Compiled where CUDA and NCCL are (the preset `cuda`). No machine of the project's has run it.
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "frn/dist/engines.h"

namespace frn::dist {

BackendPointer make_nccl(const StorePointer& store, const Place& place, std::chrono::milliseconds timeout) {
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = timeout;
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, static_cast<int>(place.rank), static_cast<int>(place.world),
                                                     options);
}

}  // namespace frn::dist
