// Cells that are the same training by construction are shown as that, and count as equal.
#include <algorithm>

#include "frn/report/study_report.h"
#include "frn/report/study_tables.h"
#include "frn/report/study_terminal.h"
#include "tests/core/files.h"
#include "tests/study/made_up_study.h"

namespace frn::report {
namespace {

constexpr size_t kFrnStays = 2;  // the claim "FRN stays."

class StudyTwins : public FolderTest {
 protected:
  static bool holds(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }
  study::MadeUpStudy study(int64_t seeds = 1) {
    std::map<std::string, std::string> same_as{{"frn-1", "frn-32"}};
    for (int64_t seed = 1; seed < seeds; ++seed) {
      same_as[fmt::format("frn-1-seed{}", seed)] = fmt::format("frn-32-seed{}", seed);
    }
    return {folder_ / "study", seeds, "smoke", same_as};
  }
};

TEST_F(StudyTwins, ACellWithoutAFolderHasTheResultsOfItsTwin) {
  const auto made = study();
  made.finish("frn-32", 0.8);
  const auto results = read_results(made.folder);
  const auto* twin = results.at(1, 1).front();
  EXPECT_EQ(twin->state, study::CellState::kFinished);
  EXPECT_EQ(twin->same_as, "frn-32");
  EXPECT_EQ(twin->seconds, 0) << "times add up to what was spent";
  EXPECT_EQ(results.count_same(), 1);
  EXPECT_EQ(value_text(summarise(results, "precision_at_1", 1, 1)), "= 80.00");
  EXPECT_EQ(value_text(summarise(results, "precision_at_1", 1, 0)), "80.00");
}

TEST_F(StudyTwins, TheyAreIdenticalByConstructionAlsoWithOneSeed) {
  const auto made = study();
  made.finish("frn-32", 0.8);
  const auto results = read_results(made.folder);
  const auto claims = judge(results);
  EXPECT_EQ(claims[kFrnStays].verdict, study::Verdict::kHolds);
  EXPECT_EQ(claims[kFrnStays].reason, "FRN at 32 images and at 1 image are identical by construction: one training");
}

TEST_F(StudyTwins, EveryFormOfTheReportSaysSo) {
  const auto made = study(2);
  for (const char* cell : {"frn-32", "frn-32-seed1"}) made.finish(cell, 0.8);
  study_report(made.folder);
  const auto page = contents(made.folder.path / "report.html");
  EXPECT_TRUE(holds(page, "4 of 8 cells finished (2 are the same training as another), 4 not run, 2 seeds")) << page;
  EXPECT_TRUE(holds(page, "same training as frn-32-seed1"));
  EXPECT_TRUE(holds(page, "= 80.00"));
  const auto table = contents(made.folder.path / "table.md");
  EXPECT_TRUE(holds(table, "= marks cells that are the same training"));
  const auto csv = contents(made.folder.path / "table.csv");
  EXPECT_TRUE(holds(csv, ",99.0000,0.0,,frn-32\n")) << csv;
  EXPECT_TRUE(holds(terminal_text(made.folder), "= the same training as another cell"));
}

TEST_F(StudyTwins, ACellWithAFolderOfItsOwnIsItself) {
  const auto made = study();
  made.finish("frn-32", 0.8);
  made.finish("frn-1", 0.7);
  const auto results = read_results(made.folder);
  EXPECT_EQ(results.count_same(), 0);
  EXPECT_EQ(summary_text(summarise(results, "precision_at_1", 1, 1)), "70.00");
}

TEST_F(StudyTwins, WhatHappenedToTheTrainingHappenedToBoth) {
  const auto made = study();
  EXPECT_EQ(read_results(made.folder).at(1, 1).front()->state, study::CellState::kMissing);
  made.fail("frn-32");
  const auto results = read_results(made.folder);
  EXPECT_EQ(results.at(1, 1).front()->state, study::CellState::kFailed);
  const auto notes = notes_of(results);
  EXPECT_TRUE(std::none_of(notes.begin(), notes.end(), [](const auto& note) { return note.cell == "frn-1"; }))
      << "one failure is told once";
}

TEST_F(StudyTwins, ALaterCallForgetsNone) {
  const auto made = study();
  auto record = made.folder.read_record();
  record.same_as = {{"bn-1", "bn-32"}};
  made.folder.write(study::kMadeUpStudy, record);
  EXPECT_EQ(made.folder.read_record().same_as,
            (std::map<std::string, std::string>{{"bn-1", "bn-32"}, {"frn-1", "frn-32"}}));
}

TEST_F(StudyTwins, AFolderOfAnEarlierVersionHasNone) {
  const study::MadeUpStudy made(folder_ / "old", 1);
  for (const char* cell : {"bn-32", "bn-1", "frn-32", "frn-1"}) made.finish(cell, 0.8);
  EXPECT_FALSE(holds(contents(made.folder.record()), "same_as"));
  study_report(made.folder);
  const auto page = contents(made.folder.path / "report.html");
  EXPECT_TRUE(holds(page, "4 of 4 cells finished, 1 seed.")) << page;
  EXPECT_FALSE(holds(page, "same training"));
}

}  // namespace
}  // namespace frn::report
