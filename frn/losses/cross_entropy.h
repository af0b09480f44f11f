// losses/ holds what training makes small: functions of a model's output and of the truth. No models, no data.
#pragma once

#include <ATen/core/Tensor.h>

namespace frn {

// The mean over the samples of -sum_c t_c*log softmax(logits)_c, where t is 1 - smoothing at the label and
// smoothing/classes everywhere (Szegedy et al. 2016, section 7). logits [N, classes], labels [N] int64; logits of 16
// bits are widened to float32 first.
at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& labels, double label_smoothing = 0);

}  // namespace frn
