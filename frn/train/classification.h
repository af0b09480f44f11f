// The task of the paper's first half: which class an image has. Cross entropy, Precision@1 and Recall@5.
#pragma once

#include <string>
#include <vector>

#include "frn/train/task.h"

namespace frn::train {

struct ClassificationOptions {
  std::vector<std::string> classes{};  // for predictions; empty: they are numbered
  double label_smoothing = 0;          // in training
  double auxiliary_weight = 0.4;       // of the loss of an auxiliary head, a model's second output while training
};

// Outputs: logits [N, classes]. Targets: label. Losses are means over samples.
class Classification : public Task {
 public:
  explicit Classification(ClassificationOptions options = {});

  std::string name() const override { return "classification"; }
  std::vector<NamedLoss> losses(const Outputs& outputs, const data::Batch& batch,
                                const LossContext& context) const override;
  std::vector<Metric> metrics() const override;
  std::unique_ptr<Score> make_score() const override;
  Description describe(const Outputs& outputs, const data::Batch& batch, int64_t sample,
                       const DescribeOptions& options) const override;

 private:
  ClassificationOptions options_;
};

}  // namespace frn::train
