#include "frn/report/study_claims.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace frn::report {
namespace {

constexpr double kHuge = 5;        // points, with one seed
constexpr double kHugeErrors = 5;  // standard errors of the validation's sampling, with one seed

// Two-sided 95 % of Student's t for 1, 2, ... degrees of freedom; beyond, the normal distribution's within 2 %.
double student_t(double freedom) {
  static constexpr std::array kTable{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                                     2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
                                     2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042};
  const auto index = static_cast<size_t>(std::max(1.0, std::floor(freedom))) - 1;
  return index < kTable.size() ? kTable[index] : 2.0;
}

// Variance of an accuracy in points that comes from the choice of the validation images.
double sampling_variance(const CellSummary& summary) {
  const double share = std::clamp(summary.mean / 100, 0.01, 0.99);
  const double samples = std::isfinite(summary.samples) && summary.samples > 0 ? summary.samples : 1000;
  return 1e4 * share * (1 - share) / samples;
}

double margin_of_one_seed(const CellSummary& a, const CellSummary& b) {
  return std::max(kHuge, kHugeErrors * std::sqrt(sampling_variance(a) + sampling_variance(b)));
}

double margin_of_seeds(const CellSummary& a, const CellSummary& b) {
  const auto part = [](const CellSummary& s) {
    return s.deviation * s.deviation / static_cast<double>(s.values.size());
  };
  const auto freedom_part = [&](const CellSummary& s) {
    return part(s) * part(s) / static_cast<double>(s.values.size() - 1);
  };
  const double variance = part(a) + part(b);
  if (variance == 0) return 0;
  return student_t(variance * variance / (freedom_part(a) + freedom_part(b))) * std::sqrt(variance);
}

// The first seeds alone, which two cells have in common.
CellSummary with_seeds(CellSummary summary, size_t count) {
  summary.values.resize(count);
  summary.mean = std::accumulate(summary.values.begin(), summary.values.end(), 0.0) / static_cast<double>(count);
  return summary;
}

// Seed by seed: the same seed is the same first weights and order of images in both cells.
Difference paired_difference(const CellSummary& a, const CellSummary& b) {
  const auto count = static_cast<double>(a.values.size());
  double squares = 0;
  for (size_t i = 0; i < a.values.size(); ++i) {
    const double from_mean = (a.values[i] - b.values[i]) - (a.mean - b.mean);
    squares += from_mean * from_mean;
  }
  return {a.mean - b.mean, student_t(count - 1) * std::sqrt(squares / (count - 1) / count)};
}

// A cell with its name, for sentences.
struct Named {
  std::string name;
  CellSummary summary;
  bool idle = false;  // no better than guessing, at a scale that is too short to blame the method for it
};

struct Judgement {
  Verdict verdict;
  std::string reason;
};

bool trained(const CellSummary& s) { return !s.values.empty() && s.diverged == 0 && s.failed == 0 && s.open == 0; }
bool all_diverged(const CellSummary& s) { return s.seeds > 0 && s.diverged == s.seeds; }

std::string lack_of(const Named& cell) {
  const auto& s = cell.summary;
  if (s.failed > 0) return cell.name + " failed";
  if (s.open > 0) return cell.name + " is not there";
  return fmt::format("{} diverged in {} of {} seeds", cell.name, s.diverged, s.seeds);
}

std::string sentence(const Named& a, const Named& b, const Difference& difference, double by) {
  return fmt::format("{} {} {} by {:.2f} points{}, where {:.2f} would tell", a.name,
                     difference.points < 0 ? "is below" : "is above", b.name, std::abs(difference.points),
                     by > 0 ? fmt::format(" (claimed: more than {:g})", by) : "", difference.margin);
}

Judgement higher(const Named& a, const Named& b, double by) {
  if (all_diverged(a.summary) && trained(b.summary)) return {Verdict::kDoesNotHold, a.name + " diverged"};
  if (trained(a.summary) && all_diverged(b.summary)) return {Verdict::kHolds, b.name + " diverged"};
  for (const auto* cell : {&a, &b}) {
    if (!trained(cell->summary)) return {Verdict::kNotDecided, lack_of(*cell)};
  }
  if (a.idle) return {Verdict::kNotDecided, a.name + " has not learned anything in so few steps"};
  const auto difference = difference_of(a.summary, b.summary);
  const auto words = sentence(a, b, difference, by);
  const double beyond = difference.points - by;
  if (std::abs(beyond) <= difference.margin) return {Verdict::kNotDecided, words};
  return {beyond > 0 ? Verdict::kHolds : Verdict::kDoesNotHold, words};
}

Judgement close_by(const Named& a, const Named& b, double within) {
  for (const auto* cell : {&a, &b}) {
    if (!trained(cell->summary)) {
      return {all_diverged(cell->summary) ? Verdict::kDoesNotHold : Verdict::kNotDecided, lack_of(*cell)};
    }
    if (cell->idle) return {Verdict::kNotDecided, cell->name + " has not learned anything in so few steps"};
  }
  const auto seeds = std::min(a.summary.values.size(), b.summary.values.size());
  const auto left = with_seeds(a.summary, seeds);
  const auto right = with_seeds(b.summary, seeds);
  const auto difference = seeds > 1 ? paired_difference(left, right) : difference_of(left, right);
  const auto words = fmt::format("{} and {} are {:.2f} points apart (claimed: at most {:g}; known to {:.2f})", a.name,
                                 b.name, std::abs(difference.points), within, difference.margin);
  const double apart = std::abs(difference.points);
  if (apart - difference.margin > within) return {Verdict::kDoesNotHold, words};
  if (apart + difference.margin <= within) return {Verdict::kHolds, words};
  return {Verdict::kNotDecided, words};
}

Judgement diverges(const Named& cell) {
  const auto& s = cell.summary;
  if (all_diverged(s)) return {Verdict::kHolds, cell.name + " diverged"};
  if (cell.idle) return {Verdict::kNotDecided, cell.name + " neither diverged nor learned anything in so few steps"};
  if (trained(s)) return {Verdict::kDoesNotHold, fmt::format("{} was trained to {:.2f} %", cell.name, s.mean)};
  return {Verdict::kNotDecided, lack_of(cell)};
}

class Judge {
 public:
  Judge(const StudyResults& results, const StudyClaim& claim) : results_(results), claim_(claim) {}

  JudgedClaim run() const {
    std::vector<Judgement> parts;
    if (!claim_.higher.empty()) compare_all(parts);
    compare_close(parts);
    for (const auto& cell : cells(claim_.diverges)) parts.push_back(diverges(named(cell)));
    return together(parts);
  }

 private:
  struct Place {
    size_t row, column;
    bool given;  // the column was named
  };

  static size_t index_of(const std::vector<StudyLine>& lines, const std::string& name) {
    const auto found = std::find_if(lines.begin(), lines.end(), [&](const auto& line) { return line.name == name; });
    return static_cast<size_t>(found - lines.begin());
  }

  bool is_chosen(size_t column) const {
    const auto& name = results_.study.columns[column].name;
    return claim_.columns.empty() ||
           std::find(claim_.columns.begin(), claim_.columns.end(), name) != claim_.columns.end();
  }

  std::vector<Place> cells(const std::vector<std::string>& names) const {
    std::vector<Place> out;
    for (const auto& text : names) {
      const auto [row, column] = split_cell_name(text);
      const size_t r = index_of(results_.study.rows, row);
      if (!column.empty()) {
        out.push_back({r, index_of(results_.study.columns, column), true});
        continue;
      }
      for (size_t c = 0; c < results_.study.columns.size(); ++c) {
        if (is_chosen(c)) out.push_back({r, c, false});
      }
    }
    return out;
  }

  Named named(const Place& place) const {
    constexpr double kNearChance = 1.5;
    const double chance = results_.study.scale(results_.record.scale).chance;
    const auto guessing = summarise(results_, "precision_at_1", place.row, place.column);
    return {cell_name(results_.study, place.row, place.column, 0),
            summarise(results_, claim_.metric, place.row, place.column),
            trained(guessing) && guessing.mean <= kNearChance * chance};
  }

  void compare_all(std::vector<Judgement>& parts) const {
    const auto lower = cells(claim_.lower);
    for (const auto& a : cells(claim_.higher)) {
      for (const auto& b : lower) {
        if (a.column != b.column && !(a.given && b.given)) continue;
        parts.push_back(higher(named(a), named(b), claim_.by));
      }
    }
  }

  // One row: its columns among each other. More rows: within each column.
  void compare_close(std::vector<Judgement>& parts) const {
    const auto close = cells(claim_.close);
    for (size_t i = 0; i < close.size(); ++i) {
      for (size_t j = i + 1; j < close.size(); ++j) {
        const auto& [a, b] = std::pair(close[i], close[j]);
        const bool along_a_row = claim_.close.size() == 1;
        if (!along_a_row && a.column != b.column && !(a.given && b.given)) continue;
        parts.push_back(close_by(named(a), named(b), claim_.within));
      }
    }
  }

  JudgedClaim together(const std::vector<Judgement>& parts) const {
    JudgedClaim out{&claim_, Verdict::kNotDecided, "no cell to compare"};
    const auto of = [&](Verdict verdict) {
      return std::find_if(parts.begin(), parts.end(), [&](const auto& part) { return part.verdict == verdict; });
    };
    const auto count = [&](Verdict verdict) {
      return std::count_if(parts.begin(), parts.end(), [&](const auto& part) { return part.verdict == verdict; });
    };
    for (const auto verdict : {Verdict::kDoesNotHold, Verdict::kNotDecided, Verdict::kHolds}) {
      const auto found = of(verdict);
      if (found == parts.end()) continue;
      out.verdict = verdict;
      out.reason = found->reason;
      if (parts.size() > 1) {
        out.reason += fmt::format("; of {} comparisons {} hold, {} do not, {} are not decided", parts.size(),
                                  count(Verdict::kHolds), count(Verdict::kDoesNotHold), count(Verdict::kNotDecided));
      }
      return out;
    }
    return out;
  }

  const StudyResults& results_;
  const StudyClaim& claim_;
};

}  // namespace

std::string verdict_text(Verdict verdict) {
  switch (verdict) {
    case Verdict::kHolds:
      return "holds";
    case Verdict::kDoesNotHold:
      return "does not hold";
    case Verdict::kNotDecided:
      return "not decided at this scale";
  }
  return "";
}

Difference difference_of(const CellSummary& a, const CellSummary& b) {
  const bool one_seed = a.values.size() < 2 || b.values.size() < 2;
  return {a.mean - b.mean, one_seed ? margin_of_one_seed(a, b) : margin_of_seeds(a, b)};
}

std::vector<JudgedClaim> judge(const StudyResults& results) {
  std::vector<JudgedClaim> out;
  for (const auto& claim : results.study.claims) out.push_back(Judge(results, claim).run());
  return out;
}

std::string rule_of_claims() {
  return fmt::format(
      "How claims are decided: two cells differ when Welch's t-test over their seeds says so at 95 %; that they are "
      "close "
      "is "
      "shown by their differences seed by seed. With one seed "
      "only "
      "a difference counts that is above {:g} points and above {:g} times the error that so few validation images "
      "leave. "
      "A cell that diverged is below one that was trained. At a scale other than the paper's a cell that is no better "
      "than guessing decides nothing where it should be the higher one. A claim about many cells holds when it does "
      "for "
      "all of them, and does not hold as soon as it fails for one.",
      kHuge, kHugeErrors);
}

}  // namespace frn::report
