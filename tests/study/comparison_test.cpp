// A claim is judged by one sentence that says how two cells stand, and how far apart they would have to be.
#include "frn/study/comparison.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace frn::study {
namespace {

NamedCell cell(const char* row, const char* column, const std::vector<double>& values) {
  NamedCell out{row, column, {}};
  auto& s = out.summary;
  s.metric = classification_metrics()[0];
  s.values = values;
  s.seeds = values.size();
  s.samples = 1000;
  s.mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    s.trained_as.push_back(out.name() + std::to_string(i));
    s.seeds_of_values.push_back(static_cast<int64_t>(i));
  }
  if (values.size() < 2) return out;
  double squares = 0;
  for (const double value : values) squares += (value - s.mean) * (value - s.mean);
  s.deviation = std::sqrt(squares / static_cast<double>(values.size() - 1));
  return out;
}

TEST(StudyComparison, ADifferenceIsSaidWithWhatWouldBeSignificant) {
  const auto many = cell("BN", "at 32 images", {84, 85, 86});
  const auto one = cell("BN", "at 1 image", {30, 31, 32});
  const auto holds = judge_higher(many, one, 0);
  EXPECT_EQ(holds.verdict, Verdict::kHolds);
  EXPECT_EQ(holds.reason, "BN at 32 images is 54 points above BN at 1 image (significant above 2.3)");
  const auto fails = judge_higher(one, many, 0);
  EXPECT_EQ(fails.verdict, Verdict::kDoesNotHold);
  EXPECT_EQ(fails.reason, "BN at 1 image is 54 points below BN at 32 images (significant above 2.3)");
  EXPECT_LT(fails.support, 0);
}

TEST(StudyComparison, TheColumnIsSaidOnceWhenItIsTheSame) {
  const auto judged =
      judge_higher(cell("FRN", "at 2 images", {80.8, 81.8, 82.8}), cell("BN", "at 2 images", {80, 81, 82}), 0);
  EXPECT_EQ(judged.verdict, Verdict::kUndecided);
  EXPECT_EQ(judged.reason, "FRN is 0.8 points above BN at 2 images, which is within the noise (significant above 2.3)");
  const auto alone = judge_higher(cell("FRN", "", {90}), cell("BN", "", {80}), 0);
  EXPECT_EQ(alone.reason, "FRN is 10 points above BN (significant above 7.9)");
}

TEST(StudyComparison, AClaimedSizeIsPartOfTheSentence) {
  const auto low = cell("BN", "", {50, 51, 52});
  EXPECT_EQ(judge_higher(cell("FRN", "", {80, 81, 82}), low, 20).reason,
            "FRN is 30 points above BN, more than the claimed 20 (margin of error 2.3)");
  EXPECT_EQ(judge_higher(cell("FRN", "", {60, 61, 62}), low, 20).reason,
            "FRN is 10 points above BN, not more than the claimed 20 (margin of error 2.3)");
  EXPECT_EQ(judge_higher(cell("FRN", "", {71, 72, 73}), low, 20).reason,
            "FRN is 21 points above BN, too close to call against the claimed 20 (margin of error 2.3)");
}

TEST(StudyComparison, CloseIsWithinWhenTheMarginIsToo) {
  const auto a = cell("BN", "", {80, 81, 82});
  EXPECT_EQ(judge_close(a, cell("FRN", "", {80.1, 81.2, 82.1}), 0.5).reason,
            "BN and FRN are 0.13 points apart, within the claimed 0.5 (margin of error 0.14)");
  EXPECT_EQ(judge_close(a, cell("FRN", "", {90, 91, 92}), 0.5).verdict, Verdict::kDoesNotHold);
  const auto open = judge_close(a, cell("FRN", "", {82, 81, 80}), 0.5);
  EXPECT_EQ(open.verdict, Verdict::kUndecided);
  EXPECT_EQ(
      open.reason,
      "BN and FRN are 0 points apart, which does not show whether it is within the claimed 0.5 (margin of error 5)");
}

TEST(StudyComparison, SeedsThatAgreeByChanceAreNoCertainty) {
  // Of 1000 images a share of 84 % has a standard error of 1.16 points: sqrt(2 / 2) x 1.16 x t(2) = 5.0 for two seeds.
  const auto low = cell("BN", "", {84, 84});
  const auto near = judge_higher(cell("FRN", "", {84.1, 84.1}), low, 0);
  EXPECT_EQ(near.verdict, Verdict::kUndecided);
  EXPECT_EQ(near.reason, "FRN is 0.1 points above BN, which is within the noise (significant above 5)");
  EXPECT_EQ(judge_higher(cell("FRN", "", {94, 94}), low, 0).verdict, Verdict::kHolds);
  const auto close = judge_close(cell("FRN", "", {85.1, 83.1}), cell("BN", "", {85, 83}), 0.5);
  EXPECT_EQ(close.verdict, Verdict::kUndecided) << "differences of 0.1 and 0.1: " << close.reason;
  EXPECT_EQ(judge_close(cell("FRN", "", {70, 68}), cell("BN", "", {95, 93}), 0.5).verdict, Verdict::kDoesNotHold);
}

TEST(StudyComparison, WithoutTheNumberOfImagesSeedsThatAgreeDecideNothing) {
  auto a = cell("FRN", "", {94, 94});
  const auto b = cell("BN", "", {84, 84});
  a.summary.samples = kMissing;
  EXPECT_EQ(
      judge_higher(a, b, 0).reason,
      "FRN is 10 points above BN, but seeds that agree to the last digit do not show whether that is significant");
  EXPECT_EQ(judge_higher(a, b, 0).brief, "+10 points, seeds without spread");
  EXPECT_EQ(judge_close(a, b, 20).verdict, Verdict::kUndecided);
  auto loss = cell("FRN", "", {0.5, 0.5});
  loss.summary.metric.kind = MetricKind::kLoss;
  EXPECT_EQ(judge_higher(loss, cell("BN", "", {0.4, 0.4}), 0).verdict, Verdict::kUndecided);
}

TEST(StudyComparison, OnlyValuesOfTheSameSeedAreAPair) {
  const auto a = cell("FRN", "", {60, 70, 80});
  auto b = cell("BN", "", {70.1, 80});
  b.summary.seeds_of_values = {1, 2};
  const auto paired = judge_close(a, b, 1);
  EXPECT_EQ(paired.reason, "FRN and BN are 0.05 points apart, within the claimed 1 (margin of error 0.64)");
  b.summary.seeds_of_values = {1, 7};
  EXPECT_EQ(judge_close(a, b, 1).verdict, Verdict::kUndecided) << "one seed in common: Welch's margin over all";
  EXPECT_EQ(judge_close(a, b, 1).brief, "5 points apart, margin of error 32.7") << "t(2) x sqrt(100/3 + 49/2)";
}

TEST(StudyComparison, OneTrainingIsNeitherAboveNorApart) {
  auto a = cell("FRN", "at 32 images", {80});
  auto b = cell("FRN", "at 1 image", {80});
  b.summary.trained_as = a.summary.trained_as;
  b.summary.same_as_another = true;
  EXPECT_EQ(judge_close(a, b, 0.5).verdict, Verdict::kHolds);
  EXPECT_TRUE(judge_close(a, b, 0.5).same);
  EXPECT_EQ(judge_higher(a, b, 0).verdict, Verdict::kDoesNotHold);
  a.idle = b.idle = true;
  EXPECT_EQ(judge_close(a, b, 0.5).verdict, Verdict::kHolds) << "the same, whatever it learned";
}

TEST(StudyComparison, AnOpenSeedIsSaidAsOneAndNotAsTheCell) {
  const auto other = cell("BN", "", {80, 81, 82});
  auto some = cell("FRN", "", {90, 91});
  some.summary.seeds = 3;
  some.summary.open = 1;
  const auto judged = judge_higher(some, other, 0);
  EXPECT_EQ(judged.verdict, Verdict::kUndecided);
  EXPECT_EQ(judged.reason, "FRN is open in 1 of 3 seeds");
  auto none = cell("FRN", "", {});
  none.summary.seeds = 1;
  none.summary.open = 1;
  EXPECT_EQ(judge_higher(none, other, 0).reason, "FRN was not trained to the end");
}

TEST(StudyComparison, VerdictsAreCounted) {
  const auto of = [](const std::vector<Verdict>& verdicts) {
    std::vector<JudgedClaim> claims;
    for (const auto verdict : verdicts) claims.push_back({nullptr, verdict, "", ""});
    return verdict_count(claims);
  };
  constexpr auto kHolds = Verdict::kHolds;
  constexpr auto kFails = Verdict::kDoesNotHold;
  constexpr auto kOpen = Verdict::kUndecided;
  EXPECT_EQ(of({kHolds, kHolds, kFails, kOpen, kOpen}), "2 hold, 1 does not, 2 are undecided");
  EXPECT_EQ(of({kHolds, kFails, kFails, kOpen}), "1 holds, 2 do not, 1 is undecided");
  EXPECT_EQ(of({kFails, kFails}), "2 do not hold");
  EXPECT_EQ(of({kHolds}), "1 holds");
}

}  // namespace
}  // namespace frn::study
