// How far a whole study is: one line that changes on a terminal, a line for each cell that ends, now and then a plain
// line elsewhere.
#pragma once

#include <chrono>
#include <string>

#include "frn/study/results.h"

namespace frn::cli {

class StudyProgress {
 public:
  // Work is in any unit; `done` of it was there before.
  StudyProgress(size_t cells, size_t cells_done, double work, double done);
  ~StudyProgress();
  StudyProgress(const StudyProgress&) = delete;
  StudyProgress& operator=(const StudyProgress&) = delete;

  // `state` is what is under way: "frn-32 step 120/300".
  void show(double done, const std::string& state);
  void cell_ended(const study::CellResult& result, double done);
  void line(const std::string& text);

 private:
  using Clock = std::chrono::steady_clock;
  std::string left(double done) const;
  void clear();

  size_t cells_, cells_done_;
  double work_, before_;
  bool terminal_;
  bool drawn_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_ = Clock::now();
};

}  // namespace frn::cli
