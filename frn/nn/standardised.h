// Weight standardisation (Qiao et al. 2019): filters with mean 0 and a fixed scale, which takes away what a constant
// part of a convolution's input brings into its output. Norms that see one image alone cannot do that.
#pragma once

#include <ATen/core/Tensor.h>

#include "frn/spec/weight_spec.h"  // IWYU pragma: export

namespace frn {

// The filters that a convolution with `weight` [out, in/groups, *] uses, in its type and layout. `gain` [out, 1, ...]
// is for WeightForm::kGain, else undefined. Differentiable twice in both. One pass over the weights, whatever the
// batch.
at::Tensor standardised(const at::Tensor& weight, const at::Tensor& gain, const WeightSpec& spec);

}  // namespace frn
