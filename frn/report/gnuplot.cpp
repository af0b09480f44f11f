#include "frn/report/gnuplot.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "frn/core/error.h"
#include "frn/core/whole_file.h"

namespace frn::report {
namespace {

// gnuplot's single-quoted strings: only the quote itself is special.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("''") : std::string(1, c);
  return out + "'";
}

// "[low:high]", "*" for an end that gnuplot chooses. It complains of a range without width, so that is widened here.
std::string range_of(const LineChart& chart, std::vector<double> Curve::*values, std::optional<double> low,
                     std::optional<double> high) {
  double least = low.value_or(INFINITY);
  double most = high.value_or(-INFINITY);
  for (const auto& curve : chart.curves) {
    for (const double value : curve.*values) {
      if (!std::isfinite(value)) continue;
      least = std::min(least, value);
      most = std::max(most, value);
    }
  }
  if (least == most) {
    const double margin = least == 0 ? 1 : 0.1 * std::abs(least);
    if (!low) low = least - margin;
    if (!high) high = most + margin;
  }
  const auto end = [](const std::optional<double>& value) { return value ? fmt::format("{:.9g}", *value) : "*"; };
  return fmt::format("[{}:{}]", end(low), end(high));
}

std::string number(double value) { return std::isfinite(value) ? fmt::format("{:.9g}", value) : "NaN"; }

std::string list_of(const std::vector<double>& values) {
  std::string out;
  for (const double value : values) out += (out.empty() ? "" : ", ") + number(value);
  return out;
}

// 1, 2 or 5 times a power of ten, at least `least`: few ticks in little room.
double round_step(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double digit : {1.0, 2.0, 5.0}) {
    if (digit * power >= least) return digit * power;
  }
  return 10 * power;
}

// The same curves once more, small, over the chart.
std::string inset_of(const Inset& inset, const std::string& plot) {
  return fmt::format(
      "set origin 0.42,0.2\nset size 0.5,0.42\nunset key\nunset title\nunset xlabel\nunset ylabel\n"
      "set object 1 rectangle from graph 0,0 to graph 1,1 behind fillcolor rgb '#ffffff' fillstyle solid noborder\n"
      "set xrange [{:.9g}:{:.9g}]\nset yrange [{:.9g}:{:.9g}]\nset border 15\nset tics font ',11'\n"
      "set ytics {:.9g}\nset format y '%.4g'\nset lmargin 5\nset rmargin 1\n{}unset multiplot\n",
      inset.x_low, inset.x_high, inset.y_low, inset.y_high, round_step((inset.y_high - inset.y_low) / 3), plot);
}

std::string settings_of(const LineChart& chart, const std::filesystem::path& svg) {
  std::string s =
      fmt::format("set terminal svg size {},{} font 'Helvetica,14' background '#ffffff'\n", chart.width, chart.height);
  s += "set output " + quoted(svg.string()) + "\n";
  if (!chart.title.empty()) s += "set title " + quoted(chart.title) + " noenhanced\n";
  s += "set xlabel " + quoted(chart.x_label) + " noenhanced\n";
  s += "set ylabel " + quoted(chart.y_label) + " noenhanced\n";
  s += "set xrange " + range_of(chart, &Curve::x, std::nullopt, std::nullopt) + "\n";
  s += "set yrange " + range_of(chart, &Curve::y, chart.y_min, chart.y_max) + "\n";
  if (chart.y_log) s += "set logscale y\nset format y '%g'\n";
  if (!chart.x_ticks.empty()) s += "set logscale x 2\nset xtics (" + list_of(chart.x_ticks) + ")\n";
  const bool above = chart.legend == Legend::kAbove;
  s += fmt::format("set key {} noenhanced\n",
                   above ? "outside top left horizontal Left reverse samplen 2" : "outside right center");
  return s + "set grid linecolor rgb '#dddddd'\nset border 3\nset tics nomirror\n";
}

std::string script_of(const LineChart& chart, const std::filesystem::path& svg) {
  // Colours that stay apart for colour-blind readers (Okabe and Ito).
  static constexpr std::array kColours{"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"};
  std::string data;
  std::string plot;
  for (size_t i = 0; i < chart.curves.size(); ++i) {
    const auto& curve = chart.curves[i];
    data += fmt::format("$curve{} << EOD\n", i);
    for (size_t j = 0; j < curve.x.size(); ++j) data += number(curve.x[j]) + " " + number(curve.y[j]) + "\n";
    data += "EOD\n";
    // `using` asks for numbers, which makes NaN a gap.
    plot += fmt::format("{}$curve{} using 1:2 with {} linewidth 2 linecolor rgb '{}' title {}", i == 0 ? "" : ", ", i,
                        curve.marked ? "linespoints pointtype 7 pointsize 0.4" : "lines", kColours[i % kColours.size()],
                        quoted(curve.title));
  }
  plot = "plot " + plot + "\n";
  if (!chart.inset) return settings_of(chart, svg) + data + plot;
  return settings_of(chart, svg) + data + "set multiplot\n" + plot + inset_of(*chart.inset, plot);
}

std::filesystem::path beside(const std::filesystem::path& path) {
  auto temporary = path;
  temporary += ".part-" + std::to_string(getpid());
  return temporary;
}

void put_in_place(const std::filesystem::path& temporary, const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::rename(temporary, path, error);
  if (!error) return;
  std::filesystem::remove(temporary);
  throw Error("report", "cannot write " + path.string() + ": " + error.message());
}

}  // namespace

bool has_points(const LineChart& chart) {
  return std::any_of(chart.curves.begin(), chart.curves.end(), [](const Curve& curve) {
    return std::any_of(curve.y.begin(), curve.y.end(), [](double y) { return std::isfinite(y); });
  });
}

void write_file(const std::filesystem::path& path, const std::string& text) { write_whole_file(path, text, "report"); }

void draw_svg(const LineChart& chart, const std::filesystem::path& svg) {
  const auto temporary = beside(svg);
  // gnuplot may end before it has read everything; that shows in its exit code, not in a signal.
  const auto previous = std::signal(SIGPIPE, SIG_IGN);
  FILE* const pipe = popen("gnuplot", "w");
  if (pipe == nullptr) throw Error("report", std::string("cannot start gnuplot: ") + std::strerror(errno));
  const std::string script = script_of(chart, temporary);
  std::fwrite(script.data(), 1, script.size(), pipe);
  const int status = pclose(pipe);
  std::signal(SIGPIPE, previous);
  if (status != 0 || !std::filesystem::exists(temporary)) {
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);
    const bool missing = WIFEXITED(status) && WEXITSTATUS(status) == 127;
    throw Error("report", missing ? "gnuplot is needed to draw " + svg.string() + "; install Debian's gnuplot-nox"
                                  : "gnuplot could not draw " + svg.string() + "; its own words are above");
  }
  put_in_place(temporary, svg);
}

}  // namespace frn::report
