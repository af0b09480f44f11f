#include "frn/nn/batch_norm.h"

#include <ATen/Context.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/batch_norm_update_stats.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <vector>

#include "frn/core/error.h"
#include "frn/core/text.h"
#include "frn/nn/detail/compute_again.h"
#include "frn/ops/ops.h"

namespace frn {
BatchMethodImpl::BatchMethodImpl(const NormActSpec& spec, int64_t channels)
    : NormActImpl(spec, channels),
      eps_(spec.eps()),
      momentum_(spec.number("momentum").value()),
      sync_(spec.word("sync") == "true") {
  running_mean = register_buffer("running_mean", torch::zeros({channels}));
  running_var = register_buffer("running_var", torch::ones({channels}));
  num_batches_tracked = register_buffer("num_batches_tracked", torch::zeros({}, torch::kInt64));
}

void BatchMethodImpl::set_virtual_devices(int64_t count) {
  if (count < 1) {
    throw Error("set_virtual_devices", "the number of devices must be at least 1 but is " + std::to_string(count));
  }
  virtual_devices_ = count;
}

void BatchMethodImpl::copy_settings(const NormActImpl& other) {
  const auto& source = dynamic_cast<const BatchMethodImpl&>(other);
  virtual_devices_ = source.virtual_devices_;
  tracks_statistics_ = source.tracks_statistics_;
  gather_ = source.gather_;
}

void BatchMethodImpl::to(torch::Device device, torch::Dtype dtype, bool non_blocking) {
  const auto steps = num_batches_tracked.to(device, /*non_blocking=*/false, /*copy=*/true);
  NormActImpl::to(device, dtype, non_blocking);
  num_batches_tracked.set_data(steps);
}

void BatchMethodImpl::to(torch::Dtype dtype, bool non_blocking) {
  const auto steps = num_batches_tracked.clone();
  NormActImpl::to(dtype, non_blocking);
  num_batches_tracked.set_data(steps);
}

void BatchMethodImpl::check_batch(const at::Tensor& x) const {
  const auto name = spec().norm().name;
  if (x.size(0) % parts() != 0) {
    throw Error(name, "a batch must divide evenly over the " + std::to_string(virtual_devices_) +
                          " virtual devices but x has shape " + shape_text(x.sizes()) +
                          "; drop or fill up the last batch");
  }
  if (x.numel() == channels() * parts() && !gather_) {
    throw Error(name, "training needs more than 1 value per channel" +
                          std::string(parts() > 1 ? " on each virtual device" : "") + " but x has shape " +
                          shape_text(x.sizes()) +
                          "; take more samples per device, eval mode, or a per-sample method such as frn");
  }
}

at::Tensor BatchMethodImpl::batch_norm(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& shift,
                                       bool training, const at::Tensor& mean, const at::Tensor& var) const {
  return at::batch_norm(x, scale, shift, defined_or_none(mean), defined_or_none(var), training, momentum_, eps_,
                        at::globalContext().userEnabledCuDNN());
}

at::Tensor BatchMethodImpl::train_step(const at::Tensor& x) {
  if (parts() == 1 || x.numel() == 0) return normalise(x, tracks_statistics_);
  auto chunks = x.chunk(parts());
  for (size_t i = chunks.size(); i-- > 0;) chunks[i] = normalise(chunks[i], /*updates=*/tracks_statistics_ && i == 0);
  return at::cat(chunks);
}

at::Tensor BatchMethodImpl::run(const at::Tensor& x) {
  if (!is_training()) return activate_own(batch_norm(x, weight, bias, /*training=*/false, running_mean, running_var));
  check_batch(x);
  at::Tensor z;
  if (parts() > 1 && parts() == x.size(0)) z = forward_sample_by_sample(x);
  if (!z.defined()) z = activate_own(train_step(x));
  if (tracks_statistics_) num_batches_tracked.add_(1);
  return z;
}

at::Tensor BatchNormImpl::normalise(const at::Tensor& x, bool updates) {
  const auto none = at::Tensor();
  const auto mean = updates ? running_mean : none;
  const auto var = updates ? running_var : none;
  if (!gather_) return batch_norm(x, weight, bias, /*training=*/true, mean, var);
  return sync_batch_norm(
      x, weight, bias,
      {.eps = eps_, .momentum = momentum_, .running_mean = mean, .running_var = var, .gather = gather_});
}

std::vector<at::Tensor> BatchNormImpl::run_into(const at::Tensor& x, const std::vector<Convolution>& readers) {
  at::Tensor z;
  {
    const torch::NoGradGuard no_grad;
    z = run(x);  // moves the running statistics, once
  }
  const auto give_z = [training = is_training(), mean = running_mean, var = running_var, momentum = momentum_,
                       eps = eps_, activation = std::string(spec().activation().name)](
                          const at::Tensor& input, const std::vector<at::Tensor>& p) {
    const auto none = std::optional<at::Tensor>();
    const auto y = at::batch_norm(input, p[0], p[1], training ? none : mean, training ? none : var, training, momentum,
                                  eps, at::globalContext().userEnabledCuDNN());
    return activated(y, p[2], p[3], activation);
  };
  return convolve_computing_again(z, x, {weight, bias, tau, kappa}, give_z, readers);
}

at::Tensor BatchNormImpl::forward_sample_by_sample(const at::Tensor& x) {
  if (tracks_statistics_) {
    const torch::NoGradGuard no_grad;
    at::batch_norm_update_stats(x.narrow(0, 0, 1), running_mean, running_var, momentum_);
  }
  return norm_act(x, weight, bias, at::full({}, eps_, x.options().dtype(at::kDouble)), defined_or_none(tau),
                  defined_or_none(kappa), /*groups=*/channels(), /*centered=*/true, spec().activation().name);
}

void set_virtual_devices(torch::nn::Module& model, int64_t count) {
  model.apply([count](torch::nn::Module& module) {
    if (auto* method = dynamic_cast<BatchMethodImpl*>(&module)) method->set_virtual_devices(count);
  });
}

void set_tracks_statistics(torch::nn::Module& model, bool tracks) {
  model.apply([tracks](torch::nn::Module& module) {
    if (auto* method = dynamic_cast<BatchMethodImpl*>(&module)) method->set_tracks_statistics(tracks);
  });
}

void set_gather(torch::nn::Module& model, const GatherRanks& gather) {
  model.apply([&gather](torch::nn::Module& module) {
    auto* method = dynamic_cast<BatchMethodImpl*>(&module);
    if (method != nullptr && method->sync()) method->set_gather(gather);
  });
}

}  // namespace frn
