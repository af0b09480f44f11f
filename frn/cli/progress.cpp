#include "frn/cli/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <tuple>

namespace frn::cli {
namespace {

constexpr int kBar = 24;

// How many bytes of the text fill so many columns: a letter of UTF-8 takes one, and is not cut in two.
size_t bytes_of_columns(std::string_view text, size_t columns) {
  const auto begins = [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; };
  size_t i = 0;
  for (; i < text.size(); ++i) {
    if (begins(text[i]) && columns-- == 0) break;
  }
  return i;
}

}  // namespace

void say(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

size_t terminal_width() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

std::string clock_text(double seconds) {
  const auto whole = std::llround(std::max(0.0, seconds));
  const auto [hours, minutes, rest] = std::tuple(whole / 3600, whole / 60 % 60, whole % 60);
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, rest) : fmt::format("{}:{:02}", minutes, rest);
}

ProgressDisplay::ProgressDisplay(Pace pace) : pace_(pace), terminal_(isatty(STDOUT_FILENO) != 0) {}

ProgressDisplay::~ProgressDisplay() { clear(); }

bool ProgressDisplay::is_due() const {
  return Clock::now() - last_ >= (terminal_ ? pace_.on_terminal : pace_.elsewhere);
}

void ProgressDisplay::show(double share, const std::string& before, const std::string& behind,
                           const std::string& plain) {
  last_ = Clock::now();
  if (!terminal_) {
    say(plain + "\n");
    return;
  }
  const int full = static_cast<int>(std::clamp(share, 0.0, 1.0) * kBar);
  const auto text = fmt::format("{}[{}{}] {:3.0f} %  {}", before, std::string(full, '='), std::string(kBar - full, ' '),
                                100 * share, behind);
  say("\r\x1b[K" + text.substr(0, bytes_of_columns(text, terminal_width() - 1)));
  drawn_ = true;
}

void ProgressDisplay::clear() {
  if (!drawn_) return;
  say("\r\x1b[K");
  drawn_ = false;
}

void ProgressDisplay::line(const std::string& text) {
  clear();
  say(text + "\n");
  last_ = Clock::now();
}

void ProgressDisplay::warn(const std::string& text) {
  clear();
  std::fputs(("frn: " + text + "\n").c_str(), stderr);
}

double TimeLeft::seconds(double done, double total) const {
  if (done <= before_) return 0;
  const double spent = std::chrono::duration<double>(Clock::now() - start_).count();
  return spent / (done - before_) * std::max(0.0, total - done);
}

Progress::Progress(std::string_view what, int64_t first, int64_t total)
    : what_(what), total_(total), time_(static_cast<double>(first)), display_({}) {}

double Progress::seconds_left(int64_t done) const {
  return time_.seconds(static_cast<double>(done), static_cast<double>(total_));
}

void Progress::show(int64_t done, const std::string& state) {
  if (done < total_ && !display_.is_due()) return;
  if (!display_.on_terminal() && done == total_) return;  // the last line is the caller's
  const double share = total_ == 0 ? 1 : static_cast<double>(done) / static_cast<double>(total_);
  const auto numbers = fmt::format("{} {}/{}", what_, done, total_);
  const auto rest = fmt::format("{}  {} left", state, clock_text(seconds_left(done)));
  display_.show(share, numbers + " ", rest, fmt::format("{}  {}", numbers, rest));
}

}  // namespace frn::cli
