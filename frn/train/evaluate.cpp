#include "frn/train/evaluate.h"

#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <torch/types.h>

#include <algorithm>
#include <limits>

namespace frn::train {
namespace {

// Sets eval mode while it lives.
class EvalMode {
 public:
  explicit EvalMode(torch::nn::Module& model) : model_(model), training_(model.is_training()) { model_.eval(); }
  ~EvalMode() { model_.train(training_); }
  EvalMode(const EvalMode&) = delete;
  EvalMode& operator=(const EvalMode&) = delete;

 private:
  torch::nn::Module& model_;
  bool training_;
};

// Of this rank.
struct SetSums {
  double samples = 0;
  double weight = 0;
  NamedValues losses;

  void add(const std::vector<NamedLoss>& of_batch, double batch_weight, int64_t count) {
    if (losses.empty()) {
      for (const auto& loss : of_batch) losses.push_back({loss.name, 0});
    }
    for (size_t i = 0; i < of_batch.size(); ++i) {
      losses.at(i).value += of_batch[i].value.item<double>() * batch_weight;
    }
    weight += batch_weight;
    samples += static_cast<double>(count);
  }
};

// Every rank's numbers, in the order of ranks; each may have another count.
std::vector<std::vector<double>> gather_lists(dist::Group& group, std::span<const double> own) {
  const auto lengths = group.gather(at::tensor({static_cast<int64_t>(own.size())}, at::kLong));
  auto padded = at::zeros({std::max<int64_t>(1, lengths.max().item<int64_t>())}, at::kDouble);
  std::copy(own.begin(), own.end(), padded.mutable_data_ptr<double>());
  const auto all = group.gather(padded).contiguous();
  std::vector<std::vector<double>> out;
  for (int64_t rank = 0; rank < group.world(); ++rank) {
    const double* const first = all.const_data_ptr<double>() + rank * all.size(1);
    out.emplace_back(first, first + lengths[rank].item<int64_t>());
  }
  return out;
}

// A rank that had no batch, or none that could be read, does not know the losses' names: it learns them from the first
// rank that does.
void learn_names(dist::Group& group, NamedValues& losses) {
  auto names = Value::empty_list();
  for (const auto& loss : losses) names.push_back(loss.key);
  const auto text = to_json(names);
  for (const auto& letters : gather_lists(group, std::vector<double>(text.begin(), text.end()))) {
    if (!losses.empty()) return;
    std::string theirs(letters.size(), ' ');
    std::transform(letters.begin(), letters.end(), theirs.begin(), [](double c) { return static_cast<char>(c); });
    for (const auto& name : parse_json(theirs).as_list()) losses.push_back({name.as_text(), 0});
  }
}

// Over all ranks, in double: counts stay whole numbers.
void add_up(dist::Group& group, SetSums& sums) {
  learn_names(group, sums.losses);
  std::vector<double> numbers{sums.samples, sums.weight};
  for (const auto& loss : sums.losses) numbers.push_back(loss.value);
  const auto all = at::tensor(numbers, at::kDouble);
  group.all_reduce(all);
  const double* const values = all.const_data_ptr<double>();
  sums.samples = values[0];
  sums.weight = values[1];
  for (size_t i = 0; i < sums.losses.size(); ++i) sums.losses[i].value = values[2 + i];
}

// Every rank's score in one, in the order of ranks.
std::unique_ptr<Score> merged(dist::Group& group, const Task& task, const Score& own) {
  auto out = task.make_score();
  for (const auto& packed : gather_lists(group, own.pack())) out->merge(packed);
  return out;
}

NamedValues values_of(const Task& task, const SetSums& sums, const Score& score) {
  const auto mean = [&](double sum) { return sums.weight > 0 ? sum / sums.weight : 0; };
  double loss = 0;
  for (const auto& part : sums.losses) loss += part.value;
  NamedValues out{{"loss", mean(loss)}};
  if (sums.losses.size() > 1) {
    for (const auto& part : sums.losses) out.push_back({part.key, mean(part.value)});
  }
  for (auto& value : named_values(task.metrics(), score)) {
    if (value.key != "loss") out.push_back(std::move(value));
  }
  return out;
}

data::BatchOrder order_of(const data::Dataset& dataset, const EvaluateOptions& options) {
  return data::BatchOrder({.samples = dataset.size(),
                           .batch_global = options.images_at_once,
                           .shuffle = false,
                           .keep_last = true,
                           .epochs = 1,
                           .rank = options.group ? options.group->rank() : 0,
                           .world = options.group ? options.group->world() : 1,
                           .whole_batches = true});
}

}  // namespace

Evaluation evaluate(const Network& network, const Task& task, const std::shared_ptr<const data::Dataset>& dataset,
                    const data::Pipeline& pipeline, const EvaluateOptions& options) {
  const torch::NoGradGuard no_grad;
  const EvalMode mode(network.module());
  data::Loader loader(dataset, pipeline, order_of(*dataset, options),
                      {.workers = options.workers,
                       .channels_last = options.channels_last,
                       .on_broken = data::OnBroken::kSkip,
                       .broken_limit = options.broken_limit});
  Evaluation result;
  SetSums sums;
  auto score = task.make_score();
  while (const auto batch = loader.next()) {
    if (batch->size() > 0) {
      const auto outputs = network.forward(batch->images, options.bfloat16);
      sums.add(task.losses(outputs, *batch, {.training = false, .devices = 1}), task.weight(*batch), batch->size());
      score->add(outputs, *batch);
    }
    for (auto& sample : loader.newly_broken()) result.broken.push_back(std::move(sample));
    if (options.progress) options.progress(static_cast<int64_t>(sums.samples));
  }
  if (options.group && options.group->world() > 1) {
    add_up(*options.group, sums);
    score = merged(*options.group, task, *score);
  }
  result.samples = static_cast<int64_t>(sums.samples);
  result.values = values_of(task, sums, *score);
  result.score = std::move(score);
  return result;
}

}  // namespace frn::train
