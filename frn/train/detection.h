// The task of the paper's second half: which objects are in an image, and where. Focal loss and a loss of boxes over
// anchors; COCO's average precision.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "frn/detection/detect.h"
#include "frn/train/loss_normaliser.h"
#include "frn/train/task.h"

namespace frn::train {

struct FoundBox {
  data::Box box;
  double score = 0;
};

struct DetectionOptions {
  std::vector<std::string> classes{};  // for predictions; empty: they are numbered
  std::vector<int64_t> class_ids{};    // of the set's files, for detections that are written; empty: 1, 2, ...
  detection::Style style = detection::Style::kPaper;
  LossNormaliser normaliser = LossNormaliser::kDevice;
  bool drop_crowd = false;  // whether boxes of crowds are left out of training
  detection::DetectOptions detect{};
  std::vector<int64_t> max_detections{1, 10, 100};  // of COCO's numbers: per image and class
};

// Outputs: logits [N, anchors, classes] and codes [N, anchors, 4] of a detector (models/retinanet.cpp), or of any
// network whose anchors are those of detection::make_anchors. Targets: boxes; for scores truths, or the boxes where a
// set has none. Losses: class_loss and box_loss.
class Detection : public Task {
 public:
  // Throws frn::Error for options that do not fit together.
  explicit Detection(DetectionOptions options = {});

  std::string name() const override { return "detection"; }
  std::vector<NamedLoss> losses(const Outputs& outputs, const data::Batch& batch,
                                const LossContext& context) const override;
  double weight(const data::Batch& batch) const override;
  bool weighs_samples() const override { return options_.normaliser != LossNormaliser::kStep; }
  // AP, AP50, AP75, APs, APm, APl, AR1, AR10, AR100, ARs, ARm, ARl
  std::vector<Metric> metrics() const override;
  std::unique_ptr<Score> make_score() const override;
  // Positive anchors of an image.
  std::vector<Metric> training_metrics() const override;
  std::unique_ptr<Score> make_training_score() const override;
  Description describe(const Outputs& outputs, const data::Batch& batch, int64_t sample,
                       const DescribeOptions& options) const override;

  // What the network finds in sample number `sample`, in pixels of the image before it was moved, best first.
  std::vector<FoundBox> found(const Outputs& outputs, const data::Batch& batch, int64_t sample) const;
  // How many anchors stand for a box, for each image.
  std::vector<int64_t> positives_of(const data::Batch& batch) const;

 private:
  // Anchors of a batch's images; they are made once for a size.
  std::shared_ptr<const detection::Anchors> anchors_of(const data::Batch& batch) const;
  // Of each image: the boxes that are learned, and which of them an anchor stands for.
  struct Matched {
    std::vector<data::Box> boxes;
    std::vector<int32_t> of_anchors;
  };
  std::vector<Matched> matched(const data::Batch& batch, const detection::Anchors& anchors) const;

  DetectionOptions options_;
  struct Cache;
  std::shared_ptr<Cache> cache_;
};

}  // namespace frn::train
