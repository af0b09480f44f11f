#include "frn/nn/standardised.h"

#include "frn/ops/ops.h"

namespace frn {

at::Tensor standardised(const at::Tensor& weight, const at::Tensor& gain, const WeightSpec& spec) {
  if (spec.form == WeightForm::kOff) return weight;
  return standardise(weight, gain.defined() ? std::optional(gain) : std::nullopt, spec.form != WeightForm::kPlain,
                     spec.eps);
}

}  // namespace frn
