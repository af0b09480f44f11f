// report/ turns what runs and studies wrote into tables and figures. It reads and writes files and knows no network.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace frn::report {

// Curves of fewer points are marked one by one.
inline constexpr size_t kFewPoints = 40;

// One curve: a legend and its points. A y that is not finite leaves a gap.
struct Curve {
  std::string title;
  std::vector<double> x;
  std::vector<double> y;
  bool marked = false;              // a dot at every point, for few of them
  std::vector<double> spread = {};  // half the length of a bar at every point; empty: none, not finite: none there
};

// Beside the chart, in a line over it (for narrow places), or each title where its curve ends on the right.
enum class Legend : uint8_t { kRight, kAbove, kAtEnds };

// A part of the chart, enlarged, in its lower half.
struct Inset {
  double x_low = 0, x_high = 0, y_low = 0, y_high = 0;
};

// A dashed line across the chart with its name: what guessing would give.
struct Level {
  double y = 0;
  std::string title;
};

struct LineChart {
  std::string title;  // may be empty
  std::string x_label;
  std::string y_label;
  std::vector<Curve> curves;
  std::optional<double> y_min = std::nullopt;  // none: as the curves need
  std::optional<double> y_max = std::nullopt;
  bool y_log = false;
  std::vector<double> x_ticks = {};  // on a logarithmic axis of base 2, as batch sizes are; empty: linear
  bool x_falls = false;              // the largest x on the left
  std::optional<Inset> inset = std::nullopt;
  std::optional<Level> level = std::nullopt;
  Legend legend = Legend::kRight;
  int width = 720;  // in pixels, to which the size of the letters relates
  int height = 480;
};

// Whether any point can be drawn. gnuplot warns of a curve without one, and fails for a chart.
bool has_points(const Curve& curve);
bool has_points(const LineChart& chart);

// Whether there is a program of that name to start.
bool has_gnuplot();

// A chart takes a tenth of a second.
inline constexpr std::chrono::milliseconds kDrawingLimit{60'000};

// Draws the chart with gnuplot and puts the finished svg in place in one step. Texts of the chart are shown, whatever
// is in them, and never run (gnuplot_script.h). Throws frn::Error when gnuplot is missing, fails or takes longer than
// `limit`, which ends it; an earlier file of that name is then left as it was.
void draw_svg(const LineChart& chart, const std::filesystem::path& svg,
              std::chrono::milliseconds limit = kDrawingLimit);

// Writes `text` beside `path` and renames it into place. Throws frn::Error with the reason when that fails, or when the
// file is a symbolic link.
void write_file(const std::filesystem::path& path, const std::string& text);

}  // namespace frn::report
