// The focal loss of dense detectors (Lin et al. 2017): cross entropy of a sigmoid for each class, times a factor that
// makes light of what is told apart already.
#pragma once

#include <ATen/core/Tensor.h>

namespace frn {

inline constexpr double kFocalAlpha = 0.25;  // weight of objects; background has 1 - alpha
inline constexpr double kFocalGamma = 2;

// The sum over images of weights[n] times the sum over places and classes of
//   -alpha*(1 - p)^gamma*log p  for the class of a place, and -(1 - alpha)*p^gamma*log(1 - p) for all others.
//
// logits [N, places, classes]; classes [N, places] int64 on the CPU: the class, -1 for background, -2 for a place that
// does not count; weights [N] float64 on the CPU. Logits of 16 bits are widened to float32. One pass over the logits
// finds loss and gradient, which is kept for backward: memory of one more tensor like the logits. A second derivative
// is an error of torch's own. Throws frn::Error for shapes or classes that do not fit.
at::Tensor focal_loss(const at::Tensor& logits, const at::Tensor& classes, const at::Tensor& weights,
                      double alpha = kFocalAlpha, double gamma = kFocalGamma);

}  // namespace frn
