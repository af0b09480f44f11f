// Every kernel, once. Whoever adds one adds its name here: it is then compiled for each type, run by the emulator's
// tests and by the interpreter of PTX, and its machine code is looked at.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

// clang-format off
#define FRN_CUDA_KERNELS(X)                        \
  X(kForwardResident, forward_resident)            \
  X(kForwardSums, forward_sums)                    \
  X(kForwardStatistics, forward_statistics)        \
  X(kForwardApply, forward_apply)                  \
  X(kBackwardResident, backward_resident)          \
  X(kBackwardSums, backward_sums)                  \
  X(kBackwardStatistics, backward_statistics)      \
  X(kBackwardApply, backward_apply)                \
  X(kSumSamples, sum_samples)
// clang-format on

namespace frn::kernels::cuda {

#define FRN_ENUMERATOR(name, function) name,
enum class Kernel : uint8_t { FRN_CUDA_KERNELS(FRN_ENUMERATOR) };
#undef FRN_ENUMERATOR

#define FRN_NAME(name, function) std::string_view(#function),
inline constexpr auto kKernelNames = std::to_array({FRN_CUDA_KERNELS(FRN_NAME)});
#undef FRN_NAME

}  // namespace frn::kernels::cuda
