// A study's file is read as it stands, and what is wrong in it is named.
#include "frn/study/definition.h"

#include "frn/study/cells.h"
#include "tests/core/files.h"
#include "tests/study/made_up_study.h"

namespace frn::study {
namespace {

Definition made_up() { return parse_study(kMadeUpStudy, "made-up", "made-up.toml"); }

std::string error_with(const std::string& from, const std::string& to) {
  std::string text = kMadeUpStudy;
  text.replace(text.find(from), from.size(), to);
  return error_of([&] { parse_study(text, "made-up", "made-up.toml"); });
}

bool holds(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST(StudyDefinition, CellsAreRowsByColumnsBySeedsWithTheLaterSettingsOnTop) {
  const auto study = made_up();
  const auto cells = cells_of(study, study.scale("smoke"), 2, {{"steps", "5"}});
  ASSERT_EQ(cells.size(), 8);
  EXPECT_EQ(cells[0].name, "bn-32");
  EXPECT_EQ(cells[1].name, "bn-1");
  EXPECT_EQ(cells[7].name, "frn-1-seed1");
  EXPECT_EQ(plain_value(cells[0].settings, "lr_base"), "0.5");
  EXPECT_EQ(plain_value(cells[7].settings, "norm"), "frn+tlu");
  EXPECT_EQ(plain_value(cells[7].settings, "steps"), "5") << "the command line wins";
  EXPECT_EQ(plain_value(cells[7].settings, "seed"), "1");
  EXPECT_EQ(read_settings(to_toml(cells[0].settings)), cells[0].settings);
}

TEST(StudyDefinition, TheCommandLineWinsOverAColumnOfAScale) {
  const auto study = made_up();
  const auto steps = [&](const Settings& given) {
    std::vector<std::string> out;
    for (const auto& cell : cells_of(study, study.scale("paper"), 1, given)) {
      out.push_back(plain_value(cell.settings, "steps"));
    }
    return out;
  };
  using Steps = std::vector<std::string>;
  EXPECT_EQ(steps({{"data", "'random'"}}), (Steps{"300000", "9600000", "300000", "9600000"}));
  EXPECT_EQ(steps({{"data", "'random'"}, {"steps", "300000"}}), Steps(4, "300000"));
}

TEST(StudyDefinition, AScaleWithoutDataAsksForThem) {
  const auto study = made_up();
  const auto error = error_of([&] { cells_of(study, study.scale("paper"), 1, {}); });
  EXPECT_TRUE(holds(error, "needs --data imagefolder:DIR")) << error;
  EXPECT_TRUE(holds(error_of([&] { study.scale("smok"); }), "did you mean 'smoke'"));
}

TEST(StudyDefinition, PublishedValuesAreByRowAndColumn) {
  const auto study = made_up();
  EXPECT_EQ(study.published_at("precision_at_1", 1, 1)->number, 77.36);
  EXPECT_TRUE(study.published_at("precision_at_1", 0, 1)->diverged);
  EXPECT_EQ(study.published_at("recall_at_5", 0, 0), nullptr);
}

TEST(StudyDefinition, WhatIsWrongIsNamedWithItsPlace) {
  EXPECT_TRUE(holds(error_with("title = \"A made-up study\"", "title ="), "made-up.toml: line 2 is not TOML"));
  EXPECT_TRUE(holds(error_with("title = \"A made-up study\"", "titel = \"x\""), "title is missing"));
  EXPECT_TRUE(
      holds(error_with("reference = \"bn\"", "referenz = \"bn\""), "unknown key 'referenz' (did you mean 'ref"));
  EXPECT_TRUE(holds(error_with("higher = [\"frn\"]", "higher = [\"fnr\"]"), "[[claim]] 1: no row is named 'fnr'"));
  EXPECT_TRUE(holds(error_with("bn = [76.21, \"diverged\"]", "bn = [76.21]"), "a list of 2 values"));
  EXPECT_TRUE(holds(error_with("kind = \"curves\"", "kind = \"pie\""), "kind must be columns or curves"));
  EXPECT_TRUE(holds(error_with("name = \"32\"", "name = \"3/2\""), "it names a folder"));
  EXPECT_TRUE(holds(error_with("name = \"1\"", "name = \"32\""), "two of the name 32"));
  EXPECT_TRUE(holds(error_with("diverges = [\"bn@1\"]", "within = 3"), "a claim has higher and lower"));
}

TEST(StudyDefinition, AFigureOverTheColumnsNeedsColumnsThatAreNumbers) {
  const auto error = [](const std::string& column, const std::string& kind) {
    return error_of([&] {
      parse_study("title='t'\n[[row]]\nname='a'\n[[column]]\nname='8'\n[[column]]\nname='" + column +
                      "'\n[scale.smoke]\ndata='random'\n[[figure]]\nfile='f'\nkind='" + kind + "'\n",
                  "plain", "plain.toml");
    });
  };
  for (const char* column : {"many", "0", "-2", "8x", "inf", "nan", "1e999"}) {
    EXPECT_TRUE(holds(error(column, "columns"), fmt::format("plain.toml: [[figure]] 1: a figure of kind columns needs "
                                                            "columns whose names are numbers above 0 but one is '{}'",
                                                            column)))
        << error(column, "columns");
    EXPECT_EQ(error(column, "curves"), "no error");
  }
  EXPECT_EQ(error("0.5", "columns"), "no error");
}

Definition with_smoke(const std::string& keys) {
  std::string text = kMadeUpStudy;
  const std::string table = "[scale.smoke]\n";
  text.insert(text.find(table) + table.size(), keys);
  return parse_study(text, "made-up", "made-up.toml");
}

TEST(StudyDefinition, AScaleSaysHowManySeedsAndFromWhich) {
  EXPECT_EQ(made_up().scale("smoke").seeds, 1);
  const auto study = with_smoke("seeds = 3\nfirst_seed = 100\n");
  const auto& scale = study.scale("smoke");
  EXPECT_EQ(scale.seeds, 3);
  const auto cells = cells_of(study, scale, 2, {});
  EXPECT_EQ(cells[0].name, "bn-32");
  EXPECT_EQ(plain_value(cells[0].settings, "seed"), "100");
  EXPECT_EQ(cells[4].name, "bn-32-seed1");
  EXPECT_EQ(plain_value(cells[4].settings, "seed"), "101");
  EXPECT_TRUE(holds(error_of([] { with_smoke("seeds = 0\n"); }), "seeds must be a whole number from 1 to 1000"));
}

TEST(StudyDefinition, StepsAreBoundedByTheStudyUnlessTheCommandLineSaysOtherwise) {
  const auto bound = [](const Definition& study, const Settings& given) {
    return plain_value(cells_of(study, study.scale("smoke"), 1, given)[0].settings, "max_steps");
  };
  EXPECT_EQ(bound(made_up(), {}), "0") << "a trial before this call had its own bound";
  EXPECT_EQ(bound(with_smoke("max_steps = 7\n"), {}), "7");
  EXPECT_EQ(bound(with_smoke("max_steps = 7\n"), {{"max_steps", "0"}}), "0");
}

TEST(StudyDefinition, ASeedIsNoSettingOfACell) {
  EXPECT_TRUE(holds(error_of([] { with_smoke("seed = 5\n"); }), "write seeds and first_seed in [scale.NAME]"));
  EXPECT_TRUE(holds(error_with("norm = \"bn+relu\"", "seed = 5"), "every training of a cell has its own seed"));
}

TEST(StudyDefinition, AScaleMayLeaveOutColumnsAndWithThemWhatIsClaimedOfThem) {
  const auto full = with_smoke("columns = [\"32\"]\n");
  const auto study = at_scale(full, "smoke");
  ASSERT_EQ(study.columns.size(), 1);
  EXPECT_EQ(study.columns[0].name, "32");
  EXPECT_EQ(study.published_at("precision_at_1", 1, 0)->number, 77.21);
  ASSERT_EQ(study.claims.size(), 2) << "that BN diverges at 1 cannot be seen";
  EXPECT_EQ(study.claims[1].text, "FRN stays.");
  EXPECT_EQ(at_scale(full, "paper").columns.size(), 2);
  EXPECT_TRUE(holds(error_of([] { with_smoke("columns = [\"3\"]\n"); }), "no column is named '3'"));
}

TEST(StudyDefinition, AScaleMayLeaveOutRowsAndWithThemWhatIsClaimedOfThem) {
  const auto full = with_smoke("rows = [\"frn\"]\n");
  const auto study = at_scale(full, "smoke");
  ASSERT_EQ(study.rows.size(), 1);
  EXPECT_EQ(study.rows[0].name, "frn");
  EXPECT_EQ(study.published_at("precision_at_1", 0, 1)->number, 77.36);
  ASSERT_EQ(study.claims.size(), 1) << "nothing can be said of BN";
  EXPECT_EQ(study.claims[0].text, "FRN stays.");
  EXPECT_EQ(cells_of(study, study.scale("smoke"), 1, {}).size(), 2);
  EXPECT_EQ(at_scale(full, "paper").rows.size(), 2);
  EXPECT_TRUE(holds(error_of([] { with_smoke("rows = [\"frm\"]\n"); }), "no row is named 'frm'"));
}

TEST(StudyDefinition, SentencesNameCellsByShortTitlesAndPhrases) {
  const auto study = made_up();
  EXPECT_EQ(cell_words(study, 0, 1), "BN at 1 image");
  const auto plain = parse_study(
      "title='t'\n[[row]]\nname='a'\ntitle='A'\n[[column]]\nname='1'\n[[column]]\nname='2'\n"
      "[scale.smoke]\ndata='random'\n",
      "plain", "plain.toml");
  EXPECT_EQ(cell_words(plain, 0, 1), "A (2)") << "without them titles serve";
}

TEST(StudyDefinition, PatternsAreThoseOfAShell) {
  EXPECT_TRUE(matches("frn-32", "*"));
  EXPECT_TRUE(matches("frn-32", "frn-*"));
  EXPECT_TRUE(matches("frn-32", "*-3?"));
  EXPECT_FALSE(matches("frn-32", "frn"));
  EXPECT_FALSE(matches("", "?"));
}

}  // namespace
}  // namespace frn::study
