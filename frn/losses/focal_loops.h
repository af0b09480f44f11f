// Private to losses/: the loop of the focal loss over a run of numbers. No torch.
#pragma once

#include <cstdint>

namespace frn::losses {

// Of logits that all stand for "not this class": writes scale*d/dx and gives the sum of (1 - alpha)*p^2*softplus(x).
double focal_background(const float* logits, int64_t count, float alpha, float scale, float* gradient);

// Of one logit that stands for "this class": the loss alpha*(1 - p)^2*softplus(-x), and its derivative.
struct FocalValue {
  double loss;
  double gradient;
};
FocalValue focal_object(float logit, float alpha);
FocalValue focal_background(float logit, float alpha);

}  // namespace frn::losses
