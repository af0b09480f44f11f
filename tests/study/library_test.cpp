// Every built-in study can be read, and a file may build on one of them.
#include "frn/study/library.h"

#include "frn/study/cells.h"
#include "tests/core/files.h"

namespace frn::study {
namespace {

using StudyLibrary = FolderTest;

TEST_F(StudyLibrary, EveryBuiltInStudyHasItsCellsAtEveryScale) {
  for (const auto& text : built_in_studies()) {
    EXPECT_FALSE(heading_of(text).title.empty()) << text.name;
    if (is_epsilon(text)) continue;
    const auto found = find_study(text.name);
    const auto study = parse_study(found.text, found.name, found.source);
    for (const auto& scale : study.scales) {
      EXPECT_FALSE(cells_of(at_scale(study, scale.name), scale, 1, {{"data", "'random'"}}).empty()) << text.name;
    }
  }
}

TEST_F(StudyLibrary, AFileHasWhatItsBaseHasWhereItSaysNothing) {
  put(folder_ / "mine.toml", "base = \"table2\"\ntitle = \"Mine\"\n");
  const auto mine = find_study((folder_ / "mine.toml").string());
  EXPECT_EQ(mine.name, "mine");
  const auto study = parse_study(mine.text, mine.name, mine.source);
  EXPECT_EQ(study.title, "Mine");
  const auto base = find_study("table2");
  EXPECT_EQ(study.rows.size(), parse_study(base.text, base.name, base.source).rows.size());
}

TEST_F(StudyLibrary, WhatIsNoStudyIsNamed) {
  const auto error = [](const std::string& name) { return error_of([&] { find_study(name); }); };
  EXPECT_NE(error("tabel2").find("no study is named 'tabel2' (did you mean 'table2'?)"), std::string::npos)
      << error("tabel2");
  EXPECT_NE(error("nowhere.toml").find("nowhere.toml: there is no such file"), std::string::npos);
  put(folder_ / "bad.toml", "title =\n");
  EXPECT_NE(error((folder_ / "bad.toml").string()).find("bad.toml: line 1 is not TOML"), std::string::npos);
}

}  // namespace
}  // namespace frn::study
