// Launches the kernels on a GPU. The only header here that needs CUDA's run-time library.
#pragma once

#include <cuda_runtime_api.h>

#include "frn/kernels/cuda/call.h"

namespace frn::kernels::cuda {

// On the current device. Nothing is read back and nothing waits, so that a CUDA graph can record it.
template <typename T>
cudaError_t launch(const Step& step, const Arguments<T>& arguments, int device, cudaStream_t stream);

}  // namespace frn::kernels::cuda
