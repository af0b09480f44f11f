// The commands for gnuplot. Titles and labels come from other people's files, and gnuplot's language can run commands:
// every text goes through gnuplot_text, and nothing else of a chart is text.
#pragma once

#include <string>
#include <string_view>

#include "frn/report/gnuplot.h"

namespace frn::report {

// The commands that draw the chart as svg to gnuplot's standard output.
std::string gnuplot_script(const LineChart& chart);

// A string of gnuplot's language that shows the text as it is, whatever its bytes. Control characters become spaces,
// and what is longer than a chart is wide is cut.
std::string gnuplot_text(std::string_view text);

}  // namespace frn::report
