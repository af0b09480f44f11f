#include "frn/cli/bench_step.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "frn/models/model.h"
#include "frn/nn/layers.h"

namespace frn::cli {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

}  // namespace

BenchStep::BenchStep(const StepOptions& options) {
  at::manual_seed(0);
  model_ = make_model(options.model, {.norm = NormActSpec::parse(options.norm), .classes = options.classes});
  const auto format = options.layout == "channels-last" ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  set_memory_format(*model_, format);
  const int64_t n = options.batch_per_device;
  x_ = at::randn({n, 3, options.size, options.size}).contiguous(format);
  target_ = at::randint(options.classes, {n});
  parameters_ = model_->parameters();
  for (const auto& parameter : parameters_) momentum_.push_back(at::zeros_like(parameter));
  last_gradient_ = std::make_shared<Clock::time_point>();
  for (const auto& parameter : parameters_) {
    parameter.register_hook([last = last_gradient_](const at::Tensor&) { *last = Clock::now(); });
  }
}

// A rate so small that the numbers, and with them the time of denormals or infinities, stay as at the start.
double BenchStep::run(dist::Reducer* reducer) {
  constexpr double kMomentum = 0.9;
  constexpr double kRate = 1e-6;
  const auto out = model_->forward(x_);
  auto loss = at::cross_entropy_loss(out.logits, target_);
  if (out.auxiliary.defined()) {
    loss = loss + model_->row().auxiliary_weight * at::cross_entropy_loss(out.auxiliary, target_);
  }
  if (reducer != nullptr) reducer->prepare();
  loss.backward();
  const double waited = seconds_since(*last_gradient_);
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  for (auto& parameter : parameters_) gradients.push_back(parameter.grad());
  at::_foreach_mul_(momentum_, kMomentum);
  at::_foreach_add_(momentum_, gradients);
  at::_foreach_add_(parameters_, momentum_, -kRate);
  for (auto& parameter : parameters_) parameter.mutable_grad() = at::Tensor();
  return waited;
}

StepSeconds seconds_of_a_step(BenchStep& step, dist::Reducer* reducer) {
  const auto start = Clock::now();
  const double waited = step.run(reducer);
  return {.whole = seconds_since(start), .waited = waited};
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace frn::cli
