// How far a long job is: one line that changes on a terminal, now and then a plain line elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace frn::cli {

// "1:02:03", "4:05"
std::string clock_text(double seconds);

// Prints at once. Failures are ignored: a terminal that hung up or a full disk under the output must not end a run.
void say(const std::string& text);

// Columns of the terminal that is printed to; 80 where there is none.
size_t terminal_width();

// One line that changes on a terminal, now and then a plain line elsewhere.
class ProgressDisplay {
 public:
  struct Pace {
    std::chrono::milliseconds on_terminal{100};
    std::chrono::milliseconds elsewhere{30'000};
  };
  explicit ProgressDisplay(Pace pace);
  ~ProgressDisplay();
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  bool on_terminal() const { return terminal_; }
  // Whether the last was shown long enough ago.
  bool is_due() const;
  // On a terminal `before`, a bar of this share of its length, the share in per cent and `behind`; elsewhere `plain`.
  void show(double share, const std::string& before, const std::string& behind, const std::string& plain);
  // A whole line above the bar, or a plain line.
  void line(const std::string& text);
  // The same on stderr.
  void warn(const std::string& text);

 private:
  using Clock = std::chrono::steady_clock;
  void clear();

  Pace pace_;
  bool terminal_;
  bool drawn_ = false;
  Clock::time_point last_ = Clock::now();
};

// Of what is left, by what was done since the start.
class TimeLeft {
 public:
  // `before` was done at the start.
  explicit TimeLeft(double before) : before_(before) {}
  // 0 as long as nothing was done.
  double seconds(double done, double total) const;

 private:
  using Clock = std::chrono::steady_clock;
  double before_;
  Clock::time_point start_ = Clock::now();
};

class Progress {
 public:
  // Counts from `first` to `total`; the time that is left follows from the steps done since.
  Progress(std::string_view what, int64_t first, int64_t total);

  // `state` is what else to show: "loss 0.93".
  void show(int64_t done, const std::string& state);
  void line(const std::string& text) { display_.line(text); }
  void warn(const std::string& text) { display_.warn(text); }

  double seconds_left(int64_t done) const;

 private:
  std::string what_;
  int64_t total_;
  TimeLeft time_;
  ProgressDisplay display_;
};

}  // namespace frn::cli
