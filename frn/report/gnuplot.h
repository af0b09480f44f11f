// report/ turns what runs and studies wrote into tables and figures. It reads and writes files and knows no network.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace frn::report {

// One curve: a legend and its points.
struct Curve {
  std::string title;
  std::vector<double> x;
  std::vector<double> y;
};

struct LineChart {
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<Curve> curves;
};

// Draws the chart with gnuplot and puts the finished svg in place in one step. Throws frn::Error when gnuplot is
// missing or fails; an earlier file of that name is then left as it was.
void draw_svg(const LineChart& chart, const std::filesystem::path& svg);

// Writes `text` beside `path` and renames it into place. Throws frn::Error with the reason when that fails.
void write_file(const std::filesystem::path& path, const std::string& text);

}  // namespace frn::report
