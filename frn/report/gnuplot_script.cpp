#include "frn/report/gnuplot_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "frn/core/text.h"

namespace frn::report {
namespace {

// A chart has no room for more, and gnuplot takes minutes over a text of tens of thousands of letters.
constexpr size_t kLongestText = 300;

std::string shortened(std::string text) {
  if (text.size() <= kLongestText) return text;
  size_t end = kLongestText;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) --end;  // not inside a letter
  return text.substr(0, end) + "...";
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

// The same curves once more, small, over the chart; on the side where curves that fall are still above it.
std::string inset_of(const LineChart& chart, const std::string& plot) {
  const auto& inset = *chart.inset;
  const auto x_range = chart.x_falls ? std::pair(inset.x_high, inset.x_low) : std::pair(inset.x_low, inset.x_high);
  return fmt::format(
      "set origin {},0.27\nset size 0.5,0.4\nunset key\nunset title\nunset xlabel\nunset ylabel\nunset label\n"
      "unset arrow\nset object 1 rectangle from graph 0,0 to graph 1,1 behind fillcolor rgb '#ffffff' fillstyle solid "
      "noborder\nset xrange [{:.9g}:{:.9g}]\nset yrange [{:.9g}:{:.9g}]\nset border 15\nset tics font ',11'\n"
      "set ytics {:.9g}\nset format y '%.4g'\nset lmargin 5\nset rmargin 1\nset tmargin 0.5\nset bmargin 1.5\n"
      "{}unset multiplot\n",
      chart.x_falls ? 0.17 : 0.42, x_range.first, x_range.second, inset.y_low, inset.y_high,
      round_step((inset.y_high - inset.y_low) / 3), plot);
}

// Colours that stay apart for colour-blind readers (Okabe and Ito). A page gives them its own shades.
const char* colour_of(size_t curve) {
  static constexpr std::array kColours{"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"};
  return kColours[curve % kColours.size()];
}

// Heights of the curves' titles on the right: at their last points, moved apart by the height of a line.
std::vector<double> label_heights(const LineChart& chart, double low, double high) {
  constexpr double kLetters = 20;       // pixels from one title to the next
  constexpr double kShareOfPlot = 0.8;  // of the height of the picture
  const double step = kLetters * (high - low) / (kShareOfPlot * chart.height);
  std::vector<double> out(chart.curves.size(), NAN);
  std::vector<size_t> order;
  for (size_t i = 0; i < out.size(); ++i) {
    for (const double y : chart.curves[i].y) out[i] = std::isfinite(y) ? y : out[i];
    if (std::isfinite(out[i])) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return out[a] > out[b]; });
  for (size_t i = 1; i < order.size(); ++i) out[order[i]] = std::min(out[order[i]], out[order[i - 1]] - step);
  double floor = low;
  for (size_t i = order.size(); i-- > 0; floor = out[order[i]] + step) out[order[i]] = std::max(out[order[i]], floor);
  return out;
}

std::string titles_at_ends(const LineChart& chart) {
  double low = chart.y_min.value_or(INFINITY);
  double high = chart.y_max.value_or(-INFINITY);
  constexpr size_t kWidestTitle = 30;  // a longer one is cut off at the edge, not the plot pushed out of the picture
  size_t longest = 0;
  for (const auto& curve : chart.curves) {
    longest = std::max(longest, std::min(curve.title.size(), kWidestTitle));
    for (const double y : curve.y) {
      if (!std::isfinite(y)) continue;
      low = std::min(low, y);
      high = std::max(high, y);
    }
  }
  std::string s = fmt::format("unset key\nset rmargin {}\n", longest + 2);
  const auto heights = label_heights(chart, low, high);
  for (size_t i = 0; i < heights.size(); ++i) {
    if (!std::isfinite(heights[i])) continue;
    s += fmt::format("set label {} at graph 1.02, first {:.9g} left noenhanced textcolor rgb '{}'\n",
                     gnuplot_text(chart.curves[i].title), heights[i], colour_of(i));
  }
  return s;
}

// gnuplot counts on narrower letters than the picture has, and cuts off the last title of a full row.
int columns_of_legend(const LineChart& chart) {
  constexpr int kMargins = 80;  // in pixels
  constexpr int kSample = 56;
  constexpr int kLetter = 8;
  size_t longest = 1;
  for (const auto& curve : chart.curves) longest = std::max(longest, std::min(curve.title.size(), kLongestText));
  return std::max(1, (chart.width - kMargins) / (kSample + kLetter * static_cast<int>(longest)));
}

std::string legend_of(const LineChart& chart) {
  switch (chart.legend) {
    case Legend::kAtEnds:
      return titles_at_ends(chart);
    case Legend::kAbove:
      return fmt::format("set key outside top left horizontal Left reverse samplen 2 maxcols {} noenhanced\n",
                         columns_of_legend(chart));
    case Legend::kRight:
      break;
  }
  return "set key outside right center noenhanced\n";
}

// The title stands at the left end, since curves fall to the level towards the right, and under the line, since an
// inset may be above it.
std::string level_of(const Level& level) {
  constexpr double kRoom = 6;  // per cent: lower levels have no room for a line of text
  return fmt::format(
      "set arrow from graph 0, first {0:.9g} to graph 1, first {0:.9g} nohead dashtype 2 linecolor rgb '#888888' back\n"
      "set label {1} at graph 0.04, first {0:.9g} left offset 0,{2} noenhanced font ',11' textcolor rgb '#888888'\n",
      level.y, gnuplot_text(level.title), level.y < kRoom ? 0.5 : -0.6);
}

std::string x_axis_of(const LineChart& chart) {
  if (chart.x_ticks.empty()) return "set xrange " + range_of(chart, &Curve::x, std::nullopt, std::nullopt) + "\n";
  constexpr double kRoom = 1.12;  // for bars and dots at both ends
  const auto [least, most] = std::minmax_element(chart.x_ticks.begin(), chart.x_ticks.end());
  const double low = *least / kRoom;
  const double high = *most * kRoom;
  return fmt::format("set logscale x 2\nset xtics ({})\nset xrange [{:.9g}:{:.9g}]\n", list_of(chart.x_ticks),
                     chart.x_falls ? high : low, chart.x_falls ? low : high);
}

std::string settings_of(const LineChart& chart) {
  std::string s = fmt::format("set terminal svg noenhanced size {},{} font 'Helvetica,14' background '#ffffff'\n",
                              chart.width, chart.height);
  if (!chart.title.empty()) s += "set title " + gnuplot_text(chart.title) + " noenhanced\n";
  s += "set xlabel " + gnuplot_text(chart.x_label) + " noenhanced\n";
  s += "set ylabel " + gnuplot_text(chart.y_label) + " noenhanced\n";
  s += x_axis_of(chart);
  s += "set yrange " + range_of(chart, &Curve::y, chart.y_min, chart.y_max) + "\n";
  if (chart.y_log) s += "set logscale y\nset format y '%g'\n";
  s += legend_of(chart);
  if (chart.level) s += level_of(*chart.level);
  return s + "set grid linecolor rgb '#dddddd'\nset border 3\nset tics nomirror\n";
}

std::string data_of(const Curve& curve) {
  std::string out;
  for (size_t i = 0; i < curve.x.size(); ++i) {
    const double spread = i < curve.spread.size() ? curve.spread[i] : NAN;
    out += number(curve.x[i]) + " " + number(curve.y[i]) + " " + number(spread) + "\n";
  }
  return out;
}

// `using` asks for numbers, which makes NaN a gap.
std::string line_of(const Curve& curve, size_t number) {
  return fmt::format("$curve{} using 1:2 with {} linewidth 2 linecolor rgb '{}' title {}", number,
                     curve.marked ? "linespoints pointtype 7 pointsize 0.4" : "lines", colour_of(number),
                     gnuplot_text(curve.title));
}

// A bar without a mark in its middle: gnuplot clears a circle for that, and lines would have holes there.
std::string bars_of(const Curve& curve, size_t number) {
  const auto has_bar = [](double spread) { return std::isfinite(spread); };
  if (std::none_of(curve.spread.begin(), curve.spread.end(), has_bar)) return "";
  return fmt::format(
      "$curve{0} using 1:($2-$3):(0):(2*$3) with vectors heads size graph 0.008,90 linewidth 1.2 linecolor rgb '{1}' "
      "notitle, ",
      number, colour_of(number));
}

}  // namespace

bool has_points(const Curve& curve) {
  return std::any_of(curve.y.begin(), curve.y.end(), [](double y) { return std::isfinite(y); });
}

bool has_points(const LineChart& chart) {
  return std::any_of(chart.curves.begin(), chart.curves.end(), [](const Curve& curve) { return has_points(curve); });
}

// All but letters, digits and spaces as their octal numbers, which gnuplot reads inside double quotes: so no byte can
// end the string or the line, or be a command in backquotes or a macro. After a first 0 gnuplot takes up to four
// digits, and a fourth that belonged to the text would be taken too: all four are written.
std::string gnuplot_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : shortened(one_line(text))) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == ' ';
    out += plain ? std::string(1, c) : fmt::format("\\{:04o}", byte);
  }
  return out + "\"";
}

std::string gnuplot_script(const LineChart& chart) {
  std::string data;
  std::string bars;
  std::string lines;
  for (size_t i = 0; i < chart.curves.size(); ++i) {
    const auto& curve = chart.curves[i];
    if (!has_points(curve)) continue;  // gnuplot warns of data without any
    data += fmt::format("$curve{} << EOD\n{}EOD\n", i, data_of(curve));
    bars += bars_of(curve, i);
    lines += (lines.empty() ? "" : ", ") + line_of(curve, i);
  }
  const auto plot = "plot " + bars + lines + "\n";
  if (!chart.inset) return settings_of(chart) + data + plot;
  return settings_of(chart) + data + "set multiplot\n" + plot + inset_of(chart, plot);
}

}  // namespace frn::report
