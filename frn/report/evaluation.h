// What `frn eval` left in a run's folder of a detector: classes, curves of precision, examples.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "frn/report/gnuplot.h"

namespace frn::report {

struct ClassScore {
  std::string name;
  int64_t objects = 0;
  double ap = 0, ap50 = 0, ap75 = 0, ar = 0;  // from 0 to 1, or not a number
};

struct EvaluationFiles {
  std::string source;  // "87 validation images of coco:bccd, step 4000"
  std::vector<ClassScore> classes;
  std::vector<Curve> curves;  // of precision over recall, in per cent
  std::vector<std::filesystem::path> examples;
};

// Empty where there is nothing, or a file that is not ours. Never throws for what is in the files.
EvaluationFiles read_evaluation(const std::filesystem::path& folder);

}  // namespace frn::report
