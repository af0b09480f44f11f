// Memory that an optimiser can walk as it lies.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>

namespace frn::train {

inline constexpr int64_t kGrain = 16384;  // values a thread takes at least: below that starting threads costs more

// A gradient in the layout of its weight: a convolution may give another.
inline at::Tensor laid_out_as(const at::Tensor& weight, const at::Tensor& gradient) {
  return gradient.strides() == weight.strides() ? gradient : at::empty_like(weight).copy_(gradient);
}

// Whether float32 loops can walk all of them from the first value to the last: on the CPU, alike and without holes.
template <class... Others>
bool lie_alike(const at::Tensor& weight, const Others&... others) {
  const auto fits = [&](const at::Tensor& other) {
    return other.is_cpu() && other.scalar_type() == at::kFloat && other.strides() == weight.strides();
  };
  return fits(weight) && weight.is_non_overlapping_and_dense() && (fits(others) && ...);
}

}  // namespace frn::train
