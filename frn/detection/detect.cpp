#include "frn/detection/detect.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "frn/core/error.h"
#include "frn/detection/box_code.h"
#include "frn/detection/matching.h"

namespace frn::detection {
namespace {

// A pair of anchor and class.
struct Candidate {
  float logit;
  int64_t place;  // anchor*classes + class
};

bool comes_before(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.place < b.place;
}

// A whole number that grows with the float.
uint32_t key_of(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

constexpr int kBinBits = 16;
constexpr uint32_t kBins = 1U << kBinBits;
uint32_t bin_of(float value) { return key_of(value) >> (32 - kBinBits); }

// Gives the values above a bound in falling order, some at a time: values fall into bins by their first 16 bits, and
// bins are sorted when their turn comes.
class InOrder {
 public:
  InOrder(std::span<const float> values, int64_t first_place, float above)
      : values_(values), first_place_(first_place), above_(above), counts_(kBins) {
    for (const float value : values_) {
      if (value > above_) ++counts_[bin_of(value)];
    }
  }

  // The next ones, at least `least` unless there are no more.
  std::vector<Candidate> next(int64_t least) {
    const uint32_t end = bin_;
    int64_t count = 0;
    while (bin_ > 0 && count < least) count += counts_[--bin_];
    std::vector<Candidate> out;
    if (count == 0) return out;
    out.reserve(static_cast<size_t>(count));
    for (size_t i = 0; i < values_.size(); ++i) {
      if (!(values_[i] > above_)) continue;
      const auto bin = bin_of(values_[i]);
      if (bin >= bin_ && bin < end) out.push_back({values_[i], first_place_ + static_cast<int64_t>(i)});
    }
    std::sort(out.begin(), out.end(), comes_before);
    return out;
  }

 private:
  std::span<const float> values_;
  int64_t first_place_;
  float above_;
  std::vector<int64_t> counts_;
  uint32_t bin_ = kBins;  // the lowest one given
};

Corners cut(const Corners& box, float height, float width) {
  return {std::clamp(box.left, 0.0F, width), std::clamp(box.top, 0.0F, height), std::clamp(box.right, 0.0F, width),
          std::clamp(box.bottom, 0.0F, height)};
}

bool has_area(const Corners& box) { return box.left < box.right && box.top < box.bottom; }

float sigmoid(float x) { return static_cast<float>(1 / (1 + std::exp(-double{x}))); }

// Takes candidates in order and keeps those that no better one of their class covers.
class Chooser {
 public:
  Chooser(std::span<const float> codes, const Anchors& anchors, int64_t classes, int64_t height, int64_t width,
          const DetectOptions& options)
      : codes_(codes),
        anchors_(anchors),
        classes_(classes),
        height_(static_cast<float>(height)),
        width_(static_cast<float>(width)),
        options_(options),
        weights_(weights_of(options.style)),
        kept_(static_cast<size_t>(classes)) {}

  bool full() const { return taken_ >= options_.most; }

  void take(const Candidate& candidate) {
    const auto anchor = static_cast<size_t>(candidate.place / classes_);
    const auto label = static_cast<int32_t>(candidate.place % classes_);
    const auto box = decoded(anchor);
    auto& same_class = kept_[static_cast<size_t>(label)];
    const auto covers = [&](const Corners& better) { return iou(better, box) > static_cast<float>(options_.overlap); };
    if (std::any_of(same_class.begin(), same_class.end(), covers)) return;
    same_class.push_back(box);
    ++taken_;
    const auto shown = cut(box, height_, width_);
    if (has_area(shown)) out_.push_back({shown, label, sigmoid(candidate.logit)});
  }

  std::vector<Detection> result() { return std::move(out_); }

 private:
  Corners decoded(size_t anchor) const {
    BoxCode code{};
    for (size_t i = 0; i < code.size(); ++i) {
      code[i] = codes_[4 * anchor + i];
      if (std::isnan(code[i])) throw Error("detect", "the network's boxes must be numbers but one is not (NaN)");
    }
    const auto box = decode(code, anchors_.boxes[anchor], weights_);
    return options_.cut_first ? cut(box, height_, width_) : box;
  }

  std::span<const float> codes_;
  const Anchors& anchors_;
  int64_t classes_;
  float height_, width_;
  const DetectOptions& options_;
  CodeWeights weights_;
  std::vector<std::vector<Corners>> kept_;  // by class
  int64_t taken_ = 0;
  std::vector<Detection> out_;
};

void check_shapes(std::span<const float> logits, std::span<const float> codes, const Anchors& anchors) {
  const auto count = anchors.boxes.size();
  if (count == 0 || logits.size() % count != 0 || logits.empty() || codes.size() != 4 * count) {
    throw Error("detect", "logits and codes must be [" + std::to_string(count) + ", classes] and [" +
                              std::to_string(count) + ", 4] but hold " + std::to_string(logits.size()) + " and " +
                              std::to_string(codes.size()) + " numbers");
  }
  if (std::any_of(logits.begin(), logits.end(), [](float x) { return std::isnan(x); })) {
    throw Error("detect", "the network's scores must be numbers but one is not (NaN)");
  }
}

// The logit whose sigmoid is the score.
float logit_of(double score) {
  if (score <= 0) return -std::numeric_limits<float>::infinity();
  return static_cast<float>(std::log(score / (1 - score)));
}

// The best of each level, in one order.
std::vector<Candidate> best_of_levels(std::span<const float> logits, const Anchors& anchors, int64_t classes,
                                      float above, int64_t most) {
  std::vector<Candidate> all;
  int64_t first = 0;
  for (const int64_t count : anchors.per_level) {
    const auto values = logits.subspan(static_cast<size_t>(first * classes), static_cast<size_t>(count * classes));
    auto best = InOrder(values, first * classes, above).next(most);
    if (static_cast<int64_t>(best.size()) > most) best.resize(static_cast<size_t>(most));
    all.insert(all.end(), best.begin(), best.end());
    first += count;
  }
  std::sort(all.begin(), all.end(), comes_before);
  return all;
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
  Chooser chooser(codes, anchors, classes, height, width, options);
  const auto walk = [&](const std::vector<Candidate>& candidates) {
    for (const auto& candidate : candidates) {
      if (chooser.full()) return;
      chooser.take(candidate);
    }
  };
  const float above = logit_of(options.least_score);
  if (options.most_per_level) {
    walk(best_of_levels(logits, anchors, classes, above, *options.most_per_level));
    return chooser.result();
  }
  InOrder order(logits, 0, above);
  // Most candidates lie around boxes that are taken already; asking for more each time keeps the passes few.
  for (int64_t wanted = 32 * options.most; !chooser.full(); wanted *= 4) {
    const auto candidates = order.next(wanted);
    if (candidates.empty()) break;
    walk(candidates);
  }
  return chooser.result();
}

}  // namespace frn::detection
