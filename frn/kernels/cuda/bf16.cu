#include "frn/kernels/cuda/launch.cuh"

namespace frn::kernels::cuda {

template cudaError_t launch<BFloat16>(const Step&, const Arguments<BFloat16>&, int, cudaStream_t);

}  // namespace frn::kernels::cuda
