#include "frn/train/classification.h"

#include <ATen/ops/softmax.h>
#include <ATen/ops/topk.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "frn/core/error.h"
#include "frn/core/text.h"
#include "frn/losses/cross_entropy.h"
#include "frn/metrics/top_k.h"

namespace frn::train {
namespace {

class TopKScore : public Score {
 public:
  void add(const Outputs& outputs, const data::Batch& batch) override {
    const auto& logits = outputs.at(0);
    const auto labels = batch.labels();
    if (logits.dim() != 2 || labels.size(0) != logits.size(0)) {
      throw Error("classification", "logits and labels must have shapes [N, classes] and [N] but have " +
                                        shape_text(logits.sizes()) + " and " + shape_text(labels.sizes()));
    }
    const auto scores = logits.detach().to(at::kCPU, at::kFloat).contiguous();
    top_k_.add({scores.const_data_ptr<float>(), static_cast<size_t>(scores.numel())}, scores.size(1),
               {labels.const_data_ptr<int64_t>(), static_cast<size_t>(labels.numel())});
  }

  std::vector<double> pack() const override {
    return {static_cast<double>(top_k_.samples), static_cast<double>(top_k_.first),
            static_cast<double>(top_k_.first_five)};
  }

  void merge(std::span<const double> packed) override {
    if (packed.size() != 3)
      throw Error("classification", "a score must have 3 numbers but has " + std::to_string(packed.size()));
    top_k_.samples += std::llround(packed[0]);
    top_k_.first += std::llround(packed[1]);
    top_k_.first_five += std::llround(packed[2]);
  }

  std::vector<double> values() const override { return {top_k_.precision_at_1(), top_k_.recall_at_5()}; }

 private:
  TopK top_k_;
};

// One sentence here, where the library below would say "out of bounds" and no more.
void check_labels(const at::Tensor& labels, const at::Tensor& logits, const data::Batch& batch) {
  const auto* const values = labels.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < labels.numel(); ++i) {
    if (values[i] >= 0 && values[i] < logits.size(-1)) continue;
    const auto name = static_cast<size_t>(i) < batch.names.size() ? batch.names[static_cast<size_t>(i)] : "a sample";
    throw Error("classification",
                fmt::format("labels must be from 0 to {}, as the network has {} outputs, but {} has {}",
                            logits.size(-1) - 1, logits.size(-1), name, values[i]));
  }
}

}  // namespace

Classification::Classification(ClassificationOptions options) : options_(std::move(options)) {}

std::vector<NamedLoss> Classification::losses(const Outputs& outputs, const data::Batch& batch,
                                              const LossContext& context) const {
  const double smoothing = context.training ? options_.label_smoothing : 0;
  const auto given = batch.labels();
  check_labels(given, outputs.at(0), batch);
  const auto labels = given.to(outputs[0].device());
  std::vector<NamedLoss> out{{"class_loss", cross_entropy(outputs[0], labels, smoothing)}};
  if (outputs.size() > 1) {
    out.push_back({"auxiliary_loss", options_.auxiliary_weight * cross_entropy(outputs[1], labels, smoothing)});
  }
  return out;
}

std::vector<Metric> Classification::metrics() const {
  const auto metrics = classification_metrics();
  return {metrics.begin(), metrics.end()};
}

std::unique_ptr<Score> Classification::make_score() const { return std::make_unique<TopKScore>(); }

Description Classification::describe(const Outputs& outputs, const data::Batch& /*batch*/, int64_t sample,
                                     const DescribeOptions& options) const {
  const auto probabilities = at::softmax(outputs.at(0)[sample].to(at::kFloat), 0);
  const auto [values, indices] = at::topk(probabilities, std::min(options.most, probabilities.size(0)));
  Description out;
  auto list = Value::empty_list();
  for (int64_t i = 0; i < values.size(0); ++i) {
    const auto index = static_cast<size_t>(indices[i].item<int64_t>());
    const auto name = index < options_.classes.size() ? options_.classes[index] : std::to_string(index);
    const double probability = values[i].item<double>();
    if (probability < options.least_score) break;
    list.push_back({{"name", name}, {"probability", probability}});
    out.text += fmt::format("  {:6.2f} %  {}\n", 100 * probability, one_line(name));
  }
  out.entries["classes"] = std::move(list);
  return out;
}

}  // namespace frn::train
