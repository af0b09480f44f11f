#include "frn/kernels/cuda/launch.cuh"

namespace frn::kernels::cuda {

template cudaError_t launch<Float16>(const Step&, const Arguments<Float16>&, int, cudaStream_t);

}  // namespace frn::kernels::cuda
