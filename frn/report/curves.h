// The curves of a run, as charts and as a table of numbers.
#pragma once

#include <string>
#include <vector>

#include "frn/report/gnuplot.h"
#include "frn/report/run.h"

namespace frn::report {

struct NamedChart {
  std::string file;     // without its ending: "curves-loss"
  std::string caption;  // what to see, under the chart
  LineChart chart;
};

// Loss, accuracy and learning rate, training and validation in one chart, over epochs (steps, when the log has none).
// Without those that have no point.
std::vector<NamedChart> charts_of(const Run& run);

// Every line of training and validation, a row for each step, empty where nothing was measured.
std::string csv_of(const Run& run);

}  // namespace frn::report
