// Charts and files appear whole or not at all.
#include "frn/report/gnuplot.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "frn/core/error.h"

namespace frn::report {
namespace {

class ReportTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("frn report's test " + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  static std::string read(const std::filesystem::path& path) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  std::filesystem::path folder_;
};

TEST_F(ReportTest, AChartIsDrawnWithItsLegendEvenInAFolderWithSpacesAndQuotes) {
  const LineChart chart{"it's a title", "x", "y", {{"first curve", {0, 1, 2}, {0, 1, 4}}, {"second", {0, 2}, {1, 1}}}};
  draw_svg(chart, folder_ / "a.svg");
  const auto svg = read(folder_ / "a.svg");
  EXPECT_NE(svg.find("<svg"), std::string::npos);
  EXPECT_NE(svg.find("</svg>"), std::string::npos);
  EXPECT_NE(svg.find("first curve"), std::string::npos);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1) << "something was left behind";
}

TEST_F(ReportTest, AChartWithoutPointsIsAnErrorAndLeavesTheOldFile) {
  write_file(folder_ / "a.svg", "old");
  EXPECT_THROW(draw_svg({"t", "x", "y", {}}, folder_ / "a.svg"), Error);
  EXPECT_EQ(read(folder_ / "a.svg"), "old");
}

TEST_F(ReportTest, AGapARangeALogarithmAndANarrowChartAreDrawnWithoutAWord) {
  LineChart chart{"", "x", "y", {{"gap", {0, 1, 2, 3}, {1, NAN, INFINITY, 4}, true}, {"nothing", {0, 1}, {NAN, NAN}}}};
  chart.legend = Legend::kAbove;
  chart.width = 400;
  draw_svg(chart, folder_ / "gap.svg");
  EXPECT_NE(read(folder_ / "gap.svg").find("width=\"400\""), std::string::npos);
  chart.y_log = true;
  chart.y_min = 0.5;
  draw_svg(chart, folder_ / "log.svg");
  EXPECT_TRUE(has_points(chart));
  EXPECT_FALSE(has_points({"t", "x", "y", {{"nothing", {0}, {NAN}}}}));
}

TEST_F(ReportTest, WritingWhereNoFolderIsSaysSo) {
  try {
    write_file(folder_ / "missing" / "a.txt", "text");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("No such file"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace frn::report
