#include "frn/study/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace frn::study {
namespace {

constexpr double kHuge = 5;        // points of a share, with one seed
constexpr double kHugeErrors = 5;  // standard errors of the validation's sampling, with one seed

enum class Order { kAbove, kBelow };

// Two-sided 95 % of Student's t for 1, 2, ... degrees of freedom; beyond, the normal distribution's within 2 %.
double student_t(double freedom) {
  static constexpr std::array kTable{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                                     2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
                                     2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042};
  const auto index = static_cast<size_t>(std::max(1.0, std::floor(freedom))) - 1;
  return index < kTable.size() ? kTable[index] : 2.0;
}

// Variance of an accuracy in points that comes from the choice of so many validation images.
double sampling_variance(const CellSummary& summary, double samples) {
  const double share = std::clamp(summary.mean / 100, 0.01, 0.99);
  return 1e4 * share * (1 - share) / samples;
}

bool has_samples(const CellSummary& summary) { return std::isfinite(summary.samples) && summary.samples > 0; }

double sampling_variance(const CellSummary& summary) {
  constexpr double kUsual = 1000;
  return sampling_variance(summary, has_samples(summary) ? summary.samples : kUsual);
}

// How far a loss or a count varies by itself, one seed does not tell: no difference is large enough.
double margin_of_one_seed(const CellSummary& a, const CellSummary& b) {
  if (a.metric.kind != MetricKind::kShare) return INFINITY;
  return std::max(kHuge, kHugeErrors * std::sqrt(sampling_variance(a) + sampling_variance(b)));
}

// Whether nothing but rounding is left of a variance of numbers of this size.
bool is_none(double variance, double size) { return std::sqrt(variance) <= 1e-9 * std::max(1.0, std::abs(size)); }

// Seeds that agree to the last digit, of two trainings, agree by chance: so few of them do not show how far they vary.
// A share varies at least as the choice of its images makes it; of other metrics, and of images that nobody counted,
// no difference is large enough.
double least_variance(const CellSummary& summary) {
  if (summary.metric.kind != MetricKind::kShare || !has_samples(summary)) return INFINITY;
  return sampling_variance(summary, summary.samples);
}

double margin_of_seeds(const CellSummary& a, const CellSummary& b) {
  const bool agree = is_none(a.deviation * a.deviation + b.deviation * b.deviation, a.mean);
  const auto part = [&](const CellSummary& s) {
    return (agree ? least_variance(s) : s.deviation * s.deviation) / static_cast<double>(s.values.size());
  };
  const auto freedom_part = [&](const CellSummary& s) {
    return part(s) * part(s) / static_cast<double>(s.values.size() - 1);
  };
  const double variance = part(a) + part(b);
  if (std::isinf(variance)) return INFINITY;
  const auto seeds = static_cast<double>(a.values.size() + b.values.size());
  if (agree) return student_t(seeds - 2) * std::sqrt(variance);
  return student_t(variance * variance / (freedom_part(a) + freedom_part(b))) * std::sqrt(variance);
}

// Those seeds alone that the other has too, in the same order in both.
CellSummary with_seeds_of(const CellSummary& summary, const CellSummary& other) {
  auto out = summary;
  out.values.clear();
  out.seeds_of_values.clear();
  const auto& theirs = other.seeds_of_values;
  for (size_t i = 0; i < summary.values.size(); ++i) {
    const int64_t seed = summary.seeds_of_values.at(i);
    if (std::find(theirs.begin(), theirs.end(), seed) == theirs.end()) continue;
    out.values.push_back(summary.values[i]);
    out.seeds_of_values.push_back(seed);
  }
  out.mean = std::accumulate(out.values.begin(), out.values.end(), 0.0) / static_cast<double>(out.values.size());
  return out;
}

// Seed by seed: the same seed is the same first weights and order of images in both cells.
Difference paired_difference(const CellSummary& a, const CellSummary& b) {
  const auto count = static_cast<double>(a.values.size());
  double squares = 0;
  for (size_t i = 0; i < a.values.size(); ++i) {
    const double from_mean = (a.values[i] - b.values[i]) - (a.mean - b.mean);
    squares += from_mean * from_mean;
  }
  double variance = squares / (count - 1);
  if (is_none(variance, a.mean)) variance = least_variance(a) + least_variance(b);
  return {a.mean - b.mean, student_t(count - 1) * std::sqrt(variance / count)};
}

// Seed by seed where two seeds at least are in both cells; else as any two sets of seeds, where both have two.
Difference difference_of_close(const CellSummary& a, const CellSummary& b) {
  const auto left = with_seeds_of(a, b);
  const auto right = with_seeds_of(b, a);
  if (left.values.size() > 1) return paired_difference(left, right);
  const bool alone = a.values.size() < 2 || b.values.size() < 2;
  return alone && !left.values.empty() ? difference_of(left, right) : difference_of(a, b);
}

bool all_diverged(const CellSummary& s) { return s.seeds > 0 && s.diverged == s.seeds; }

bool is_same_training(const NamedCell& a, const NamedCell& b) {
  return a.summary.trained_as == b.summary.trained_as && (a.summary.same_as_another || b.summary.same_as_another);
}

// "54.2"; small ones with another digit, "0.03". Of other metrics than shares, four digits.
std::string number(const Metric& metric, double difference) {
  const double size = std::abs(difference);
  if (metric.kind != MetricKind::kShare) return fmt::format("{:.4g}", size);
  auto text = fmt::format("{:.{}f}", size, size < 0.995 ? 2 : 1);
  if (text.find('.') == std::string::npos) return text;
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text;
}

// "54.2 points", "0.0312"
std::string amount(const Metric& metric, double difference) {
  return number(metric, difference) + (metric.kind == MetricKind::kShare ? " points" : "");
}

// In the same column its phrase comes once: "FRN is 0.8 points above BN at 2 images".
std::string relation_of(const NamedCell& a, const NamedCell& b, double difference) {
  return fmt::format("{} is {} {} {}", a.column == b.column ? a.row : a.name(), amount(a.summary.metric, difference),
                     difference < 0 ? "below" : "above", b.name());
}

std::string both(const NamedCell& a, const NamedCell& b) {
  if (a.column == b.column) return fmt::format("{} and {}", a.row, b.name());
  return a.row == b.row ? fmt::format("{} {} and {}", a.row, a.column, b.column)
                        : fmt::format("{} and {}", a.name(), b.name());
}

Judgement same_training(const NamedCell& a, const NamedCell& b, Verdict verdict) {
  return {verdict, both(a, b) + " are identical by construction: one training", "identical by construction", 0, true};
}

Judgement lacking(const NamedCell& cell, Verdict verdict = Verdict::kUndecided) {
  const auto& s = cell.summary;
  if (s.failed > 0) return {verdict, cell.name() + " failed"};
  if (s.open > 0 && s.seeds > 1) {
    return {verdict, fmt::format("{} is open in {} of {} seeds", cell.name(), s.open, s.seeds)};
  }
  if (s.open > 0) return {verdict, cell.name() + " was not trained to the end"};
  return {verdict, fmt::format("{} diverged in {} of {} seeds", cell.name(), s.diverged, s.seeds)};
}

Judgement idle(const NamedCell& cell) {
  return {Verdict::kUndecided, cell.name() + " is no better than guessing after so few steps"};
}

// Why no difference is large enough.
std::string no_margin(const NamedCell& a, const NamedCell& b) {
  const bool one_seed = a.summary.values.size() < 2 || b.summary.values.size() < 2;
  return one_seed ? "a single seed does not show" : "seeds that agree to the last digit do not show";
}

std::string grounds_of_order(const NamedCell& a, const NamedCell& b, Verdict verdict, double by, double margin) {
  const auto& metric = a.summary.metric;
  if (std::isinf(margin)) return fmt::format(", but {} whether that is significant", no_margin(a, b));
  if (by == 0) {
    return fmt::format("{} (significant above {})", verdict == Verdict::kUndecided ? ", which is within the noise" : "",
                       number(metric, margin));
  }
  const char* words = verdict == Verdict::kHolds         ? "more than the claimed"
                      : verdict == Verdict::kDoesNotHold ? "not more than the claimed"
                                                         : "too close to call against the claimed";
  return fmt::format(", {} {:g} (margin of error {})", words, by, number(metric, margin));
}

// ", margin of error 2.3"
std::string margin_text(const NamedCell& a, const NamedCell& b, double margin) {
  if (!std::isinf(margin)) return fmt::format(", margin of error {}", number(a.summary.metric, margin));
  return a.summary.values.size() < 2 || b.summary.values.size() < 2 ? ", one seed" : ", seeds without spread";
}

// That a is above or below b by more than `by`. A cell that diverged is the worse of the two, and the one that is
// claimed to be better must have learned something.
Judgement judge_order(const NamedCell& a, const NamedCell& b, Order order, double by) {
  const auto& metric = a.summary.metric;
  const bool a_should_be_better = (order == Order::kAbove) == metric.higher_is_better;
  const auto& better = a_should_be_better ? a : b;
  const auto& worse = a_should_be_better ? b : a;
  if (all_diverged(better.summary) && is_trained(worse.summary)) {
    return {Verdict::kDoesNotHold, better.name() + " diverged", "", -INFINITY};
  }
  if (is_trained(better.summary) && all_diverged(worse.summary)) {
    return {Verdict::kHolds, worse.name() + " diverged", "", INFINITY};
  }
  for (const auto* cell : {&a, &b}) {
    if (!is_trained(cell->summary)) return lacking(*cell);
  }
  if (is_same_training(a, b)) return same_training(a, b, Verdict::kDoesNotHold);
  if (better.idle) return idle(better);
  const auto difference = difference_of(a.summary, b.summary);
  const double beyond = (order == Order::kAbove ? difference.size : -difference.size) - by;
  Judgement out;
  if (std::abs(beyond) > difference.margin) out.verdict = beyond > 0 ? Verdict::kHolds : Verdict::kDoesNotHold;
  out.reason = relation_of(a, b, difference.size) + grounds_of_order(a, b, out.verdict, by, difference.margin);
  out.brief =
      (difference.size < 0 ? "-" : "+") + amount(metric, difference.size) + margin_text(a, b, difference.margin);
  out.support = beyond / std::max(difference.margin, 1e-9);
  return out;
}

}  // namespace

bool is_trained(const CellSummary& s) { return !s.values.empty() && s.diverged == 0 && s.failed == 0 && s.open == 0; }

Difference difference_of(const CellSummary& a, const CellSummary& b) {
  const bool one_seed = a.values.size() < 2 || b.values.size() < 2;
  return {a.mean - b.mean, one_seed ? margin_of_one_seed(a, b) : margin_of_seeds(a, b)};
}

Judgement judge_higher(const NamedCell& a, const NamedCell& b, double by) {
  return judge_order(a, b, Order::kAbove, by);
}

Judgement judge_better(const NamedCell& a, const NamedCell& b, double by) {
  return judge_order(a, b, a.summary.metric.higher_is_better ? Order::kAbove : Order::kBelow, by);
}

Judgement judge_close(const NamedCell& a, const NamedCell& b, double within) {
  for (const auto* cell : {&a, &b}) {
    if (!is_trained(cell->summary)) {
      return lacking(*cell, all_diverged(cell->summary) ? Verdict::kDoesNotHold : Verdict::kUndecided);
    }
  }
  if (is_same_training(a, b)) return same_training(a, b, Verdict::kHolds);
  for (const auto* cell : {&a, &b}) {
    if (cell->idle) return idle(*cell);
  }
  const auto difference = difference_of_close(a.summary, b.summary);
  const double apart = std::abs(difference.size);
  const auto& metric = a.summary.metric;
  Judgement out;
  if (apart - difference.margin > within) out.verdict = Verdict::kDoesNotHold;
  if (apart + difference.margin <= within) out.verdict = Verdict::kHolds;
  const char* words = out.verdict == Verdict::kHolds         ? "within the claimed"
                      : out.verdict == Verdict::kDoesNotHold ? "more than the claimed"
                                                             : "which does not show whether it is within the claimed";
  const auto grounds = std::isinf(difference.margin) ? fmt::format("but {} whether they are close", no_margin(a, b))
                                                     : fmt::format("{} {:g} (margin of error {})", words, within,
                                                                   number(metric, difference.margin));
  out.reason = fmt::format("{} are {} apart, {}", both(a, b), amount(metric, apart), grounds);
  out.brief = amount(metric, apart) + " apart" + margin_text(a, b, difference.margin);
  out.support = (within - apart) / std::max(difference.margin, 1e-9);
  return out;
}

Judgement judge_diverges(const NamedCell& cell) {
  const auto& s = cell.summary;
  if (all_diverged(s)) return {Verdict::kHolds, cell.name() + " diverged"};
  if (cell.collapsed) return {Verdict::kHolds, cell.name() + " collapsed: it ended no better than guessing"};
  if (cell.idle) return {Verdict::kUndecided, cell.name() + " neither diverged nor learned anything in so few steps"};
  if (is_trained(s)) {
    const auto end = s.metric.kind == MetricKind::kShare
                         ? fmt::format("{:.1f} %", s.mean)
                         : fmt::format("{} {}", s.metric.title, shown(s.metric, s.mean));
    return {Verdict::kDoesNotHold, fmt::format("{} was trained to {}", cell.name(), end)};
  }
  return lacking(cell);
}

std::string rule_of_claims() {
  return fmt::format(
      "How claims are judged: two cells differ when Welch's t-test over their seeds is significant at 95 %. "
      "Cells are close when their differences seed by seed show it, over the seeds that both have, or when they are one "
      "training by construction. Seeds that agree to the last digit count as varying as much as the choice of the "
      "validation images makes a share vary. "
      "With a single seed, only shares are compared, and a difference is significant above {:g} points and above {:g} "
      "standard errors, which follow from the number of validation images. A cell that diverged is worse than one that was trained. "
      "At scales other than the paper's, a cell that is no better than guessing has not learned yet and decides "
      "nothing where it should be the better one; at the paper's, it has collapsed, which counts as diverging. "
      "A claim about several comparisons holds when all of them hold, and does not hold when one of them fails; the "
      "sentence shown is the comparison that is the strongest evidence against the claim.",
      kHuge, kHugeErrors);
}

}  // namespace frn::study
