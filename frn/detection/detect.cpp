#include "frn/detection/detect.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "frn/core/error.h"
#include "frn/detection/box_code.h"
#include "frn/metrics/nms.h"

namespace frn::detection {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

void check_shapes(std::span<const float> logits, std::span<const float> codes, const Anchors& anchors) {
  const auto count = anchors.boxes.size();
  if (count == 0 || logits.size() % count != 0 || logits.empty() || codes.size() != 4 * count) {
    throw Error("detect", "logits and codes must be [" + std::to_string(count) + ", classes] and [" +
                              std::to_string(count) + ", 4] but hold " + std::to_string(logits.size()) + " and " +
                              std::to_string(codes.size()) + " numbers");
  }
}

Corners cut(const Corners& box, float height, float width) {
  return {std::clamp(box.left, 0.0F, width), std::clamp(box.top, 0.0F, height), std::clamp(box.right, 0.0F, width),
          std::clamp(box.bottom, 0.0F, height)};
}

bool has_area(const Corners& box) { return box.left < box.right && box.top < box.bottom; }

float sigmoid(float x) { return static_cast<float>(1 / (1 + std::exp(-double{x}))); }

// The logit whose sigmoid is the score: a sigmoid grows with its logit, so that logits serve as scores.
float logit_of(double score) { return score <= 0 ? kNever : static_cast<float>(std::log(score / (1 - score))); }

// All of them: a few milliseconds for the paper's 130,944.
std::vector<float> decoded(std::span<const float> codes, const Anchors& anchors, const CodeWeights& weights) {
  std::vector<float> out(codes.size());
  for (size_t i = 0; i < anchors.boxes.size(); ++i) {
    const auto box =
        decode({codes[4 * i], codes[4 * i + 1], codes[4 * i + 2], codes[4 * i + 3]}, anchors.boxes[i], weights);
    const std::array sides{box.left, box.top, box.right, box.bottom};
    if (std::any_of(sides.begin(), sides.end(), [](float side) { return std::isnan(side); })) {
      throw Error("detect", "the network's boxes must be numbers but one is not (NaN)");
    }
    std::copy(sides.begin(), sides.end(), out.begin() + static_cast<std::ptrdiff_t>(4 * i));
  }
  return out;
}

Corners corners_at(std::span<const float> boxes, int64_t index) {
  const float* const box = boxes.data() + 4 * index;
  return {box[0], box[1], box[2], box[3]};
}

void cut_all(std::span<float> boxes, float height, float width) {
  for (size_t i = 0; i < boxes.size(); i += 2) {
    boxes[i] = std::clamp(boxes[i], 0.0F, width);
    boxes[i + 1] = std::clamp(boxes[i + 1], 0.0F, height);
  }
}

// The logits with all but the `most` best of each level taken out; of equal ones the first stay.
std::vector<float> best_of_levels(std::span<const float> logits, const Anchors& anchors, int64_t classes, float above,
                                  int64_t most) {
  std::vector<float> out(logits.size(), kNever);
  size_t begin = 0;
  for (const int64_t anchors_of_level : anchors.per_level) {
    const size_t end = begin + static_cast<size_t>(anchors_of_level * classes);
    std::vector<size_t> places;
    for (size_t i = begin; i < end; ++i) {
      if (!(logits[i] <= above)) places.push_back(i);  // what is not a number too: it is refused later
    }
    const auto kept = std::min(places.size(), static_cast<size_t>(most));
    const auto better = [&](size_t a, size_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; };
    std::nth_element(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(kept), places.end(), better);
    for (size_t i = 0; i < kept; ++i) out[places[i]] = logits[places[i]];
    begin = end;
  }
  return out;
}

}  // namespace

DetectOptions detect_options_of(Style style) {
  if (style == Style::kPaper) return {};
  return {.style = style, .least_score = 0.05, .overlap = 0.5, .most = 300, .most_per_level = 1000, .cut_first = true};
}

std::vector<Detection> detect(std::span<const float> logits, std::span<const float> codes, const Anchors& anchors,
                              int64_t height, int64_t width, const DetectOptions& options) {
  check_shapes(logits, codes, anchors);
  const auto classes = static_cast<int64_t>(logits.size() / anchors.boxes.size());
  const auto rows = static_cast<float>(height);
  const auto columns = static_cast<float>(width);
  auto boxes = decoded(codes, anchors, weights_of(options.style));
  if (options.cut_first) cut_all(boxes, rows, columns);
  const float above = logit_of(options.least_score);
  std::vector<float> best;
  if (options.most_per_level) {
    best = best_of_levels(logits, anchors, classes, above, *options.most_per_level);
    logits = best;
  }
  std::vector<Detection> out;
  for (const auto& [box, label, logit] :
       best_detections(boxes, logits, classes,
                       {.score_threshold = above, .iou_threshold = options.overlap, .most = options.most})) {
    const auto shown = cut(corners_at(boxes, box), rows, columns);
    if (has_area(shown)) out.push_back({shown, static_cast<int32_t>(label), sigmoid(logit)});
  }
  return out;
}

}  // namespace frn::detection
