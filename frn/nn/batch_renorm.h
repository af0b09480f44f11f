// Batch Renormalization (Ioffe 2017): batch norm whose output is corrected, within bounds, to what eval mode would
// give.
#pragma once

#include "frn/nn/batch_norm.h"

namespace frn {

struct RenormBounds {
  double r_max;
  double d_max;
  bool operator==(const RenormBounds&) const = default;
};

// With the batch's mu_B, s_B = sqrt(var_B + eps) and the running mu, s = sqrt(running_var + eps), all before the step:
//   r = clip(s_B/s, 1/r_max, r_max)     d = clip((mu_B - mu)/s, -d_max, d_max)     both constants to the gradient
//   y = weight*((x - mu_B)/s_B*r + d) + bias
// The running statistics are batch norm's (averages of means and of unbiased variances) where Ioffe averages s_B: so
// the layer is batch norm while r_max = 1 and d_max = 0, and weights move between the two. Where nothing is clipped y
// is the eval mode's, whichever average is taken.
class BatchRenormImpl : public BatchMethodImpl {
 public:
  BatchRenormImpl(const NormActSpec& spec, int64_t channels);

  // The bounds at a step, counted from 0 as num_batches_tracked is: 1 and 0 for `warmup` steps, then straight lines up
  // to r_max at step r_end and d_max at d_end.
  RenormBounds bounds(int64_t step) const;

 protected:
  at::Tensor normalise(const at::Tensor& x, bool updates) override;

 private:
  RenormBounds limit_;
  int64_t warmup_;
  int64_t r_end_;
  int64_t d_end_;
};

}  // namespace frn
