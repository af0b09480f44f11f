// Batch norm whose statistics are those of the batches of several processes, as if they were one batch.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace frn {

// Every process's tensor, stacked in the order of their ranks: [*] to [ranks, *]. All ranks call it, in the same order.
using GatherRanks = std::function<at::Tensor(const at::Tensor&)>;

struct SyncBatchNormOptions {
  double eps;
  double momentum;  // of the running statistics, which may be undefined
  at::Tensor running_mean, running_var;
  GatherRanks gather;
};

// y of this process's part x. The gradient of x is that of the sum of all ranks' losses; those of weight and bias are
// this rank's share, which the reduction of gradients adds up. Cannot be differentiated twice. Throws frn::Error when
// all ranks together hold one value per channel.
at::Tensor sync_batch_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                           const SyncBatchNormOptions& options);

}  // namespace frn
