// The operator frn::standardise, made of norm_act: a filter is a map and the filters are the channels of one sample, so
// that weight standardisation is instance norm.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/full.h>
#include <torch/library.h>

#include <cmath>

#include "frn/ops/checks.h"
#include "frn/ops/ops.h"

namespace frn {
namespace {

at::Tensor standardise_by_norm_act(const at::Tensor& weight, const std::optional<at::Tensor>& gain, bool scaled,
                                   double eps) {
  TORCH_CHECK(weight.dim() >= 2, "[standardise] weight must have shape [filters, inputs, *] but has ", weight.sizes());
  TORCH_CHECK_VALUE(eps > 0, "[standardise] eps must be above 0 but is ", eps);
  const int64_t filters = weight.size(0);
  TORCH_CHECK(!gain || gain->numel() == filters, "[standardise] gain must have one number for each of the ", filters,
              " filters of weight ", weight.sizes(), " but has shape ", gain ? gain->sizes() : at::IntArrayRef());
  const auto wide = weight.options().dtype(ops::accumulate_type(weight.scalar_type()));
  std::optional<at::Tensor> scale;
  if (scaled || gain) {
    const double by = scaled ? std::sqrt(static_cast<double>(filters) / static_cast<double>(weight.numel())) : 1;
    scale = gain ? gain->reshape({filters}).to(wide.dtype()) * by : at::full({filters}, by, wide);
  }
  // Filters lie dense in either layout: neither is copied.
  const bool channels_last = weight.dim() > 2 && !weight.is_contiguous() && weight.movedim(1, -1).is_contiguous();
  const auto rows = channels_last ? weight.movedim(1, -1) : weight;
  const auto out = norm_act(rows.reshape({1, filters, -1}), scale, std::nullopt, at::full({}, eps, wide), std::nullopt,
                            std::nullopt, filters, /*centered=*/true, "none")
                       .reshape(rows.sizes());
  return channels_last ? out.movedim(-1, 1) : out;
}

}  // namespace

at::Tensor standardise(const at::Tensor& weight, const std::optional<at::Tensor>& gain, bool scaled, double eps) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("frn::standardise", "").typed<decltype(standardise_by_norm_act)>();
  return op.call(weight, gain, scaled, eps);
}

}  // namespace frn

TORCH_LIBRARY_IMPL(frn, CompositeImplicitAutograd, m) { m.impl("standardise", frn::standardise_by_norm_act); }
