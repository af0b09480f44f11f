// How it is fast: boxes are compared within an image and category alone; a detection is matched for the 4 ranges of
// areas x 10 thresholds of IoU at once, which are bits of one word; one walk over a category's detections by their
// scores does all of it; and precision is computed at true positives alone, the only places where recall changes (false
// positives lower precision, ignored detections leave no trace).
#include "frn/metrics/coco_ap.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <exception>
#include <limits>
#include <mutex>
#include <numeric>
#include <string>
#include <system_error>
#include <thread>

#include "frn/core/error.h"
#include "frn/metrics/coco_groups.h"

namespace frn {
namespace coco {
namespace {

// As numpy.linspace computes them; 0.95 is its end, not a product.
constexpr double iou_threshold(size_t i) {
  return i == kCocoThresholds - 1 ? 0.95 : static_cast<double>(i) * ((0.95 - 0.5) / 9) + 0.5;
}
constexpr size_t kAt50 = 0;
constexpr size_t kAt75 = 5;
static_assert(iou_threshold(kAt50) == 0.5 && iou_threshold(kAt75) == 0.75);

// i*0.01 and not i/100: they differ at ten places.
constexpr double recall_threshold(size_t i) { return static_cast<double>(i) * 0.01; }

// The thresholds that an IoU reaches, in every range.
Bits thresholds_of(double iou) {
  constexpr Bits kEveryRange = 1 | (Bits{1} << 10) | (Bits{1} << 20) | (Bits{1} << 30);
  static_assert(kCocoThresholds == 10 && kRanges == 4);
  size_t reached = 0;
  while (reached < kCocoThresholds && iou >= iou_threshold(reached)) ++reached;
  return ((Bits{1} << reached) - 1) * kEveryRange;
}

struct Input {
  const IdIndex& images;
  const Grouped<Truth>& truths;
  const Detections& detections;
  std::span<const int64_t> max_detections;  // ascending
};

// Of one category, its means over thresholds; -1 where there is no truth.
struct Outcome {
  std::array<double, kRanges> ap{-1, -1, -1, -1};
  std::array<double, kRanges> ar{-1, -1, -1, -1};
  double ap50 = -1;
  double ap75 = -1;
  std::vector<double> ar_at;  // for each of max_detections, in the range of all areas
  int64_t truths = 0;
  std::vector<double> precision;
};

// Precision at each recall: the best that any recall as high has, 0 where there is none. `wrong_before` says of each
// right detection how many wrong ones came before it.
void precision_at_recalls(std::span<const uint32_t> wrong_before, int64_t truths, std::vector<double>& best,
                          std::span<double> out) {
  best.resize(wrong_before.size());
  double highest = 0;
  for (size_t i = wrong_before.size(); i-- > 0;) {
    const auto right = static_cast<double>(i + 1);
    highest = std::max(highest, right / (wrong_before[i] + right + std::numeric_limits<double>::epsilon()));
    best[i] = highest;
  }
  size_t i = 0;
  for (size_t r = 0; r < kCocoRecalls; ++r) {
    const auto recall = [&] { return static_cast<double>(i + 1) / static_cast<double>(truths); };
    while (i < best.size() && recall() < recall_threshold(r)) ++i;
    out[r] = i < best.size() ? best[i] : 0;
  }
}

// Evaluates categories, one after the other. It keeps its memory between them; every thread has one.
class Evaluator {
 public:
  explicit Evaluator(const Input& input) : input_(input) {}

  Outcome evaluate(size_t category) {
    begin(category);
    for (const auto& entry : entries_) take(entry);
    return finish();
  }

 private:
  struct Candidate {
    double iou;
    Truth* truth;
    Bits reached;
  };

  void begin(size_t category) {
    const auto truths = input_.truths.of(category);
    const auto entries = input_.detections.entries.of(category);
    truths_.assign(truths.begin(), truths.end());
    std::stable_sort(truths_.begin(), truths_.end(), [](const Truth& a, const Truth& b) { return a.image < b.image; });
    entries_.assign(entries.begin(), entries.end());
    std::sort(entries_.begin(), entries_.end());
    truth_begin_.assign(input_.images.size() + 1, 0);
    for (const auto& truth : truths_) ++truth_begin_[truth.image + 1];
    std::partial_sum(truth_begin_.begin(), truth_begin_.end(), truth_begin_.begin());
    count_of_image_.assign(input_.images.size(), 0);
    for (auto& list : wrong_before_) list.clear();
    wrong_.fill(0);
    far_.fill(0);
    right_at_.assign(input_.max_detections.size(), {});
  }

  void take(const Entry& entry) {
    const int64_t rank = count_of_image_[entry.image]++;
    if (rank >= input_.max_detections.back()) return;
    const auto place = place_of(input_.detections.boxes[entry.position]);
    const Bits inside = ranges_of(place.box_area);
    find_candidates(place, entry.image);
    if (candidates_.empty()) return count_far(inside);
    // A truth within the range comes first, whatever the IoU with those that are ignored.
    Bits open = ~Bits{0};
    const Bits right = match(open, [](const Truth& truth) { return truth.real & ~truth.taken; });
    match(open, [](const Truth& truth) { return ~truth.real & (truth.crowd ? ~Bits{0} : ~truth.taken); });
    count_wrong(open & inside);
    count_right(right, rank);
  }

  // Truths whose IoU reaches the lowest threshold, the best first; of equals the later one, as pycocotools has it.
  void find_candidates(const Place& place, uint32_t image) {
    candidates_.clear();
    for (size_t i = truth_begin_[image]; i < truth_begin_[image + 1]; ++i) {
      auto& truth = truths_[i];
      const double common = intersection(place.box, truth.place.box);
      const double whole = truth.crowd ? place.box_area : place.box_area + truth.place.box_area - common;
      const double iou = share_of(common, whole);
      if (iou >= iou_threshold(0)) candidates_.push_back({iou, &truth, thresholds_of(iou)});
    }
    std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
      return a.iou != b.iou ? a.iou > b.iou : a.truth > b.truth;
    });
  }

  // Wherever the detection is still open it takes the best candidate that is free there. Returns where it took one.
  template <typename Free>
  Bits match(Bits& open, Free free) {
    Bits matched = 0;
    for (const auto& candidate : candidates_) {
      const Bits won = open & candidate.reached & free(*candidate.truth);
      candidate.truth->taken |= won;
      matched |= won;
      open &= ~won;
    }
    return matched;
  }

  void count_far(Bits inside) {
    for (size_t i = 0; i < kRanges; ++i) far_[i] += (inside >> (i * kCocoThresholds)) & 1;
  }

  void count_wrong(Bits wrong) {
    for (; wrong != 0; wrong &= wrong - 1) ++wrong_[static_cast<size_t>(std::countr_zero(wrong))];
  }

  void count_right(Bits right, int64_t rank) {
    const auto counts = input_.max_detections;
    for (; right != 0; right &= right - 1) {
      const auto bit = static_cast<size_t>(std::countr_zero(right));
      wrong_before_[bit].push_back(wrong_[bit] + far_[bit / kCocoThresholds]);
      if (bit / kCocoThresholds != kAll) continue;
      for (size_t m = counts.size(); m > 0 && rank < counts[m - 1]; --m) ++right_at_[m - 1];
    }
  }

  Outcome finish() {
    Outcome out;
    out.ar_at.assign(input_.max_detections.size(), -1);
    for (size_t range = 0; range < kRanges; ++range) {
      const Bits bit = Bits{1} << (range * kCocoThresholds);
      const auto truths =
          std::count_if(truths_.begin(), truths_.end(), [bit](const Truth& truth) { return (truth.real & bit) != 0; });
      if (truths > 0) finish_range(range, truths, out);
    }
    return out;
  }

  void finish_range(size_t range, int64_t truths, Outcome& out) {
    std::vector<double> precision(kCocoThresholds * kCocoRecalls);
    std::array<double, kCocoThresholds> ap{};
    size_t right = 0;
    for (size_t t = 0; t < kCocoThresholds; ++t) {
      const auto& wrong_before = wrong_before_[range * kCocoThresholds + t];
      const auto row = std::span(precision).subspan(t * kCocoRecalls, kCocoRecalls);
      precision_at_recalls(wrong_before, truths, best_, row);
      ap[t] = std::accumulate(row.begin(), row.end(), 0.0) / kCocoRecalls;
      right += wrong_before.size();
    }
    const auto to_find = static_cast<double>(truths) * kCocoThresholds;
    out.ap[range] = std::accumulate(ap.begin(), ap.end(), 0.0) / kCocoThresholds;
    out.ar[range] = static_cast<double>(right) / to_find;
    if (range != kAll) return;
    out.ap50 = ap[kAt50];
    out.ap75 = ap[kAt75];
    for (size_t m = 0; m < right_at_.size(); ++m) out.ar_at[m] = static_cast<double>(right_at_[m]) / to_find;
    out.truths = truths;
    out.precision = std::move(precision);
  }

  const Input& input_;
  std::vector<Truth> truths_;  // by image
  std::vector<Entry> entries_;
  std::vector<Candidate> candidates_;
  std::vector<size_t> truth_begin_;      // of each image, and the end
  std::vector<int64_t> count_of_image_;  // detections so far
  std::array<std::vector<uint32_t>, kBits> wrong_before_;
  std::array<uint32_t, kBits> wrong_{};  // detections with candidates
  std::array<uint32_t, kRanges> far_{};  // those without, which are wrong at every threshold
  std::vector<int64_t> right_at_;        // for each of max_detections, over all thresholds
  std::vector<double> best_;
};

// The largest categories first: threads then end at about the same time.
std::vector<size_t> work_order(const Grouped<Entry>& entries, size_t categories) {
  std::vector<size_t> order(categories);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return entries.of(a).size() > entries.of(b).size(); });
  return order;
}

// What threads share.
class Work {
 public:
  Work(const Input& input, size_t categories)
      : input_(input), order_(work_order(input.detections.entries, categories)), out_(categories) {}

  std::vector<Outcome> run(int threads) {
    {
      std::vector<std::jthread> helpers;
      try {
        for (size_t i = 1; i < std::min(static_cast<size_t>(threads), out_.size()); ++i) {
          helpers.emplace_back([this] { take_part(); });
        }
      } catch (const std::system_error&) {
        // The system gives no more threads: those that are there do it.
      }
      take_part();
    }
    if (failure_) std::rethrow_exception(failure_);
    return std::move(out_);
  }

 private:
  void take_part() {
    try {
      Evaluator evaluator(input_);
      for (size_t i = next_++; i < order_.size(); i = next_++) out_[order_[i]] = evaluator.evaluate(order_[i]);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
    }
  }

  const Input& input_;
  std::vector<size_t> order_;
  std::vector<Outcome> out_;
  std::atomic<size_t> next_ = 0;
  std::mutex mutex_;
  std::exception_ptr failure_;
};

// Over the categories that have truths.
template <typename ValueOf>
double mean(const std::vector<Outcome>& outcomes, ValueOf value_of) {
  double sum = 0;
  int64_t count = 0;
  for (const auto& outcome : outcomes) {
    const double value = value_of(outcome);
    if (value < 0) continue;
    sum += value;
    ++count;
  }
  return count == 0 ? -1 : sum / static_cast<double>(count);
}

CocoScores summary(const std::vector<Outcome>& outcomes, std::vector<int64_t> max_detections) {
  const auto ap = [&](size_t range) { return mean(outcomes, [range](const Outcome& o) { return o.ap[range]; }); };
  const auto ar = [&](size_t range) { return mean(outcomes, [range](const Outcome& o) { return o.ar[range]; }); };
  CocoScores out;
  out.ap = ap(kAll);
  out.ap50 = mean(outcomes, [](const Outcome& o) { return o.ap50; });
  out.ap75 = mean(outcomes, [](const Outcome& o) { return o.ap75; });
  out.ap_small = ap(1);
  out.ap_medium = ap(2);
  out.ap_large = ap(3);
  for (size_t m = 0; m < max_detections.size(); ++m) {
    out.ar.push_back(mean(outcomes, [m](const Outcome& o) { return o.ar_at[m]; }));
  }
  out.ar_small = ar(1);
  out.ar_medium = ar(2);
  out.ar_large = ar(3);
  out.max_detections = std::move(max_detections);
  return out;
}

std::vector<int64_t> checked_counts(const CocoOptions& options) {
  auto counts = options.max_detections;
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  if (counts.empty() || counts.front() < 1) {
    throw Error("coco", "max_detections must be one or more numbers from 1 on but " +
                            (counts.empty() ? "there are none" : "one is " + std::to_string(counts.front())));
  }
  if (options.threads < 1) throw Error("coco", "threads must be at least 1 but are " + std::to_string(options.threads));
  return counts;
}

}  // namespace
}  // namespace coco

CocoScores evaluate_coco(std::span<const int64_t> image_ids, std::span<const int64_t> category_ids,
                         std::span<const CocoTruth> truths, std::span<const CocoDetection> detections,
                         const CocoOptions& options) {
  auto counts = coco::checked_counts(options);
  const coco::IdIndex images(image_ids);
  const coco::IdIndex categories(category_ids);
  const auto grouped_truths = coco::group_truths(truths, images, categories);
  const auto grouped_detections = coco::group_detections(detections, images, categories);
  const coco::Input input{images, grouped_truths, grouped_detections, counts};
  auto outcomes = coco::Work(input, categories.size()).run(options.threads);
  auto out = coco::summary(outcomes, std::move(counts));
  for (size_t c = 0; c < outcomes.size(); ++c) {
    auto& [ap, ar, ap50, ap75, ar_at, count, precision] = outcomes[c];
    if (!options.curves) precision.clear();
    out.categories.push_back(
        {categories.id(c), count, ap[coco::kAll], ap50, ap75, ar[coco::kAll], std::move(precision)});
  }
  return out;
}

NamedValues named_values(const CocoScores& scores) {
  NamedValues out{{"AP", scores.ap},        {"AP50", scores.ap50},     {"AP75", scores.ap75},
                  {"APs", scores.ap_small}, {"APm", scores.ap_medium}, {"APl", scores.ap_large}};
  for (size_t i = 0; i < scores.ar.size(); ++i) {
    out.push_back({"AR" + std::to_string(scores.max_detections[i]), scores.ar[i]});
  }
  out.push_back({"ARs", scores.ar_small});
  out.push_back({"ARm", scores.ar_medium});
  out.push_back({"ARl", scores.ar_large});
  return out;
}

}  // namespace frn
