#include "frn/study/claims.h"

#include <fmt/format.h>

#include <algorithm>

#include "frn/study/comparison.h"

namespace frn::study {
namespace {

// "2 of 3 comparisons hold, 1 is undecided".
std::string counts_of(const std::vector<Judgement>& parts) {
  const auto count = [&](Verdict verdict) {
    return std::count_if(parts.begin(), parts.end(), [&](const auto& part) { return part.verdict == verdict; });
  };
  const auto holds = static_cast<size_t>(count(Verdict::kHolds));
  if (holds == parts.size())
    return holds == 2 ? "both comparisons hold" : fmt::format("all {} comparisons hold", holds);
  auto out = holds == 0 ? fmt::format("none of {} comparisons holds", parts.size())
                        : fmt::format("{} of {} comparisons hold{}", holds, parts.size(), holds == 1 ? "s" : "");
  if (const auto fails = count(Verdict::kDoesNotHold); fails > 0) {
    out += fmt::format(", {} {} not", fails, fails == 1 ? "does" : "do");
  }
  if (const auto open = count(Verdict::kUndecided); open > 0) {
    out += fmt::format(", {} {} undecided", open, open == 1 ? "is" : "are");
  }
  return out;
}

class Judge {
 public:
  Judge(const Results& results, const Claim& claim) : results_(results), claim_(claim) {}

  JudgedClaim run() const {
    std::vector<Judgement> parts;
    compare_all(parts, claim_.higher, claim_.lower, judge_higher);
    compare_all(parts, claim_.better, claim_.worse, judge_better);
    compare_close(parts);
    for (const auto& cell : cells(claim_.diverges)) parts.push_back(judge_diverges(named(cell)));
    return together(parts);
  }

 private:
  struct Place {
    size_t row, column;
    bool given;  // the column was named
  };

  static size_t index_of(const std::vector<Line>& lines, const std::string& name) {
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

  NamedCell named(const Place& place) const {
    const auto& study = results_.study;
    constexpr double kNearChance = 1.5;
    const auto first = summarise(results_, study.metrics.front().key, place.row, place.column);
    const double chance =
        first.metric.kind == MetricKind::kShare ? kNearChance * study.scale(results_.record.scale).chance : 0;
    const bool is_whole_training = is_papers_scale(results_);
    NamedCell out{study.rows[place.row].words, study.columns.size() > 1 ? study.columns[place.column].words : "",
                  summarise(results_, claim_.metric, place.row, place.column)};
    out.idle = !is_whole_training && chance > 0 && is_trained(first) && first.mean <= chance;
    out.collapsed =
        is_whole_training && chance > 0 && first.seeds > 0 && first.failed == 0 && first.open == 0 &&
        std::all_of(first.values.begin(), first.values.end(), [&](double value) { return value <= chance; });
    return out;
  }

  void compare_all(std::vector<Judgement>& parts, const std::vector<std::string>& ones,
                   const std::vector<std::string>& others,
                   Judgement (*compare)(const NamedCell&, const NamedCell&, double)) const {
    const auto right = cells(others);
    for (const auto& a : cells(ones)) {
      for (const auto& b : right) {
        if (a.column != b.column && !(a.given && b.given)) continue;
        parts.push_back(compare(named(a), named(b), claim_.by));
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
        parts.push_back(judge_close(named(a), named(b), claim_.within));
      }
    }
  }

  JudgedClaim together(const std::vector<Judgement>& parts) const {
    for (const auto verdict : {Verdict::kDoesNotHold, Verdict::kUndecided, Verdict::kHolds}) {
      const Judgement* worst = nullptr;
      for (const auto& part : parts) {
        if (part.verdict == verdict && (worst == nullptr || part.support < worst->support)) worst = &part;
      }
      if (worst != nullptr) return from(parts, *worst);
    }
    return {&claim_, Verdict::kUndecided, "there is no cell to compare", "no cell to compare"};
  }

  JudgedClaim from(const std::vector<Judgement>& parts, const Judgement& worst) const {
    JudgedClaim out{&claim_, worst.verdict, worst.reason, worst.brief.empty() ? worst.reason : worst.brief};
    if (parts.size() == 1) return out;
    if (std::all_of(parts.begin(), parts.end(), [](const auto& part) { return part.same; })) {
      out.reason = "They are identical by construction: all of these cells are one training";
      return out;
    }
    out.brief = counts_of(parts);
    out.reason += "; " + out.brief;
    return out;
  }

  const Results& results_;
  const Claim& claim_;
};

}  // namespace

std::string verdict_text(Verdict verdict) {
  switch (verdict) {
    case Verdict::kHolds:
      return "holds";
    case Verdict::kDoesNotHold:
      return "does not hold";
    case Verdict::kUndecided:
      return "undecided";
  }
  return "";
}

std::string verdict_count(const std::vector<JudgedClaim>& claims) {
  const auto count = [&](Verdict verdict) {
    return std::count_if(claims.begin(), claims.end(), [&](const auto& claim) { return claim.verdict == verdict; });
  };
  const auto holds = count(Verdict::kHolds);
  const auto fails = count(Verdict::kDoesNotHold);
  const auto open = count(Verdict::kUndecided);
  std::string out;
  const auto add = [&](const std::string& part) { out += (out.empty() ? "" : ", ") + part; };
  if (holds > 0) add(fmt::format("{} {}", holds, holds == 1 ? "holds" : "hold"));
  if (fails > 0) add(fmt::format("{} {} not{}", fails, fails == 1 ? "does" : "do", holds > 0 ? "" : " hold"));
  if (open > 0) add(fmt::format("{} {} undecided", open, open == 1 ? "is" : "are"));
  return out;
}

std::vector<JudgedClaim> judge(const Results& results) {
  std::vector<JudgedClaim> out;
  for (const auto& claim : results.study.claims) out.push_back(Judge(results, claim).run());
  return out;
}

}  // namespace frn::study
