#include "frn/dist/engines.h"

namespace frn::dist {

BackendPointer make_nccl(const StorePointer& /*store*/, const Place& /*place*/, std::chrono::milliseconds /*timeout*/) {
  throw Error("dist",
              "processes on CUDA devices need NCCL but this program was built without CUDA; build the preset cuda");
}

}  // namespace frn::dist
