// How far a whole study is, and a line for each cell that ends.
#pragma once

#include <string>

#include "frn/cli/progress.h"
#include "frn/study/results.h"

namespace frn::cli {

class StudyProgress {
 public:
  // Work is in any unit; `done` of it was there before.
  StudyProgress(size_t cells, size_t cells_done, double work, double done);

  // `state` is what is under way: "frn-32 step 120/300".
  void show(double done, const std::string& state);
  void cell_ended(const study::CellResult& result, double done);
  void line(const std::string& text) { display_.line(text); }

 private:
  std::string left(double done) const;

  size_t cells_, cells_done_;
  double work_, before_;
  TimeLeft time_;
  ProgressDisplay display_;
};

}  // namespace frn::cli
