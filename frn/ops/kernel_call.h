// What the keys with kernels of their own (CPU, CUDA) share: how a tensor becomes what the kernels take, and back.
#pragma once

#include <ATen/core/Tensor.h>

#include "frn/kernels/types.h"
#include "frn/ops/checks.h"

namespace frn::ops {

// A tensor whose memory is [N, C, positions] or [N, positions, C].
struct Laid {
  at::Tensor tensor;
  kernels::Layout layout;
};

// As it stands if it can, else copied. Maps of one value go the channels-last way: there the vectors run over channels.
Laid lay_out(const at::Tensor& x);

// A gradient in x's layout. `single`: maps of one value.
at::Tensor in_layout(const at::Tensor& t, kernels::Layout layout, bool single);

// A dense x of another order (transposed maps, say) was copied; its results go back to its strides, as Meta promises.
at::Tensor like_input(const at::Tensor& result, const at::Tensor& x);

kernels::Threshold threshold_kind(Activation activation);

// A gradient that nobody asked for, and one of a call without values.
at::Tensor not_needed(const at::Tensor& like);
at::Tensor zeros_if(bool needed, const OptionalTensor& parameter, const at::Tensor& x);

// f(T()) with the kernels' type of a tensor's elements.
template <typename F>
auto with_kernel_type(at::ScalarType type, const F& f) {
  if (type == at::kFloat) return f(float());
  if (type == at::kDouble) return f(double());
  if (type == at::kBFloat16) return f(kernels::BFloat16());
  return f(kernels::Float16());  // the checks let no other type through
}

}  // namespace frn::ops
