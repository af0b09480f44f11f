#include "frn/train/detection.h"

#include <ATen/Parallel.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/huber_loss.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "frn/core/error.h"
#include "frn/core/text.h"
#include "frn/detection/box_code.h"
#include "frn/detection/matching.h"
#include "frn/losses/focal.h"
#include "frn/train/detection_score.h"

namespace frn::train {
namespace {

using detection::Anchors;
using detection::Corners;
using detection::Style;

Corners corners_of(const data::Box& box) {
  return {static_cast<float>(box.left), static_cast<float>(box.top), static_cast<float>(box.right),
          static_cast<float>(box.bottom)};
}

// What the loss compares the outputs with.
struct Goals {
  at::Tensor classes;              // [N, anchors] int64, as focal_loss takes it
  std::vector<int64_t> places;     // of positive anchors, image*anchors + anchor
  std::vector<float> codes;        // four for each
  std::vector<int64_t> positives;  // of each image
};

void add_goals(const std::vector<int32_t>& matches, const std::vector<data::Box>& boxes, const Anchors& anchors,
               const detection::CodeWeights& weights, int64_t image, Goals& goals) {
  const auto count = static_cast<int64_t>(matches.size());
  int64_t* const classes = goals.classes.mutable_data_ptr<int64_t>() + image * count;
  for (int64_t a = 0; a < count; ++a) {
    const int32_t box = matches[static_cast<size_t>(a)];
    classes[a] = box < 0 ? box : boxes[static_cast<size_t>(box)].label;
    if (box < 0) continue;
    const auto code =
        detection::encode(corners_of(boxes[static_cast<size_t>(box)]), anchors.boxes[static_cast<size_t>(a)], weights);
    goals.places.push_back(image * count + a);
    goals.codes.insert(goals.codes.end(), code.begin(), code.end());
    ++goals.positives[static_cast<size_t>(image)];
  }
}

// By which an image's losses are multiplied.
at::Tensor weights_of_images(const std::vector<int64_t>& positives, LossNormaliser normaliser, int64_t devices) {
  const auto images = static_cast<int64_t>(positives.size());
  auto out = at::empty({images}, at::kDouble);
  double* const weights = out.mutable_data_ptr<double>();
  const auto at_least_1 = [](int64_t count) { return static_cast<double>(std::max<int64_t>(1, count)); };
  double of_step = 0;
  for (const auto count : positives) of_step += at_least_1(count);
  const int64_t per_device = std::max<int64_t>(1, images / devices);
  for (int64_t i = 0; i < images; ++i) {
    switch (normaliser) {
      case LossNormaliser::kImage:
        weights[i] = 1 / (static_cast<double>(images) * at_least_1(positives[static_cast<size_t>(i)]));
        break;
      case LossNormaliser::kStep:
        weights[i] = 1 / of_step;
        break;
      case LossNormaliser::kDevice: {
        const int64_t first = i / per_device * per_device;
        int64_t count = 0;
        for (int64_t k = first; k < std::min(first + per_device, images); ++k)
          count += positives[static_cast<size_t>(k)];
        weights[i] = static_cast<double>(per_device) / static_cast<double>(images) / at_least_1(count);
        break;
      }
    }
  }
  return out;
}

// Of positive anchors alone. Huber's, as the mean of the four numbers (paper), or the sum of distances (torchvision).
at::Tensor box_loss(const at::Tensor& codes, const Goals& goals, const at::Tensor& image_weights, Style style) {
  const auto count = static_cast<int64_t>(goals.places.size());
  const auto anchors = codes.size(1);
  if (count == 0) return codes.sum() * 0;  // all parameters keep a gradient, of 0
  auto places = at::empty({count}, at::kLong);
  std::copy(goals.places.begin(), goals.places.end(), places.mutable_data_ptr<int64_t>());
  auto wanted = at::empty({count, 4}, at::kFloat);
  std::copy(goals.codes.begin(), goals.codes.end(), wanted.mutable_data_ptr<float>());
  auto weights = at::empty({count, 1}, at::kFloat);
  for (int64_t i = 0; i < count; ++i) {
    weights.mutable_data_ptr<float>()[i] =
        static_cast<float>(image_weights.const_data_ptr<double>()[goals.places[static_cast<size_t>(i)] / anchors]);
  }
  const auto device = codes.device();
  const auto own = codes.reshape({-1, 4}).index_select(0, places.to(device));
  const auto target = wanted.to(device, own.scalar_type());
  const auto distance =
      style == Style::kPaper ? at::huber_loss(own, target, at::Reduction::None, 1.0) / 4 : at::abs(own - target);
  return (distance * weights.to(device, own.scalar_type())).sum();
}

at::Tensor widened(const at::Tensor& tensor) {
  const bool narrow = tensor.scalar_type() == at::kBFloat16 || tensor.scalar_type() == at::kHalf;
  return narrow ? tensor.to(at::kFloat) : tensor;
}

void check_outputs(const Outputs& outputs, const data::Batch& batch, const Anchors& anchors) {
  const auto count = static_cast<int64_t>(anchors.boxes.size());
  const bool fits = outputs.size() >= 2 && outputs[0].dim() == 3 && outputs[1].dim() == 3 &&
                    outputs[0].size(0) == batch.size() && outputs[0].size(1) == count && outputs[1].size(1) == count &&
                    outputs[1].size(2) == 4;
  if (fits) return;
  throw Error("detection",
              fmt::format("the network must give logits [{0}, {1}, classes] and codes [{0}, {1}, 4] for images {2} but "
                          "gave {3}{4}",
                          batch.size(), count, shape_text(batch.images.sizes()),
                          outputs.empty() ? "nothing" : shape_text(outputs[0].sizes()),
                          outputs.size() < 2 ? "" : " and " + shape_text(outputs[1].sizes())));
}

}  // namespace

struct Detection::Cache {
  std::mutex mutex;
  std::map<std::pair<int64_t, int64_t>, std::shared_ptr<const Anchors>> anchors;  // by height and width
};

Detection::Detection(DetectionOptions options) : options_(std::move(options)), cache_(std::make_shared<Cache>()) {
  if (!options_.class_ids.empty() && options_.class_ids.size() != options_.classes.size()) {
    throw Error("detection", fmt::format("class_ids must be as many as the {} classes but are {}",
                                         options_.classes.size(), options_.class_ids.size()));
  }
  if (options_.detect.style != options_.style) {
    throw Error("detection", "detect.style must be the style of the task but is another");
  }
  if (options_.max_detections.empty()) throw Error("detection", "max_detections must name a count but is empty");
}

std::shared_ptr<const Anchors> Detection::anchors_of(const data::Batch& batch) const {
  const std::lock_guard lock(cache_->mutex);
  const int64_t height = batch.images.size(2);
  const int64_t width = batch.images.size(3);
  auto& anchors = cache_->anchors[{height, width}];
  if (!anchors) {
    anchors = std::make_shared<const Anchors>(detection::make_anchors(options_.style, height, width));
  }
  return anchors;
}

std::vector<Detection::Matched> Detection::matched(const data::Batch& batch, const Anchors& anchors) const {
  std::vector<Matched> out(static_cast<size_t>(batch.size()));
  const auto rule = detection::rule_of(options_.style);
  at::parallel_for(0, batch.size(), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      std::vector<Corners> corners;
      for (const auto& box : batch.targets.at(i).boxes) {
        if (box.crowd && options_.drop_crowd) continue;
        out[i].boxes.push_back(box);
        corners.push_back(corners_of(box));
      }
      out[i].of_anchors = detection::match(anchors.boxes, corners, rule);
    }
  });
  return out;
}

std::vector<int64_t> Detection::positives_of(const data::Batch& batch) const {
  std::vector<int64_t> out;
  for (const auto& image : matched(batch, *anchors_of(batch))) {
    out.push_back(
        std::count_if(image.of_anchors.begin(), image.of_anchors.end(), [](int32_t box) { return box >= 0; }));
  }
  return out;
}

double Detection::weight(const data::Batch& batch) const {
  if (options_.normaliser != LossNormaliser::kStep) return static_cast<double>(batch.size());
  int64_t sum = 0;
  for (const int64_t count : positives_of(batch)) sum += std::max<int64_t>(1, count);
  return static_cast<double>(sum);
}

std::vector<NamedLoss> Detection::losses(const Outputs& outputs, const data::Batch& batch,
                                         const LossContext& context) const {
  const auto anchors = anchors_of(batch);
  check_outputs(outputs, batch, *anchors);
  const auto images = batch.size();
  Goals goals{.classes = at::empty({images, static_cast<int64_t>(anchors->boxes.size())}, at::kLong),
              .places = {},
              .codes = {},
              .positives = std::vector<int64_t>(static_cast<size_t>(images))};
  const auto weights = detection::weights_of(options_.style);
  const auto of_batch = matched(batch, *anchors);
  for (int64_t i = 0; i < images; ++i) {
    const auto& image = of_batch[static_cast<size_t>(i)];
    add_goals(image.of_anchors, image.boxes, *anchors, weights, i, goals);
  }
  const auto of_images = weights_of_images(goals.positives, options_.normaliser, context.devices);
  return {{"class_loss", focal_loss(outputs[0], goals.classes, of_images)},
          {"box_loss", box_loss(widened(outputs[1]), goals, of_images, options_.style)}};
}

std::vector<Metric> Detection::metrics() const { return coco_metrics(options_.max_detections); }

std::vector<Metric> Detection::training_metrics() const {
  return {{"positives_per_image", "positives", MetricKind::kCount}};
}

std::unique_ptr<Score> Detection::make_score() const { return make_detection_score(*this, options_); }
std::unique_ptr<Score> Detection::make_training_score() const { return make_positives_score(*this); }

std::vector<FoundBox> Detection::found(const Outputs& outputs, const data::Batch& batch, int64_t sample) const {
  const auto anchors = anchors_of(batch);
  check_outputs(outputs, batch, *anchors);
  const auto numbers = [&](const at::Tensor& tensor) {
    return tensor.detach()[sample].to(at::kCPU, at::kFloat).contiguous();
  };
  const auto logits = numbers(outputs[0]);
  const auto codes = numbers(outputs[1]);
  const auto as_span = [](const at::Tensor& tensor) {
    return std::span(tensor.const_data_ptr<float>(), static_cast<size_t>(tensor.numel()));
  };
  std::vector<FoundBox> out;
  const auto geometry = batch.geometries.empty() ? data::Geometry{} : batch.geometries.at(static_cast<size_t>(sample));
  for (const auto& one : detection::detect(as_span(logits), as_span(codes), *anchors, batch.images.size(2),
                                           batch.images.size(3), options_.detect)) {
    const auto box = data::moved_back({.left = one.box.left,
                                       .top = one.box.top,
                                       .right = one.box.right,
                                       .bottom = one.box.bottom,
                                       .label = one.label},
                                      geometry);
    out.push_back({box, one.score});
  }
  return out;
}

Description Detection::describe(const Outputs& outputs, const data::Batch& batch, int64_t sample,
                                const DescribeOptions& options) const {
  auto boxes = found(outputs, batch, sample);
  std::erase_if(boxes, [&](const FoundBox& one) { return one.score < options.least_score; });
  if (static_cast<int64_t>(boxes.size()) > options.most) boxes.resize(static_cast<size_t>(options.most));
  Description out;
  auto list = Value::empty_list();
  for (const auto& [box, score] : boxes) {
    const auto label = static_cast<size_t>(box.label);
    const auto name = label < options_.classes.size() ? options_.classes[label] : std::to_string(label);
    list.push_back({{"name", name},
                    {"score", score},
                    {"box", Value::list_of(std::vector<double>{box.left, box.top, box.right, box.bottom})}});
    out.text += fmt::format("  {:6.2f} %  {:<16} {:.0f}, {:.0f} to {:.0f}, {:.0f}\n", 100 * score, one_line(name),
                            box.left, box.top, box.right, box.bottom);
    out.boxes.push_back({box, name, score});
  }
  out.entries["detections"] = std::move(list);
  return out;
}

}  // namespace frn::train
