#include "frn/nn/sync_batch_norm.h"

#include <ATen/Context.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/batch_norm_update_stats.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "frn/core/error.h"
#include "frn/core/text.h"

namespace frn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Statistics {
  at::Tensor mean, var;  // [C], of all ranks' values; var divides by their count
  double count = 0;      // values per channel
};

// The context of a function keeps values that TorchScript knows; one of ours needs a class of it.
struct Gather : torch::CustomClassHolder {
  explicit Gather(GatherRanks gather) : function(std::move(gather)) {}
  GatherRanks function;
};

at::Tensor per_channel(const at::Tensor& values, int64_t rank) {
  std::vector<int64_t> shape(static_cast<size_t>(rank), 1);
  shape[1] = -1;
  return values.view(shape);
}

// This rank's mean, sum of squared deviations and count in one row, so that one message carries all.
at::Tensor local_row(const at::Tensor& x, const at::TensorOptions& wide) {
  const int64_t channels = x.size(1);
  const int64_t values = x.numel() / channels;  // of each channel
  const auto count = static_cast<double>(values);
  const auto exact = wide.dtype(at::kDouble);
  if (x.numel() == 0) return at::zeros({2 * channels + 1}, exact);
  // Running statistics in float32 make those of a batch in 16 bits float32 too; momentum 0 leaves these alone.
  const auto [mean, var] = at::batch_norm_update_stats(x, at::zeros({channels}, wide), at::ones({channels}, wide), 0);
  return at::cat({mean.to(at::kDouble), var.to(at::kDouble) * count, at::full({1}, count, exact)});
}

// Rows combine by the formula of Chan, Golub and LeVeque, in double and in the order of ranks: all ranks get the same
// bits.
Statistics combined(const at::Tensor& rows, int64_t channels, const at::TensorOptions& wide) {
  const auto counts = rows.narrow(1, 2 * channels, 1);
  const auto means = rows.narrow(1, 0, channels);
  const double count = counts.sum().item<double>();
  const auto mean = (counts * means).sum(0) / count;
  const auto squares = rows.narrow(1, channels, channels).sum(0) + (counts * (means - mean).square()).sum(0);
  return {mean.to(wide), (squares / count).to(wide), count};
}

void update_running(const SyncBatchNormOptions& options, const Statistics& all) {
  if (!options.running_mean.defined()) return;
  options.running_mean.lerp_(all.mean.to(options.running_mean.scalar_type()), options.momentum);
  const auto unbiased = all.var * (all.count / (all.count - 1));
  options.running_var.lerp_(unbiased.to(options.running_var.scalar_type()), options.momentum);
}

// This rank's sums of dy*xhat and dy.
std::pair<at::Tensor, at::Tensor> local_sums(const at::Tensor& x, const at::Tensor& dy, const at::Tensor& weight,
                                             const at::Tensor& mean, const at::Tensor& var, double eps) {
  // PyTorch's kernel divides by the number of samples.
  if (x.numel() == 0) return {at::zeros_like(weight), at::zeros_like(weight)};
  auto [none, dot, sum] =
      at::native_batch_norm_backward(dy, x, weight, mean, var, {}, {}, /*train=*/false, eps, {false, true, true});
  return {dot, sum};
}

class SyncBatchNorm : public torch::autograd::Function<SyncBatchNorm> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, const SyncBatchNormOptions& options) {
    const auto wide = weight.options();
    const auto all = combined(options.gather(local_row(x, wide)), x.size(1), wide);
    if (all.count <= 1) {
      throw Error("bn", "training needs more than 1 value per channel on all processes together but x has shape " +
                            shape_text(x.sizes()) + "; take more samples, or a per-sample method such as frn");
    }
    update_running(options, all);
    context->save_for_backward({x, weight, all.mean, all.var});
    context->saved_data["eps"] = options.eps;
    context->saved_data["count"] = all.count;
    context->saved_data["gather"] = at::IValue::make_capsule(c10::make_intrusive<Gather>(options.gather));
    return at::batch_norm(x, weight, bias, all.mean, all.var, /*training=*/false, 0, options.eps,
                          at::globalContext().userEnabledCuDNN());
  }

  // With xhat = (x - mean)/sigma: dx = weight/sigma*(dy - mean(dy) - xhat*mean(dy*xhat)), means over all ranks' values.
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    // The statistics are constants here, so that a graph of these gradients would be another function's.
    if (at::GradMode::is_enabled()) {
      throw Error("bn",
                  "statistics over all devices can be differentiated once but create_graph asks for twice; take "
                  "bn without sync=true, or a per-sample method such as frn");
    }
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &weight = saved[1], &mean = saved[2], &var = saved[3];
    const double eps = context->saved_data["eps"].toDouble();
    const double count = context->saved_data["count"].toDouble();
    const auto dy = gradients[0].contiguous(x.suggest_memory_format());
    const auto [dot, sum] = local_sums(x, dy, weight, mean, var, eps);
    const int64_t channels = x.size(1);
    const auto gather = c10::static_intrusive_pointer_cast<Gather>(context->saved_data["gather"].toCapsule());
    const auto means = gather->function(at::cat({dot, sum})).sum(0) / count;
    at::Tensor dx;
    if (context->needs_input_grad(0)) {
      const auto inverse = (var + eps).rsqrt();
      const auto scale = weight * inverse;
      const auto column = [&](const at::Tensor& values) { return per_channel(values, x.dim()); };
      const auto along_x = column(scale * inverse * means.narrow(0, 0, channels));
      const auto constant = column(scale * means.narrow(0, channels, channels));
      const auto wide = weight.scalar_type();
      dx = (x.to(wide) - column(mean)).mul_(along_x).add_(constant).neg_().addcmul_(dy.to(wide), column(scale));
      dx = dx.to(x.scalar_type());
    }
    return {dx, dot, sum, at::Tensor()};
  }
};

}  // namespace

at::Tensor sync_batch_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                           const SyncBatchNormOptions& options) {
  return SyncBatchNorm::apply(x, weight, bias, options);
}

}  // namespace frn
