#include "frn/nn/standardised.h"

#include <ATen/ops/full.h>

#include <cmath>

#include "frn/ops/ops.h"

namespace frn {
namespace {

// [out, ...] as [1, out, positions] without a copy, where the rest of a filter lies dense in some order.
at::Tensor as_maps(const at::Tensor& weight, bool channels_last) {
  const auto rows = channels_last ? weight.movedim(1, -1) : weight;
  return rows.reshape({1, weight.size(0), -1});
}

}  // namespace

// A filter is a map and the filters are the channels of one sample, so that this is instance norm.
at::Tensor standardised(const at::Tensor& weight, const at::Tensor& gain, const WeightSpec& spec) {
  if (spec.form == WeightForm::kOff) return weight;
  const int64_t filters = weight.size(0);
  const bool channels_last = weight.dim() > 2 && !weight.is_contiguous() && weight.movedim(1, -1).is_contiguous();
  const auto wide = weight.options().dtype(weight.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  std::optional<at::Tensor> scale;
  if (spec.form != WeightForm::kPlain) {
    const double fan_in = static_cast<double>(weight.numel()) / static_cast<double>(filters);
    const double by = 1 / std::sqrt(fan_in);
    scale = gain.defined() ? gain.reshape({filters}).to(wide.dtype()) * by : at::full({filters}, by, wide);
  }
  const auto eps = at::full({}, spec.eps, wide);
  const auto out =
      norm_act(as_maps(weight, channels_last), scale, std::nullopt, eps, std::nullopt, std::nullopt, filters,
               /*centered=*/true, "none");
  if (!channels_last) return out.reshape(weight.sizes());
  return out.reshape(weight.movedim(1, -1).sizes()).movedim(-1, 1);
}

}  // namespace frn
