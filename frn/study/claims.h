// The paper's claims against what was trained: which hold, which do not, and which the seeds cannot decide.
//
// The rule. A difference of two cells is decided by Welch's t-test over their seeds at 95 % (two-sided); that two are
// close, by Student's over their differences seed by seed, over the seeds that both have (with fewer than two of them,
// by Welch's). Seeds that agree to the last digit vary as far as the choice of the validation images makes a share
// vary; of other metrics they decide nothing. Cells that are one training by construction are equal. With one seed of
// either the spread is not known: then only shares are compared, and a difference is significant above 5 points and
// above five standard errors, which follow from the number of validation images. A cell that diverged is worse than one
// that was trained; one no better than the scale's chance has not learned yet and decides nothing where it should be
// the better one, except after the paper's whole training, where it has collapsed. A claim about many cells holds when
// it does for all of them, and does not hold as soon as it fails for one.
#pragma once

#include "frn/study/results.h"

namespace frn::study {

enum class Verdict : uint8_t { kHolds, kDoesNotHold, kUndecided };

struct JudgedClaim {
  const Claim* claim;
  Verdict verdict = Verdict::kUndecided;
  std::string reason;  // a sentence without its full stop: the comparison that is the strongest evidence against the
                       // claim, or what is missing
  std::string brief;   // the same in a few words
};

std::string verdict_text(Verdict verdict);  // "holds", "does not hold", "undecided"
// "4 hold, 1 does not, 2 are undecided".
std::string verdict_count(const std::vector<JudgedClaim>& claims);

// How far the means of two sets of seeds are apart, and by how much they must be to count.
struct Difference {
  double size = 0;    // as tables show it: of shares in points
  double margin = 0;  // |size| above it is significant; infinite: nothing is
};
Difference difference_of(const CellSummary& a, const CellSummary& b);

std::vector<JudgedClaim> judge(const Results& results);

// The rule in words, for reports.
std::string rule_of_claims();

}  // namespace frn::study
