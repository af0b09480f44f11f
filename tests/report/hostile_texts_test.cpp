// Somebody else's folder is shown, and nothing in it is run: texts reach gnuplot, whose language has system().
#include "frn/core/text.h"
#include "frn/report/gnuplot.h"
#include "frn/report/gnuplot_script.h"
#include "frn/report/run_report.h"
#include "frn/report/study_report.h"
#include "tests/core/files.h"
#include "tests/report/run_folder.h"
#include "tests/study/made_up_study.h"

namespace frn::report {
namespace {

constexpr const char* kTexts[]{
    "' ; system('touch ran')",
    R"(" ; system("touch ran") #)",
    "`touch ran`",
    "'\nsystem(\"touch ran\")\n#",
    "\"\nsystem(\"touch ran\")\n#",
    "@m \\",
    R"(\" . system("touch ran") . ")",
    "%s%n {/=40 big}^up_down&{x}~a{b} $curve0 EOD",
    "\r! touch ran\r",
};

std::string replaced(std::string text, std::string_view from, const std::string& to) {
  text.replace(text.find(from), from.size(), to);
  return text;
}

// As XML and TOML write a text.
std::string as_xml(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '&' ? std::string("&amp;") : c == '<' ? "&lt;" : std::string(1, c);
  return out;
}
std::string as_toml(const std::string& text) { return "= " + study::quoted_value(text); }

class HostileTexts : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    before_ = std::filesystem::current_path();
    std::filesystem::current_path(folder_);  // where a command would leave its file
  }
  void TearDown() override {
    std::filesystem::current_path(before_);
    FolderTest::TearDown();
  }
  bool ran() const { return std::filesystem::exists(folder_ / "ran"); }

  // A program of this name is found before the true one.
  void put_program(const std::string& name, const std::string& script) {
    std::filesystem::create_directories(folder_ / "bin");
    put(folder_ / "bin" / name, script);
    std::filesystem::permissions(folder_ / "bin" / name, std::filesystem::perms::owner_all);
  }

  std::filesystem::path before_;
};

class Setting {
 public:
  Setting(const char* name, const std::string& value)
      : name_(name), before_(getenv(name) == nullptr ? "" : getenv(name)) {
    setenv(name_, value.c_str(), 1);
  }
  ~Setting() { setenv(name_, before_.c_str(), 1); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
  std::string before_;
};

LineChart chart_of(const std::string& text) {
  LineChart chart{text, text, text, {{text, {1, 2, 4}, {1, 2, 3}, true, {0.1, 0.2, 0.3}}, {text, {1, 2}, {2, 2}}}};
  chart.level = {1.5, text};
  return chart;
}

TEST_F(HostileTexts, AreDrawnLetterByLetterAndNeverRun) {
  for (const std::string text : kTexts) {
    for (const auto legend : {Legend::kRight, Legend::kAbove, Legend::kAtEnds}) {
      auto chart = chart_of(text);
      chart.legend = legend;
      draw_svg(chart, folder_ / "a.svg");
      ASSERT_FALSE(ran()) << text;
      auto shown = as_xml(text);
      for (auto& c : shown) c = c == '\n' || c == '\r' ? ' ' : c;
      EXPECT_NE(contents(folder_ / "a.svg").find(shown), std::string::npos) << text;
      EXPECT_EQ(files(), 1) << text;
    }
  }
}

TEST_F(HostileTexts, OfAnyLengthAreDrawnInTime) {
  std::string text;
  while (text.size() < 200'000) text += "\u00e9\u20ac'\"";
  draw_svg(chart_of(text), folder_ / "a.svg");
  EXPECT_NE(contents(folder_ / "a.svg").find("\u20ac'..."), std::string::npos) << "cut between letters";
}

TEST_F(HostileTexts, AFolderMayHaveAnyName) {
  const auto folder = folder_ / "a'\nsystem(\"touch ran\")\n\"`touch ran`";
  std::filesystem::create_directories(folder);
  draw_svg(chart_of("t"), folder / "a.svg");
  EXPECT_NE(contents(folder / "a.svg").find("</svg>"), std::string::npos);
  EXPECT_FALSE(ran());
  RunFolder run(folder);
  run.fill(20);
  const auto error = error_of([&] { run_report(folder); });
  EXPECT_NE(error.find("the name of a run's folder must be one line of plain text"), std::string::npos) << error;
}

// Every text of the made-up study that a figure, a table or a page shows.
constexpr const char* kPlaces[]{"= \"A made-up study\"", "= \"Table 0\"",
                                "= \"Batchnorm\"",       "= \"BN\"",
                                "= \"FRN <layer>\"",     "= \"FRN\"",
                                "= \"at 32 images\"",    "= \"FRN is better.\"",
                                "= \"FRN stays.\"",      "= \"images per device\"",
                                "= \"fashion-mini\""};

TEST_F(HostileTexts, OfOneLineInAStudyAreShown) {
  for (const std::string text : kTexts) {
    if (has_control_characters(text)) continue;
    const study::MadeUpStudy made(folder_ / "study", 1);
    made.finish("frn-32", 0.8);
    made.finish("frn-1", 0.7);
    std::string definition = study::kMadeUpStudy;
    for (const char* place : kPlaces) definition = replaced(definition, place, as_toml(text));
    put(made.folder.definition(), definition);
    EXPECT_EQ(error_of([&] { EXPECT_EQ(study_report(made.folder).undrawn, ""); }), "no error") << text;
    EXPECT_NE(contents(made.folder.path / "figure-1.svg").find(as_xml(text)), std::string::npos) << text;
    ASSERT_FALSE(ran()) << text;
  }
}

TEST_F(HostileTexts, OfManyLinesInAStudyAreRefusedBeforeAnythingIsWritten) {
  for (const std::string text : kTexts) {
    if (!has_control_characters(text)) continue;
    for (const char* place : kPlaces) {
      const study::MadeUpStudy made(folder_ / "study", 1);
      made.finish("frn-32", 0.8);
      put(made.folder.definition(), replaced(study::kMadeUpStudy, place, as_toml(text)));
      const auto error = error_of([&] { study_report(made.folder); });
      EXPECT_NE(error.find("must be one line of plain text but has a line break"), std::string::npos) << error;
      EXPECT_FALSE(has_control_characters(error)) << error;
      EXPECT_FALSE(std::filesystem::exists(made.folder.path / "figure-1.svg"));
      EXPECT_FALSE(std::filesystem::exists(made.folder.path / "report.html"));
      ASSERT_FALSE(ran()) << place << text;
    }
  }
}

TEST_F(HostileTexts, WhatAStudyIsAboutMayHaveManyLines) {
  const study::MadeUpStudy made(folder_ / "study", 1);
  put(made.folder.definition(), replaced(study::kMadeUpStudy, "\"Tiny.\"", "\"\"\"\nTiny\nand small.\n\"\"\""));
  study_report(made.folder);
  EXPECT_NE(contents(made.folder.path / "report.html").find("Tiny and small."), std::string::npos);
}

TEST_F(HostileTexts, OfAStudysRecordAreRefused) {
  const study::MadeUpStudy made(folder_ / "study", 1);
  const auto record = contents(made.folder.record());
  put(made.folder.record(), replaced(record, "\"abc\"", R"("a\u001b[2Jc")"));
  const auto error = error_of([&] { study_report(made.folder); });
  EXPECT_NE(error.find("study.json: provenance.commit must be one line of plain text"), std::string::npos) << error;
  EXPECT_NE(error.find("'a [2Jc'"), std::string::npos) << error;
  put(made.folder.record(), replaced(record, "\"seeds\": 1", "\"seeds\": 1000000000000"));
  EXPECT_NE(error_of([&] { study_report(made.folder); }).find("seeds must be from 1 to 1000"), std::string::npos);
}

TEST_F(HostileTexts, TheReadersOwnSettingsOfGnuplotAreNotRead) {
  put(folder_ / ".gnuplot", "system('touch ran')\nset xlabel 'mine'\n");
  const Setting home("HOME", folder_.string());
  draw_svg(chart_of("t"), folder_ / "a.svg");
  EXPECT_FALSE(ran());
}

TEST_F(HostileTexts, AGnuplotThatDoesNotEndIsEndedWithAllItStarted) {
  put_program("gnuplot", "#!/bin/sh\nsleep 60 & echo $! >child\nwait\n");
  const Setting path("PATH", (folder_ / "bin").string() + ":" + getenv("PATH"));
  put(folder_ / "a.svg", "old");
  std::string error;
  // On a busy machine the program may be ended before it started anything: then once more, with more time.
  for (std::chrono::milliseconds limit(250); contents(folder_ / "child").empty(); limit *= 2) {
    error = error_of([&] { draw_svg(chart_of("t"), folder_ / "a.svg", limit); });
    ASSERT_NE(error.find(" seconds but was still at work and was ended"), std::string::npos) << error;
  }
  EXPECT_EQ(contents(folder_ / "a.svg"), "old");
  const auto child = std::stoi(contents(folder_ / "child"));
  // Killed, it still takes a moment to die; not killed, it sleeps on.
  const auto is_gone = [&] {
    const auto status = contents("/proc/" + std::to_string(child) + "/stat");
    return status.empty() || status.find(") Z ") != std::string::npos;
  };
  for (int tries = 0; tries < 1000 && !is_gone(); ++tries) usleep(10'000);
  EXPECT_TRUE(is_gone());
}

TEST_F(HostileTexts, WithoutGnuplotTheReportSaysWhatToInstall) {
  const Setting path("PATH", (folder_ / "nowhere").string());
  const auto error = error_of([&] { draw_svg(chart_of("t"), folder_ / "a.svg"); });
  EXPECT_NE(error.find("install Debian's gnuplot-nox"), std::string::npos) << error;
  EXPECT_EQ(files(), 0);
}

}  // namespace
}  // namespace frn::report
