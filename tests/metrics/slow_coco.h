// COCO's evaluation written down as it is defined, one question at a time, to compare the fast one with.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "frn/metrics/coco_ap.h"

namespace frn::slow {

struct Case {
  std::vector<int64_t> images;
  std::vector<int64_t> categories;
  std::vector<CocoTruth> truths;
  std::vector<CocoDetection> detections;
};

struct Range {
  double least, most;
};
constexpr std::array<Range, 4> kRanges{{{0, 1e10}, {0, 1024}, {1024, 9216}, {9216, 1e10}}};

inline bool is_in(const Range& range, double area) { return area >= range.least && area <= range.most; }

inline double overlap(const CocoBox& found, const CocoTruth& truth) {
  const auto& box = truth.box;
  const double width = std::min(found.x + found.width, box.x + box.width) - std::max(found.x, box.x);
  const double height = std::min(found.y + found.height, box.y + box.height) - std::max(found.y, box.y);
  if (width <= 0 || height <= 0) return 0;
  const double common = width * height;
  const double own = found.width * found.height;
  return common / (truth.crowd ? own : own + box.width * box.height - common);
}

enum class Verdict { kRight, kWrong, kIgnored };

struct Judged {
  double score;
  Verdict verdict;
};

// One image, category, range and threshold. Detections come best first.
inline std::vector<Judged> judge(const std::vector<CocoTruth>& truths, const std::vector<CocoDetection>& detections,
                                 const Range& range, double threshold) {
  const auto is_ignored = [&](const CocoTruth& truth) { return truth.crowd || !is_in(range, truth.area); };
  std::vector<bool> taken(truths.size());
  std::vector<Judged> out;
  for (const auto& found : detections) {
    std::optional<size_t> match;
    for (const bool among_ignored : {false, true}) {
      double best = threshold;
      for (size_t i = 0; i < truths.size() && (!match || is_ignored(truths[*match]) == among_ignored); ++i) {
        if (is_ignored(truths[i]) != among_ignored || (taken[i] && !truths[i].crowd)) continue;
        if (overlap(found.box, truths[i]) < best) continue;
        best = overlap(found.box, truths[i]);
        match = i;
      }
    }
    const bool outside = !is_in(range, found.box.width * found.box.height);
    auto verdict = outside ? Verdict::kIgnored : Verdict::kWrong;
    if (match) {
      taken[*match] = true;
      verdict = is_ignored(truths[*match]) ? Verdict::kIgnored : Verdict::kRight;
    }
    out.push_back({found.score, verdict});
  }
  return out;
}

struct Curve {
  double recall = -1;
  std::vector<double> precision = std::vector<double>(kCocoRecalls, -1);  // at each recall
};

// One category, range, threshold and largest number of detections, over all images.
inline Curve curve_of(const Case& all, int64_t category, const Range& range, double threshold, size_t most) {
  std::vector<Judged> judged;
  int64_t truths = 0;
  for (const int64_t image : std::set<int64_t>(all.images.begin(), all.images.end())) {
    std::vector<CocoTruth> here;
    std::vector<CocoDetection> found;
    for (const auto& truth : all.truths) {
      if (truth.image_id == image && truth.category_id == category) here.push_back(truth);
    }
    for (const auto& detection : all.detections) {
      if (detection.image_id == image && detection.category_id == category) found.push_back(detection);
    }
    std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.score > b.score; });
    if (found.size() > most) found.resize(most);
    for (const auto& truth : here) truths += !truth.crowd && is_in(range, truth.area) ? 1 : 0;
    const auto more = judge(here, found, range, threshold);
    judged.insert(judged.end(), more.begin(), more.end());
  }
  Curve out;
  if (truths == 0) return out;
  std::stable_sort(judged.begin(), judged.end(), [](const Judged& a, const Judged& b) { return a.score > b.score; });
  std::vector<std::pair<double, double>> points;  // recall, precision
  double right = 0;
  double wrong = 0;
  for (const auto& [score, verdict] : judged) {
    right += verdict == Verdict::kRight ? 1 : 0;
    wrong += verdict == Verdict::kWrong ? 1 : 0;
    points.emplace_back(right / static_cast<double>(truths), right / (right + wrong + 2.220446049250313e-16));
  }
  out.recall = points.empty() ? 0 : points.back().first;
  for (size_t i = 0; i < kCocoRecalls; ++i) {
    double best = 0;
    for (const auto& [recall, precision] : points) {
      if (recall >= static_cast<double>(i) * 0.01) best = std::max(best, precision);
    }
    out.precision[i] = best;
  }
  return out;
}

// -1 and below are no values.
inline double mean(const std::vector<double>& values) {
  double sum = 0;
  double count = 0;
  for (const double value : values) {
    sum += value > -1 ? value : 0;
    count += value > -1 ? 1 : 0;
  }
  return count == 0 ? -1 : sum / count;
}

// numpy.linspace(0.5, 0.95, 10): one of them is not what it looks like.
constexpr std::array<double, kCocoThresholds> kThresholds{
    0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.8999999999999999, 0.95};

struct Averages {
  double ap, ar;
};

// Over the categories and thresholds that are given.
inline Averages averages(const Case& all, const std::vector<int64_t>& categories, const Range& range,
                         const std::vector<double>& thresholds, int64_t most) {
  std::vector<double> precisions;
  std::vector<double> recalls;
  for (const int64_t category : categories) {
    for (const double threshold : thresholds) {
      const auto curve = curve_of(all, category, range, threshold, static_cast<size_t>(most));
      precisions.insert(precisions.end(), curve.precision.begin(), curve.precision.end());
      recalls.push_back(curve.recall);
    }
  }
  return {mean(precisions), mean(recalls)};
}

}  // namespace frn::slow
