// A study's report shows every cell as what it is, and decides the paper's claims only where the seeds can.
#include "frn/report/study_report.h"

#include <algorithm>
#include <cstdlib>

#include "frn/report/gnuplot.h"
#include "frn/report/study_tables.h"
#include "frn/report/study_terminal.h"
#include "frn/study/claims.h"
#include "tests/core/files.h"
#include "tests/report/run_folder.h"
#include "tests/study/made_up_study.h"

namespace frn::report {
namespace {

class StudyReport : public FolderTest {
 protected:
  static bool holds(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }
  study::MadeUpStudy study(int64_t seeds) { return {folder_ / "a study", seeds}; }
  static std::string page(const study::MadeUpStudy& study) {
    return contents((study_report(study.folder), study.folder.path / "report.html"));
  }
  static study::Verdict verdict(const study::MadeUpStudy& study, size_t claim) {
    return judge(read_results(study.folder)).at(claim).verdict;
  }
  // Both columns of a row, with these seeds.
  static void finish_row(const study::MadeUpStudy& study, const std::string& row, const std::vector<double>& shares) {
    for (size_t seed = 0; seed < shares.size(); ++seed) {
      const auto end = seed == 0 ? std::string() : fmt::format("-seed{}", seed);
      for (const char* column : {"32", "1"}) study.finish(fmt::format("{}-{}{}", row, column, end), shares[seed]);
    }
  }
};

TEST_F(StudyReport, AFailedADivergedAndAMissingCellAreEachShownAsWhatTheyAre) {
  const auto made = study(1);
  made.finish("frn-32", 0.8125);
  made.diverge("bn-1");
  made.fail("bn-32");
  const auto text = page(made);
  EXPECT_TRUE(holds(text, "1 of 4 cells finished, 1 diverged, 1 failed, 1 not run, 1 seed")) << text.substr(4000, 2000);
  EXPECT_TRUE(holds(text, "<td class=\"number bad\">failed</td>"));
  EXPECT_TRUE(holds(text, "<td class=\"number open\">diverged</td>"));
  EXPECT_TRUE(holds(text, "<td>bn-32</td><td class=\"bad\">failed</td><td>[train] no &lt;such&gt; file</td>"));
  EXPECT_TRUE(holds(text, "<td>bn-1</td><td class=\"open\">diverged</td><td>the loss is not finite at step 7</td>"));
  EXPECT_TRUE(holds(text, "<td>frn-1</td><td class=\"open\">not run</td>"));
  EXPECT_FALSE(holds(text, "<layer>"));
  const auto table = contents(made.folder.path / "table.md");
  EXPECT_TRUE(holds(table, "- bn-32: failed: [train] no <such> file")) << table;
  EXPECT_TRUE(holds(table, "- bn-1: diverged"));
  EXPECT_TRUE(holds(table, "- frn-1: not run"));
  EXPECT_TRUE(holds(
      table, "- **undecided**: FRN is better. BN at 32 images failed; none of 2 comparisons holds, 2 are undecided"));
  EXPECT_TRUE(holds(table, "- **holds**: BN diverges at 1. BN at 1 image diverged."));
  const auto csv = contents(made.folder.path / "table.csv");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 5);
  EXPECT_TRUE(holds(csv, "frn-32,frn,32,0,resnetv2-8,frn+tlu,32,,finished,100,77.21,81.2500,,99.0000,60.0,")) << csv;
}

TEST_F(StudyReport, ThePapersValuesStandBesideOurs) {
  const auto made = study(2);
  finish_row(made, "bn", {0.70, 0.72});
  finish_row(made, "frn", {0.78, 0.80});
  const auto table = table_text(made.folder);
  EXPECT_TRUE(holds(table, "71.00 ± 1.41")) << table;
  EXPECT_TRUE(holds(table, " 76.21 |"));
}

TEST_F(StudyReport, WithoutAPaperNoRowIsThePapers) {
  const auto made = study(1);
  finish_row(made, "bn", {0.70});
  finish_row(made, "frn", {0.78});
  EXPECT_TRUE(holds(page(made), ">paper<"));
  std::string text = study::kMadeUpStudy;
  const auto begin = text.find("[published.precision_at_1]");
  put(made.folder.definition(), text.erase(begin, text.find("[scale.smoke]") - begin));
  const auto own = page(made);
  EXPECT_TRUE(holds(own, "Difference from Batchnorm") && holds(own, "+8.00")) << own;
  EXPECT_FALSE(holds(own, ">paper<")) << own;
}

TEST_F(StudyReport, OnlyThePapersScaleSubtractsThePapersValues) {
  for (const char* scale : {"smoke", "paper"}) {
    const study::MadeUpStudy made(folder_ / scale, 2, scale);
    finish_row(made, "bn", {0.70, 0.72});
    const bool subtracts = std::string(scale) == "paper";
    auto everywhere = page(made);
    everywhere += contents(made.folder.path / "table.md") + terminal_text(made.folder);
    EXPECT_EQ(holds(everywhere, "-5.21"), subtracts) << everywhere;
    EXPECT_EQ(holds(everywhere, "diff."), subtracts);
    EXPECT_EQ(holds(everywhere, "| difference"), subtracts);
  }
}

TEST_F(StudyReport, SeedsThatAgreeDecideAndSeedsThatScatterDoNot) {
  const auto made = study(3);
  finish_row(made, "bn", {0.700, 0.702, 0.701});
  finish_row(made, "frn", {0.720, 0.722, 0.721});
  made.finish("frn-1-seed1", 0.723);
  EXPECT_EQ(verdict(made, 0), study::Verdict::kHolds);
  EXPECT_EQ(verdict(made, 1), study::Verdict::kDoesNotHold) << "it was trained";
  EXPECT_EQ(verdict(made, 2), study::Verdict::kHolds);
  finish_row(made, "frn", {0.680, 0.682, 0.681});
  EXPECT_EQ(verdict(made, 0), study::Verdict::kDoesNotHold);
  finish_row(made, "frn", {0.66, 0.76, 0.71});
  EXPECT_EQ(verdict(made, 0), study::Verdict::kUndecided);
  EXPECT_EQ(verdict(made, 2), study::Verdict::kUndecided) << "three differences of 0 may be chance";
  made.finish("frn-1", 0.661);
  EXPECT_EQ(verdict(made, 2), study::Verdict::kHolds) << "every seed ended much the same in both columns";
  made.finish("frn-1", 0.76);
  made.finish("frn-1-seed1", 0.66);
  EXPECT_EQ(verdict(made, 2), study::Verdict::kUndecided) << "the means are the same, but no seed agrees";
}

TEST_F(StudyReport, SeedsThatOneOfTwoCellsLacksDoNotMoveThemApart) {
  const auto made = study(1);
  for (const char* cell : {"bn-32", "bn-1", "frn-32", "frn-1"}) made.finish(cell, 0.70);
  made.finish("frn-32-seed1", 0.90);
  const auto study = read_results(made.folder);
  ASSERT_EQ(study.cells.size(), 4);
  auto record = made.folder.read_record();
  record.seeds = 2;
  record.asked = {"frn-32-seed1"};
  made.folder.write(study::kMadeUpStudy, record);
  const auto results = read_results(made.folder);
  ASSERT_EQ(results.cells.size(), 5);
  const auto close = judge(results)[2];
  EXPECT_EQ(close.verdict, study::Verdict::kUndecided);
  EXPECT_TRUE(holds(close.reason, "FRN at 32 images and at 1 image are 0 points apart")) << close.reason;
}

TEST_F(StudyReport, OneSeedDecidesOnlyWhatIsHuge) {
  const auto made = study(1);
  finish_row(made, "bn", {0.70});
  finish_row(made, "frn", {0.74});
  EXPECT_EQ(verdict(made, 0), study::Verdict::kUndecided);
  EXPECT_EQ(verdict(made, 2), study::Verdict::kUndecided) << "one seed cannot show that two are close";
  finish_row(made, "frn", {0.82});
  EXPECT_EQ(verdict(made, 0), study::Verdict::kHolds);
  finish_row(made, "bn", {0.99});
  EXPECT_EQ(verdict(made, 0), study::Verdict::kDoesNotHold);
}

TEST_F(StudyReport, ADivergedCellIsBelowATrainedOne) {
  const auto made = study(1);
  finish_row(made, "frn", {0.5});
  made.diverge("bn-1");
  made.diverge("bn-32");
  EXPECT_EQ(verdict(made, 0), study::Verdict::kHolds);
}

TEST_F(StudyReport, ACellThatHasNotLearnedDoesNotRefuteAClaim) {
  const auto made = study(1);
  finish_row(made, "frn", {0.10});
  finish_row(made, "bn", {0.80});
  EXPECT_EQ(verdict(made, 0), study::Verdict::kUndecided);
  finish_row(made, "frn", {0.80});
  finish_row(made, "bn", {0.10});
  EXPECT_EQ(verdict(made, 0), study::Verdict::kHolds) << "as the lower one it counts: BN with one image per device";
  EXPECT_EQ(verdict(made, 1), study::Verdict::kUndecided) << "it neither diverged nor learned";
}

TEST_F(StudyReport, AfterThePapersWholeTrainingACellThatGuessesHasCollapsed) {
  const study::MadeUpStudy made(folder_ / "paper", 2, "paper");
  finish_row(made, "bn", {0.0011, 0.0009});
  finish_row(made, "frn", {0.77, 0.78});
  const auto diverges = judge(read_results(made.folder)).at(1);
  EXPECT_EQ(diverges.verdict, study::Verdict::kHolds);
  EXPECT_EQ(diverges.reason, "BN at 1 image collapsed: it ended no better than guessing");
  made.diverge("bn-1-seed1");
  EXPECT_EQ(verdict(made, 1), study::Verdict::kHolds) << "one seed by its loss, one by what it learned";
  made.finish("bn-1", 0.0158);
  EXPECT_EQ(verdict(made, 1), study::Verdict::kUndecided) << "the paper's BN has 1.58 % there: little, but learned";
  made.finish("bn-1-seed1", 0.0158);
  EXPECT_EQ(verdict(made, 1), study::Verdict::kDoesNotHold);
  finish_row(made, "frn", {0.0011, 0.0009});
  EXPECT_EQ(verdict(made, 0), study::Verdict::kDoesNotHold) << "it has had its time to learn";
}

TEST_F(StudyReport, CellsThatWereStoppedHaveNoValueInTheTable) {
  const auto made = study(1);
  made.finish("bn-32", 0.4, "interrupted");
  const auto results = read_results(made.folder);
  EXPECT_EQ(results.cells[0].state, study::CellState::kUnfinished);
  EXPECT_EQ(summary_text(summarise(results, "precision_at_1", 0, 0)), "–");
  EXPECT_TRUE(holds(page(made), "unfinished (step 100)"));
}

TEST_F(StudyReport, TrainingAccuracyIsAsSureAsItsImages) {
  const auto made = study(1);
  const auto put = [&](const char* train) {
    made.put(
        "bn-32", "metrics.json",
        std::string(R"({"status":"finished","step":100,"validation":{"precision_at_1":0.5,"samples":1000},"train":)") +
            train + "}");
    const auto results = read_results(made.folder);
    EXPECT_EQ(summarise(results, "precision_at_1", 0, 0).samples, 1000);
    return summarise(results, "train.precision_at_1", 0, 0).samples;
  };
  EXPECT_EQ(put(R"({"precision_at_1":0.6,"samples":2048})"), 2048);
  EXPECT_EQ(put(R"({"precision_at_1":0.6})"), 64) << "of an earlier version: a line of the log";
}

TEST_F(StudyReport, ThePageOpensWithTheFigureThenTheVerdictsThenTheTables) {
  const auto made = study(3);
  finish_row(made, "bn", {0.700, 0.702, 0.701});
  finish_row(made, "frn", {0.720, 0.722, 0.721});
  made.finish("frn-1-seed1", 0.7225);
  const auto text = page(made);
  const auto figure = text.find("<figure id=\"figure-1\">");
  const auto verdicts = text.find("Claims of the paper: 2 hold, 1 does not");
  const auto results = text.find("<h2>Results</h2>");
  ASSERT_NE(verdicts, std::string::npos);
  EXPECT_LT(figure, verdicts);
  EXPECT_LT(verdicts, results);
  EXPECT_LT(results, text.find("<h2>How it was made</h2>"));
  EXPECT_TRUE(holds(text, "Bars: standard deviation of 3 seeds."));
}

TEST_F(StudyReport, FiguresTakeThePagesColours) {
  const auto made = study(1);
  finish_row(made, "frn", {0.8});
  EXPECT_TRUE(holds(page(made), "var(--hue-1)")) << "a page in the dark scheme needs other shades";
  EXPECT_FALSE(holds(contents(made.folder.path / "figure-1.svg"), "var(--")) << "a file of its own knows no page";
}

TEST_F(StudyReport, ATerminalShowsATableAndALineForEachClaim) {
  const auto made = study(3);
  finish_row(made, "bn", {0.700, 0.702, 0.701});
  finish_row(made, "frn", {0.720, 0.722, 0.721});
  made.finish("frn-1-seed1", 0.7225);
  const auto text = terminal_text(made.folder);
  EXPECT_TRUE(holds(text, "  FRN <layer>   72.1 ± 0.1   72.1 ± 0.1\n    paper             77.2         77.4\n"))
      << text;
  EXPECT_TRUE(holds(text, "Claims of the paper: 2 hold, 1 does not\n")) << text;
  EXPECT_TRUE(holds(text, "  holds          FRN is better (both comparisons hold)\n")) << text;
  EXPECT_TRUE(holds(text, "  does not hold  BN diverges at 1 (BN at 1 image was trained to 70.1 %)\n")) << text;
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 24) << "it fits a screen";
}

TEST_F(StudyReport, FiguresAreDrawnFromWhatIsThere) {
  const auto made = study(1);
  finish_row(made, "frn", {0.8});
  RunFolder run(made.folder.cell("frn-32"));
  run.fill(200);
  std::vector<std::string> names;
  for (const auto& path : study_report(made.folder).files) names.push_back(path.filename().string());
  EXPECT_EQ(names,
            (std::vector<std::string>{"figure-1.svg", "figure-1-paper.svg", "curves-training.svg",
                                      "curves-validation.svg", "frn.svg", "table.md", "table.csv", "report.html"}));
  const auto text = contents(made.folder.path / "report.html");
  EXPECT_TRUE(holds(text, "<a href=\"#curves-of-frn\">80.00</a>")) << "a value leads to the curves of its row";
  EXPECT_TRUE(holds(text, "<figure id=\"curves-of-frn\">"));
  EXPECT_FALSE(holds(text, "#curves-of-bn")) << "where there are none, nothing leads there";
}

TEST_F(StudyReport, FiguresThatCannotBeDrawnWithholdNoNumbers) {
  const auto made = study(1);
  finish_row(made, "frn", {0.8});
  RunFolder run(made.folder.cell("frn-32"));
  run.fill(200);
  const std::string path = std::getenv("PATH");
  setenv("PATH", (folder_ / "nothing").c_str(), 1);
  const bool has = has_gnuplot();
  const auto [files, undrawn] = study_report(made.folder);
  setenv("PATH", path.c_str(), 1);
  EXPECT_FALSE(has);
  EXPECT_TRUE(holds(undrawn, "gnuplot is needed to draw")) << undrawn;
  EXPECT_TRUE(holds(undrawn, "the tables and report.html were written without 5 of 5 figures")) << undrawn;
  EXPECT_EQ(files.size(), 3);
  const auto text = contents(made.folder.path / "report.html");
  EXPECT_TRUE(holds(text, "Claims of the paper") && holds(text, "80.00") && !holds(text, "<figure")) << text;
  EXPECT_FALSE(holds(contents(made.folder.path / "table.md"), ".svg"));
  EXPECT_TRUE(has_gnuplot());
  EXPECT_EQ(study_report(made.folder).undrawn, "");
}

TEST_F(StudyReport, NothingIsWrittenThroughALink) {
  const auto made = study(1);
  RunFolder run(made.folder.cell("frn-32"));
  run.fill(200);
  std::filesystem::create_directories(folder_ / "victim");
  put(folder_ / "victim" / "frn.svg", "mine");
  for (const char* name : {"table.csv", "table.md", "report.html", "curves"}) {
    const bool is_folder = std::string(name) == "curves";
    std::filesystem::remove_all(made.folder.path / name);
    std::filesystem::create_symlink(folder_ / "victim" / (is_folder ? "" : "frn.svg"), made.folder.path / name);
    const auto error = error_of([&] { study_report(made.folder); });
    EXPECT_TRUE(holds(error, std::string(name) + " must be of this folder but is a symbolic link")) << error;
    std::filesystem::remove(made.folder.path / name);
  }
  EXPECT_EQ(contents(folder_ / "victim" / "frn.svg"), "mine");
}

TEST_F(StudyReport, AnEmptyStudyAndNoStudyAreTold) {
  EXPECT_TRUE(holds(page(study(1)), "0 of 4 cells finished, 4 not run"));
  EXPECT_TRUE(holds(error_of([&] { study_report({folder_ / "nothing"}); }), "holds no study"));
  put(folder_ / "a study" / "study.json", "{");
  EXPECT_TRUE(holds(error_of([&] { study_report({folder_ / "a study"}); }), "is damaged"));
}

}  // namespace
}  // namespace frn::report
