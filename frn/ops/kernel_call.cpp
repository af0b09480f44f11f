#include "frn/ops/kernel_call.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>

namespace frn::ops {

using kernels::Layout;
using kernels::Threshold;

// Whether x.movedim(1, -1) is contiguous, without making that view: it costs as much as a small map's kernel.
static bool rows_are_contiguous(const at::Tensor& x) {
  int64_t expected = 1;
  const auto fits = [&](int64_t dim) {
    const bool right = x.size(dim) == 1 || x.stride(dim) == expected;
    expected *= x.size(dim);
    return right;
  };
  if (!fits(1)) return false;
  for (int64_t dim = x.dim() - 1; dim > 1; --dim) {
    if (!fits(dim)) return false;
  }
  return fits(0);
}

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
