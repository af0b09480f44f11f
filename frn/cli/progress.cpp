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

constexpr auto kRedraw = std::chrono::milliseconds(100);
constexpr auto kPlainLine = std::chrono::seconds(30);
constexpr int kBar = 24;

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

Progress::Progress(std::string_view what, int64_t first, int64_t total)
    : what_(what), first_(first), total_(total), terminal_(isatty(STDOUT_FILENO) != 0) {}

Progress::~Progress() { clear(); }

double Progress::seconds_left(int64_t done) const {
  const double spent = std::chrono::duration<double>(Clock::now() - start_).count();
  return done <= first_ ? 0 : spent / static_cast<double>(done - first_) * static_cast<double>(total_ - done);
}

void Progress::show(int64_t done, const std::string& state) {
  const auto now = Clock::now();
  if (done < total_ && now - last_ < (terminal_ ? Clock::duration(kRedraw) : Clock::duration(kPlainLine))) return;
  if (!terminal_ && done == total_) return;  // the last line is the caller's
  last_ = now;
  const double share = total_ == 0 ? 1 : static_cast<double>(done) / static_cast<double>(total_);
  const auto numbers = fmt::format("{} {}/{}", what_, done, total_);
  const auto left = fmt::format("{} left", clock_text(seconds_left(done)));
  if (!terminal_) {
    say(fmt::format("{}  {}  {}\n", numbers, state, left));
    return;
  }
  const int full = static_cast<int>(share * kBar);
  auto text = fmt::format("{} [{}{}] {:3.0f} %  {}  {}", numbers, std::string(full, '='), std::string(kBar - full, ' '),
                          100 * share, state, left);
  text.resize(std::min(text.size(), terminal_width() - 1));
  say("\r\x1b[K" + text);
  drawn_ = true;
}

void Progress::clear() {
  if (!drawn_) return;
  say("\r\x1b[K");
  drawn_ = false;
}

void Progress::line(const std::string& text) {
  clear();
  say(text + "\n");
  last_ = Clock::now();
}

void Progress::warn(const std::string& text) {
  clear();
  std::fputs(("frn: " + text + "\n").c_str(), stderr);
}

}  // namespace frn::cli
