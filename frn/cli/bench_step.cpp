#include "frn/cli/bench_step.h"

#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include "frn/models/model.h"
#include "frn/nn/layers.h"
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
  auto model = make_model(options.model, {.norm = NormActSpec::parse(options.norm), .classes = options.classes});
  set_memory_format(*model, format);
  return model;
}

data::Batch batch_of(const StepOptions& options, at::MemoryFormat format) {
  const train::OwnRandomNumbers random(1, at::kCPU);
  const int64_t n = options.batch_per_device;
  return data::make_batch(at::randn({n, 3, options.size, options.size}).contiguous(format),
                          at::randint(options.classes, {n}, at::kLong));
}

at::MemoryFormat format_of(const StepOptions& options) {
  return options.layout == "channels-last" ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
}

}  // namespace

class BenchStep::Impl {
 public:
  explicit Impl(const StepOptions& options)
      : model_(model_of(options, format_of(options))),
        batch_(batch_of(options, format_of(options))),
        gradients_(parameter_groups(*model_)),
        sgd_(parameter_groups(*model_), {.momentum = 0.9, .weight_decay = 1e-4}),
        step_(model_, task_of(*model_), step_options(options)),
        parameters_(model_->parameters()) {
    for (const auto& parameter : parameters_) {
      parameter.register_hook([last = last_gradient_](const at::Tensor&) { *last = Clock::now(); });
    }
  }

  // A rate so small that the numbers, and with them the time of denormals or infinities, stay as at the start.
  double run(dist::Reducer* reducer) {
    constexpr double kRate = 1e-6;
    reducer_ = reducer;
    step_.run(batch_);
    const double waited = seconds_since(*last_gradient_);
    gradients_.norm();  // which the trainer takes at every step, to see that it is finite
    sgd_.step(kRate);
    gradients_.clear();
    return waited;
  }

  const std::vector<at::Tensor>& parameters() const { return parameters_; }

 private:
  static std::shared_ptr<const train::Task> task_of(const Model& model) {
    return std::make_shared<train::Classification>(
        train::ClassificationOptions{.auxiliary_weight = model.row().auxiliary_weight});
  }

  train::StepOptions step_options(const StepOptions& options) {
    return {.batch_per_device = options.batch_per_device, .before_last = [this] {
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

BenchStep::BenchStep(const StepOptions& options) : impl_(std::make_unique<Impl>(options)) {}
BenchStep::~BenchStep() = default;
BenchStep::BenchStep(BenchStep&&) noexcept = default;
BenchStep& BenchStep::operator=(BenchStep&&) noexcept = default;
double BenchStep::run(dist::Reducer* reducer) { return impl_->run(reducer); }
const std::vector<at::Tensor>& BenchStep::parameters() const { return impl_->parameters(); }

StepSeconds seconds_of_a_step(BenchStep& step, dist::Reducer* reducer) {
  const auto start = Clock::now();
  const double waited = step.run(reducer);
  return {.whole = seconds_since(start), .waited = waited};
}

}  // namespace frn::cli
