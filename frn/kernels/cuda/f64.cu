#include "frn/kernels/cuda/launch.cuh"

namespace frn::kernels::cuda {

template cudaError_t launch<double>(const Step&, const Arguments<double>&, int, cudaStream_t);

}  // namespace frn::kernels::cuda
