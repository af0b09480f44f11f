#include "frn/cli/bench_step.h"

#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include "frn/cli/allocator.h"
#include "frn/core/error.h"
#include "frn/models/model.h"
#include "frn/nn/layers.h"
#include "frn/nn/norm_act.h"
#include "frn/train/classification.h"
#include "frn/train/gradients.h"
#include "frn/train/own_random_numbers.h"
#include "frn/train/sgd.h"
#include "frn/train/step.h"

namespace frn::cli {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::shared_ptr<Model> model_of(const StepOptions& options, at::MemoryFormat format) {
  const train::OwnRandomNumbers random(0, at::kCPU);
  auto model = make_model(options.model, {.norm = NormActSpec::parse(options.norm),
                                          .classes = options.classes,
                                          .weights_standardised = WeightSpec::parse(options.weights_standardised)});
  if (model->row().detects) {
    throw Error("bench train",
                options.model + " finds boxes; `frn bench detector --model " + options.model + "` trains it");
  }
  set_memory_format(*model, format);
  arrange_memory(*model, options.memory);
  return model;
}

data::Batch batch_of(const StepOptions& options, at::MemoryFormat format) {
  const train::OwnRandomNumbers random(1, at::kCPU);
  const int64_t n = options.batch_per_device;
  return data::make_batch(at::randn({n, 3, options.size, options.size}).contiguous(format),
                          at::randint(options.classes, {n}, at::kLong));
}

std::shared_ptr<const train::Task> task_of(const Model& model) {
  return std::make_shared<train::Classification>(
      train::ClassificationOptions{.auxiliary_weight = model.row().auxiliary_weight});
}

at::MemoryFormat format_of(const StepOptions& options) {
  return options.layout == "channels-last" ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
}

}  // namespace

void arrange_memory(Model& model, const std::string& memory) {
  set_computes_again(model, memory == "least"  ? ComputeAgain::kAll
                            : memory == "fast" ? ComputeAgain::kNone
                                               : ComputeAgain::kCheap);
}

class BenchStep::Impl {
 public:
  Impl(std::shared_ptr<Model> model, data::Batch batch, std::shared_ptr<const train::Task> task)
      : model_(std::move(model)),
        batch_(std::move(batch)),
        gradients_(parameter_groups(*model_)),
        sgd_(parameter_groups(*model_), {.momentum = 0.9, .weight_decay = 1e-4}),
        step_(model_, std::move(task), step_options(batch_.size())),
        parameters_(model_->parameters()) {
    for (const auto& parameter : parameters_) {
      parameter.register_hook([last = last_gradient_](const at::Tensor&) { *last = Clock::now(); });
    }
  }

  // A rate so small that the numbers, and with them the time of denormals or infinities, stay as at the start.
  double run(dist::Reducer* reducer) {
    constexpr double kRate = 1e-9;
    reducer_ = reducer;
    step_.run(batch_);
    const double waited = seconds_since(*last_gradient_);
    gradients_.norm();  // which the trainer takes at every step, to see that it is finite
    sgd_.step(kRate);
    gradients_.clear();
    return waited;
  }

  int64_t kept_bytes() {
    const TensorBytes bytes;
    const auto output = model_->forward(batch_.images);
    return bytes.live();
  }

  const std::vector<at::Tensor>& parameters() const { return parameters_; }

 private:
  train::StepOptions step_options(int64_t images) {
    return {.batch_per_device = images, .before_last = [this] {
              if (reducer_ != nullptr) reducer_->prepare();
            }};
  }

  std::shared_ptr<Model> model_;
  data::Batch batch_;
  train::Gradients gradients_;
  train::Sgd sgd_;
  train::Step step_;
  std::vector<at::Tensor> parameters_;
  std::shared_ptr<Clock::time_point> last_gradient_ = std::make_shared<Clock::time_point>();
  dist::Reducer* reducer_ = nullptr;
};

BenchStep::BenchStep(std::shared_ptr<Model> model, data::Batch batch, std::shared_ptr<const train::Task> task)
    : impl_(std::make_unique<Impl>(std::move(model), std::move(batch), std::move(task))) {}
BenchStep::BenchStep(const StepOptions& options) {
  const auto format = format_of(options);
  auto model = model_of(options, format);
  auto task = task_of(*model);
  impl_ = std::make_unique<Impl>(std::move(model), batch_of(options, format), std::move(task));
}
BenchStep::~BenchStep() = default;
BenchStep::BenchStep(BenchStep&&) noexcept = default;
BenchStep& BenchStep::operator=(BenchStep&&) noexcept = default;
double BenchStep::run(dist::Reducer* reducer) { return impl_->run(reducer); }
int64_t BenchStep::kept_bytes() { return impl_->kept_bytes(); }
const std::vector<at::Tensor>& BenchStep::parameters() const { return impl_->parameters(); }

StepSeconds seconds_of_a_step(BenchStep& step, dist::Reducer* reducer) {
  const auto start = Clock::now();
  const double waited = step.run(reducer);
  return {.whole = seconds_since(start), .waited = waited};
}

}  // namespace frn::cli
