#include "frn/kernels/cuda/launch.cuh"

namespace frn::kernels::cuda {

template cudaError_t launch<float>(const Step&, const Arguments<float>&, int, cudaStream_t);

}  // namespace frn::kernels::cuda
