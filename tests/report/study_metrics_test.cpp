// A study's numbers are shown and compared as what they are: shares in per cent, losses as they are, and less is better
// where the metric says so.
#include <algorithm>

#include "frn/report/study_figures.h"
#include "frn/report/study_report.h"
#include "frn/report/study_tables.h"
#include "frn/report/study_terminal.h"
#include "frn/study/claims.h"
#include "frn/study/comparison.h"
#include "tests/core/files.h"
#include "tests/report/run_folder.h"
#include "tests/study/made_up_study.h"

namespace frn::report {
namespace {

constexpr const char* kLoss = "[[metric]]\nkey = \"loss\"\ntitle = \"Loss\"\n";

bool holds(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at; (at = text.find(from)) != std::string::npos;) text.replace(at, from.size(), to);
  return text;
}

// The made-up study with other metrics than those of a classification, the first of them with this key.
std::string definition_with(const std::string& metrics, const std::string& key) {
  auto text = replaced(study::kMadeUpStudy, "[published.precision_at_1]", "[published." + key + "]");
  text = replaced(text, "76.21", "1.5");
  const std::string before = "[[row]]\nname = \"bn\"";
  return text.insert(text.find(before), metrics);
}

class StudyMetrics : public FolderTest {
 protected:
  study::MadeUpStudy study(const std::string& metrics, const std::string& key, int64_t seeds = 1) {
    study::MadeUpStudy made(folder_ / "study", seeds);
    frn::put(made.folder.definition(), definition_with(metrics, key));
    return made;
  }
  // Both columns of a row, with these seeds.
  static void finish(const study::MadeUpStudy& made, const std::string& row, const std::string& key,
                     const std::vector<double>& values, const std::string& list = "") {
    for (size_t seed = 0; seed < values.size(); ++seed) {
      for (const char* column : {"32", "1"}) {
        const auto name = fmt::format("{}-{}", row, column) + (seed == 0 ? "" : fmt::format("-seed{}", seed));
        made.put(name, "config.toml", "");
        made.put(
            name, "metrics.json",
            fmt::format(R"({{"status":"finished","step":100,"seconds":60,{}"validation":{{"{}":{},"samples":1000}}}})",
                        list, key, values[seed]));
      }
    }
  }
};

TEST_F(StudyMetrics, ALossIsShownAsItIs) {
  const auto made = study(kLoss, "loss");
  finish(made, "frn", "loss", {0.453});
  study_report(made.folder);
  const auto table = contents(made.folder.path / "table.md");
  EXPECT_TRUE(holds(table, " 0.4530 |")) << table;
  EXPECT_TRUE(holds(table, " 1.5000 |")) << "the paper's too:\n" << table;
  EXPECT_FALSE(holds(table, "45.3"));
  const auto page = contents(made.folder.path / "report.html");
  EXPECT_TRUE(holds(page, ">0.4530<"));
  EXPECT_FALSE(holds(page, "Loss, %"));
  EXPECT_TRUE(holds(contents(made.folder.path / "table.csv"), ",finished,100,77.2100,0.453,"))
      << contents(made.folder.path / "table.csv");
  EXPECT_TRUE(holds(terminal_text(made.folder), "\nLoss\n")) << terminal_text(made.folder);
}

TEST_F(StudyMetrics, AKeyThatNobodyExplainsIsANumber) {
  const auto made = study("[[metric]]\nkey = \"ap\"\ntitle = \"AP\"\n", "ap");
  finish(made, "frn", "ap", {0.25});
  EXPECT_EQ(summary_text(summarise(read_results(made.folder), "ap", 1, 0)), "0.25");
}

TEST_F(StudyMetrics, WhatAKeyIsTellTheCellsAndTheStudyOverThem) {
  const std::string list = R"("metrics":[{"key":"ap","title":"AP","kind":"share","better":"higher"}],)";
  const auto made = study("[[metric]]\nkey = \"ap\"\ntitle = \"AP\"\n", "ap");
  finish(made, "frn", "ap", {0.25}, list);
  EXPECT_EQ(summary_text(summarise(read_results(made.folder), "ap", 1, 0)), "25.00");
  frn::put(made.folder.definition(),
           definition_with("[[metric]]\nkey = \"ap\"\ntitle = \"AP\"\nkind = \"number\"\nbetter = \"lower\"\n", "ap"));
  const auto results = read_results(made.folder);
  EXPECT_EQ(summary_text(summarise(results, "ap", 1, 0)), "0.25");
  EXPECT_FALSE(results.metric("ap").higher_is_better);
}

TEST_F(StudyMetrics, AWrongKindOrDirectionIsNamed) {
  const auto error = [&](const std::string& line) {
    return error_of([&] { study::parse_study(definition_with(kLoss + line, "loss"), "made-up", "made-up.toml"); });
  };
  EXPECT_EQ(error("kind = \"loss\"\nbetter = \"lower\"\n"), "no error");
  EXPECT_TRUE(holds(error("kind = \"percent\"\n"), "[[metric]] 1: kind must be share, loss, count or number"));
  EXPECT_TRUE(holds(error("better = \"less\"\n"), "[[metric]] 1: better must be higher or lower"));
}

TEST_F(StudyMetrics, ACurvesFigureDrawsItsMetric) {
  const auto made = study(kLoss, "loss");
  finish(made, "frn", "loss", {0.453});
  RunFolder run(made.folder.cell("frn-32"));
  run.fill(200);
  const auto charts = charts_of(made.folder, read_results(made.folder));
  const auto found =
      std::find_if(charts.begin(), charts.end(), [](const auto& chart) { return chart.file == "curves-validation"; });
  ASSERT_NE(found, charts.end());
  EXPECT_EQ(found->chart.y_label, "Loss");
  EXPECT_NEAR(found->chart.curves.at(0).y.back(), 0.42 + 1.8 * std::exp(-4), 1e-9);
}

TEST_F(StudyMetrics, AFigureOverColumnsHasTheRangeOfItsMetric) {
  const auto made = study(kLoss, "loss");
  finish(made, "frn", "loss", {2.453});
  const auto charts = charts_of(made.folder, read_results(made.folder));
  EXPECT_EQ(charts.at(0).chart.y_max, std::nullopt);
  EXPECT_FALSE(charts.at(0).chart.level.has_value()) << "guessing gives a share, not a loss";
}

TEST_F(StudyMetrics, WhatDivergedHasNotTheLowerLoss) {
  const auto made = study(kLoss, "loss");
  finish(made, "frn", "loss", {0.5});
  made.diverge("bn-32");
  made.diverge("bn-1");
  const auto claim = judge(read_results(made.folder)).at(0);
  EXPECT_EQ(claim.verdict, study::Verdict::kDoesNotHold) << "that FRN's loss is higher: " << claim.reason;
}

TEST_F(StudyMetrics, BetterIsLowerWhereTheMetricSaysSo) {
  const auto made = study(kLoss, "loss", 3);
  auto text = replaced(definition_with(kLoss, "loss"), "higher = [\"frn\"]", "better = [\"frn\"]");
  frn::put(made.folder.definition(), replaced(text, "lower = [\"bn\"]", "worse = [\"bn\"]"));
  finish(made, "bn", "loss", {0.61, 0.62, 0.63});
  finish(made, "frn", "loss", {0.51, 0.52, 0.53});
  const auto claims = judge(read_results(made.folder));
  EXPECT_EQ(claims[0].verdict, study::Verdict::kHolds);
  EXPECT_TRUE(claims[0].reason.starts_with("FRN is 0.1 below BN at 32 images (significant above 0.02"))
      << claims[0].reason;
  for (const auto& claim : claims) EXPECT_FALSE(holds(claim.reason, "point")) << claim.reason;
  EXPECT_TRUE(holds(claims[1].reason, "BN at 1 image was trained to Loss 0.6200")) << claims[1].reason;
}

TEST_F(StudyMetrics, OneSeedOfALossDecidesNothing) {
  const auto made = study(kLoss, "loss");
  finish(made, "bn", "loss", {0.6});
  finish(made, "frn", "loss", {90});
  const auto claim = judge(read_results(made.folder)).at(0);
  EXPECT_EQ(claim.verdict, study::Verdict::kUndecided);
  EXPECT_TRUE(holds(claim.reason, "a single seed does not show whether that is significant")) << claim.reason;
}

}  // namespace
}  // namespace frn::report
