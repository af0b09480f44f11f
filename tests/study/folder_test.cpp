// A study's folder keeps what was begun in it, and knows which cells are one training.
#include "frn/study/folder.h"

#include "frn/core/error.h"
#include "frn/study/twins.h"
#include "tests/core/files.h"
#include "tests/study/made_up_study.h"

namespace frn::study {
namespace {

using Same = std::map<std::string, std::string>;

class StudyFolder : public FolderTest {
 protected:
  std::vector<Cell> cells() const {
    const auto study = made_.folder.read_definition();
    return cells_of(study, study.scale("smoke"), 1, {});
  }
  MadeUpStudy made_{folder_ / "study", 1};
};

std::string norm_of(const Cell& cell) { return plain_value(cell.settings, "norm"); }

TEST_F(StudyFolder, CellsOfOneTrainingAreTrainedAsTheFirst) {
  EXPECT_EQ(same_trainings(made_.folder, cells(), norm_of), (Same{{"bn-1", "bn-32"}, {"frn-1", "frn-32"}}));
}

TEST_F(StudyFolder, TheOneThatWasBegunStandsForTheOthers) {
  made_.put("frn-1", "config.toml", "");
  EXPECT_EQ(same_trainings(made_.folder, cells(), norm_of), (Same{{"bn-1", "bn-32"}, {"frn-32", "frn-1"}}));
  made_.put("frn-32", "config.toml", "");
  EXPECT_EQ(same_trainings(made_.folder, cells(), norm_of), (Same{{"bn-1", "bn-32"}})) << "both are their own";
}

TEST_F(StudyFolder, CellsThatCannotBeTrainedAreLeftOut) {
  const auto refuse = [](const Cell& cell) -> std::string {
    if (norm_of(cell) == "bn+relu") throw Error("study", "no");
    return norm_of(cell);
  };
  EXPECT_EQ(same_trainings(made_.folder, cells(), refuse), (Same{{"frn-1", "frn-32"}}));
}

TEST_F(StudyFolder, ACellGoesOnOnlyWithTheSettingsItWasBegunWith) {
  auto cell = cells().front();
  const auto check = [&] {
    return error_of(
        [&] { made_.folder.check_same_settings(cell, [](const std::string& key) { return key == "threads"; }); });
  };
  EXPECT_EQ(check(), "no error") << "it was not begun";
  made_.put(cell.name, "cell.toml", to_toml(cell.settings));
  cell.settings["threads"] = "2";
  EXPECT_EQ(check(), "no error");
  cell.settings["steps"] = "7";
  EXPECT_NE(check().find("was begun with another steps; give another --out"), std::string::npos) << check();
}

TEST_F(StudyFolder, AStudyBeginsInNoFolderOfSomebodys) {
  const Folder folder{folder_ / "theirs"};
  const auto check = [&] { return error_of([&] { folder.check_free(kMadeUpStudy); }); };
  EXPECT_EQ(check(), "no error") << "a new folder";
  folder.make();
  frn::put(folder.path / "study.lock", "");
  frn::put(folder.path / "study.toml", kMadeUpStudy);
  EXPECT_EQ(check(), "no error") << "what a killed start left";
  frn::put(folder.path / "study.toml", "title = 'Theirs'");
  EXPECT_NE(
      check().find("must be empty or a new folder but holds study.toml and no study (no study.json); give another"),
      std::string::npos)
      << check();
  std::filesystem::remove(folder.path / "study.toml");
  frn::put(folder.path / "report.html", "theirs");
  EXPECT_NE(check().find("but holds report.html"), std::string::npos) << check();
  EXPECT_NE(error_of([&] { Folder{folder.path / "report.html"}.check_free(""); }).find("but is a file"),
            std::string::npos);
  made_.put("bn-32", "config.toml", "");
  EXPECT_EQ(error_of([&] { made_.folder.check_free(""); }), "no error") << "a study goes on in its own";
}

}  // namespace
}  // namespace frn::study
