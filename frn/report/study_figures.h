// The figures of a study: a metric over the columns of its table, or curves of training.
#pragma once

#include "frn/report/curves.h"
#include "frn/study/results.h"

namespace frn::report {

// Those that have a point. One over the columns comes twice where the paper has values: ours and the paper's.
std::vector<NamedChart> charts_of(const study::Folder& folder, const study::Results& results);

// The first metric of validation over the steps of training, a curve for each column, of the first seed.
struct RowCurves {
  study::Line row;
  LineChart chart;
};
// Of the rows that have some: a run with at least two validations.
std::vector<RowCurves> curves_of_rows(const study::Folder& folder, const study::Results& results);

}  // namespace frn::report
