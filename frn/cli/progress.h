// How far a long job is: one line that changes on a terminal, now and then a plain line elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace frn::cli {

// "1:02:03", "4:05"
std::string clock_text(double seconds);

// Prints at once. A failure is not told: a terminal that hung up or a full disk under the output must not end a run.
void say(const std::string& text);

// Columns of the terminal that is printed to; 80 where there is none.
size_t terminal_width();

class Progress {
 public:
  // Counts from `first` to `total`; the time that is left follows from the steps done since.
  Progress(std::string_view what, int64_t first, int64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `state` is what else to show: "loss 0.93".
  void show(int64_t done, const std::string& state);
  // A whole line above the bar, or a plain line.
  void line(const std::string& text);
  // The same on stderr.
  void warn(const std::string& text);

  double seconds_left(int64_t done) const;

 private:
  using Clock = std::chrono::steady_clock;
  void clear();

  std::string what_;
  int64_t first_, total_;
  bool terminal_;
  bool drawn_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_ = Clock::now();
};

}  // namespace frn::cli
