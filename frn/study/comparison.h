// Two cells of a study compared for a claim, with the sentence that says which is higher and by how much.
#pragma once

#include "frn/study/claims.h"

namespace frn::study {

// A cell as sentences name it.
struct NamedCell {
  std::string row;     // "BN"
  std::string column;  // "at 32 images"; empty where there is one column
  CellSummary summary;
  bool idle = false;       // no better than guessing, at a scale that is too short to blame the method for it
  bool collapsed = false;  // every seed diverged or is no better than guessing, after the paper's whole training

  std::string name() const { return column.empty() ? row : row + " " + column; }
};

struct Judgement {
  Verdict verdict = Verdict::kUndecided;
  std::string reason;      // "BN at 32 images is 54.2 points above BN at 1 image (significant above 9.3)"
  std::string brief = {};  // "+54.2 points, margin of error 9.3"; empty: the reason is short
  double support = 0;      // how far it speaks for the claim (above 0) or against it, in margins of error
  bool same = false;       // one training by construction
};

// That a is above b by more than `by`, as tables show the metric: shares in points.
Judgement judge_higher(const NamedCell& a, const NamedCell& b, double by);
// That a is better than b by more than `by`: above it, or below it in a metric that should be low.
Judgement judge_better(const NamedCell& a, const NamedCell& b, double by);
// That they are at most `within` apart.
Judgement judge_close(const NamedCell& a, const NamedCell& b, double within);
// That training breaks down: the loss is no longer finite, or the network only guesses.
Judgement judge_diverges(const NamedCell& cell);

// Whether every seed of it was trained to the end.
bool is_trained(const CellSummary& summary);

}  // namespace frn::study
