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

// Losses, the metrics that are shares, every other metric, and the learning rate, over epochs (steps, when the log has
// none). Training and validation are in one chart. Without those that have no point.
std::vector<NamedChart> charts_of(const Run& run);

// Every line of training and validation, a row for each step, empty where nothing was measured. The columns are the
// loss, the run's metrics, and whatever else its lines name.
std::string csv_of(const Run& run);

}  // namespace frn::report
