#include "frn/ops/kernel_call.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>

namespace frn::ops {

using kernels::Layout;
using kernels::Threshold;

static bool rows_are_contiguous(const at::Tensor& x) { return x.movedim(1, -1).is_contiguous(); }

Laid lay_out(const at::Tensor& x) {
  if (x.is_contiguous()) {
    const bool single = x.numel() == x.size(0) * x.size(1);
    return {x, single ? Layout::kChannelsLast : Layout::kContiguous};
  }
  if (rows_are_contiguous(x)) return {x, Layout::kChannelsLast};
  const auto dense = x.contiguous(x.suggest_memory_format());
  return {dense, dense.is_contiguous() ? Layout::kContiguous : Layout::kChannelsLast};
}

at::Tensor in_layout(const at::Tensor& t, Layout layout, bool single) {
  if (layout == Layout::kContiguous || single) return t.contiguous();
  return rows_are_contiguous(t) ? t : t.movedim(1, -1).contiguous().movedim(-1, 1);
}

at::Tensor like_input(const at::Tensor& result, const at::Tensor& x) {
  if (!x.is_non_overlapping_and_dense() || result.strides() == x.strides()) return result;
  return at::empty_like(x).copy_(result);
}

Threshold threshold_kind(Activation activation) {
  switch (activation) {
    case Activation::kNone:
      return Threshold::kNone;
    case Activation::kRelu:
    case Activation::kTlu:
      return Threshold::kConstant;
    case Activation::kPrelu:
    case Activation::kAffineTlu:
      return Threshold::kAffine;
  }
  return Threshold::kNone;
}

at::Tensor not_needed(const at::Tensor& like) { return at::empty({0}, like.options()); }

at::Tensor zeros_if(bool needed, const OptionalTensor& parameter, const at::Tensor& x) {
  return needed && parameter ? at::zeros_like(*parameter) : not_needed(x);
}

}  // namespace frn::ops
