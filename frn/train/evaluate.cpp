#include "frn/train/evaluate.h"

#include <ATen/ops/tensor.h>
#include <torch/types.h>

#include <cmath>

#include "frn/losses/cross_entropy.h"
#include "frn/train/step.h"

namespace frn::train {
namespace {

// Sets eval mode while it lives.
class EvalMode {
 public:
  explicit EvalMode(Model& model) : model_(model), training_(model.is_training()) { model_.eval(); }
  ~EvalMode() { model_.train(training_); }
  EvalMode(const EvalMode&) = delete;
  EvalMode& operator=(const EvalMode&) = delete;

 private:
  Model& model_;
  bool training_;
};

// Over all ranks, in double: counts stay whole numbers.
void add_up(dist::Group& group, double& loss_sum, TopK& score) {
  const auto sums = at::tensor({loss_sum, static_cast<double>(score.samples), static_cast<double>(score.first),
                                static_cast<double>(score.first_five)},
                               at::kDouble);
  group.all_reduce(sums);
  const double* const values = sums.const_data_ptr<double>();
  loss_sum = values[0];
  score = {.samples = std::llround(values[1]), .first = std::llround(values[2]), .first_five = std::llround(values[3])};
}

}  // namespace

Evaluation evaluate(Model& model, const std::shared_ptr<const data::Dataset>& dataset, const data::Pipeline& pipeline,
                    const EvaluateOptions& options) {
  const torch::NoGradGuard no_grad;
  const EvalMode mode(model);
  const data::BatchOrder order({.samples = dataset->size(),
                                .batch_global = options.images_at_once,
                                .shuffle = false,
                                .keep_last = true,
                                .epochs = 1,
                                .rank = options.group ? options.group->rank() : 0,
                                .world = options.group ? options.group->world() : 1,
                                .whole_batches = true});
  data::Loader loader(dataset, pipeline, order,
                      {.workers = options.workers,
                       .channels_last = options.channels_last,
                       .on_broken = data::OnBroken::kSkip,
                       .broken_limit = options.broken_limit});
  Evaluation result;
  double loss_sum = 0;
  while (const auto batch = loader.next()) {
    const int64_t count = batch->images.size(0);
    if (count > 0) {
      const auto logits = forward(model, batch->images, options.bfloat16).logits;
      loss_sum += cross_entropy(logits, batch->labels.to(logits.device())).item<double>() * static_cast<double>(count);
      result.score.add(logits, batch->labels);
    }
    for (auto& sample : loader.newly_broken()) result.broken.push_back(std::move(sample));
    if (options.progress) options.progress(result.score.samples);
  }
  if (options.group) add_up(*options.group, loss_sum, result.score);
  if (result.score.samples > 0) result.loss = loss_sum / static_cast<double>(result.score.samples);
  return result;
}

}  // namespace frn::train
