// The kernels of one type; each type is a source of its own, so that they compile side by side.
#pragma once

#include <atomic>

#include "frn/kernels/cuda/backward.cuh"
#include "frn/kernels/cuda/forward.cuh"
#include "frn/kernels/cuda/gradients.cuh"
#include "frn/kernels/cuda/launch.h"

namespace frn::kernels::cuda {

template <typename T>
const void* function_of(Kernel kernel) {
  switch (kernel) {
#define FRN_CASE(name, function) \
  case Kernel::name:             \
    return reinterpret_cast<const void*>(&function<T>);
    FRN_CUDA_KERNELS(FRN_CASE)
#undef FRN_CASE
  }
  return nullptr;
}

// More than 48 KB of shared memory must be asked for, once per kernel and device.
template <typename T>
cudaError_t allow_shared_memory(Kernel kernel, int device) {
  constexpr int kDevices = 64;
  static std::atomic<bool> allowed[kDevices][kKernelNames.size()];
  auto* const done = device < kDevices ? &allowed[device][static_cast<size_t>(kernel)] : nullptr;
  if (done != nullptr && done->load(std::memory_order_relaxed)) return cudaSuccess;
  int most = 0;
  const auto asked = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (asked != cudaSuccess) return asked;
  const auto set = cudaFuncSetAttribute(function_of<T>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize, most);
  if (set == cudaSuccess && done != nullptr) done->store(true, std::memory_order_relaxed);
  return set;
}

template <typename T>
cudaError_t launch(const Step& step, const Arguments<T>& arguments, int device, cudaStream_t stream) {
  constexpr int32_t kWithoutAsking = 48 * 1024;
  if (step.shared_bytes > kWithoutAsking) {
    const auto allowed = allow_shared_memory<T>(step.kernel, device);
    if (allowed != cudaSuccess) return allowed;
  }
  Arguments<T> copy = arguments;
  void* parameters[] = {&copy};
  return cudaLaunchKernel(function_of<T>(step.kernel), dim3(static_cast<unsigned>(step.grid)),
                          dim3(static_cast<unsigned>(step.threads)), parameters, static_cast<size_t>(step.shared_bytes),
                          stream);
}

}  // namespace frn::kernels::cuda
