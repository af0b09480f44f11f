#include "frn/nn/batch_renorm.h"

#include <ATen/ops/batch_norm_update_stats.h>

#include <algorithm>

namespace frn {
namespace {

int64_t whole(const NormActSpec& spec, std::string_view key) { return static_cast<int64_t>(spec.number(key).value()); }

// From 0 at `begin` to 1 at `end`; a step when they are the same.
double ramp(int64_t step, int64_t begin, int64_t end) {
  if (step >= end) return 1;
  return step <= begin ? 0 : static_cast<double>(step - begin) / static_cast<double>(end - begin);
}

}  // namespace

BatchRenormImpl::BatchRenormImpl(const NormActSpec& spec, int64_t channels)
    : BatchMethodImpl(spec, channels),
      limit_{spec.number("r_max").value(), spec.number("d_max").value()},
      warmup_(whole(spec, "warmup")),
      r_end_(whole(spec, "r_end")),
      d_end_(whole(spec, "d_end")) {}

RenormBounds BatchRenormImpl::bounds(int64_t step) const {
  return {1 + (limit_.r_max - 1) * ramp(step, warmup_, r_end_), limit_.d_max * ramp(step, warmup_, d_end_)};
}

at::Tensor BatchRenormImpl::normalise(const at::Tensor& x, bool updates) {
  const auto none = at::Tensor();
  const auto bound = bounds(num_batches_tracked.item<int64_t>());
  if (bound == RenormBounds{1, 0} || x.numel() == 0) {
    return batch_norm(x, weight, bias, /*training=*/true, updates ? running_mean : none, updates ? running_var : none);
  }
  at::Tensor r;
  at::Tensor d;
  {
    torch::NoGradGuard no_grad;
    const auto mean = running_mean.clone();
    const auto var = running_var.clone();
    // With running statistics in float32 the batch's come in float32 also when x has 16 bits.
    const auto [batch_mean, batch_var] = at::batch_norm_update_stats(x, running_mean, running_var, momentum_);
    if (!updates) {
      running_mean.copy_(mean);
      running_var.copy_(var);
    }
    const auto sigma = (var + eps_).sqrt();
    r = ((batch_var + eps_).sqrt() / sigma).clamp(1 / bound.r_max, bound.r_max);
    d = ((batch_mean - mean) / sigma).clamp(-bound.d_max, bound.d_max);
  }
  // weight*(xhat*r + d) + bias as one batch norm: its fused kernel and its gradient serve.
  return batch_norm(x, weight * r, bias + weight * d, /*training=*/true, none, none);
}

}  // namespace frn
