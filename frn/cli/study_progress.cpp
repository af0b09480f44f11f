#include "frn/cli/study_progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "frn/cli/progress.h"
#include "frn/core/text.h"

namespace frn::cli {
namespace {

constexpr auto kRedraw = std::chrono::milliseconds(250);
constexpr auto kPlainLine = std::chrono::seconds(60);
constexpr int kBar = 24;

// "finished  P@1 85.10 %", "failed: [train] ..."
std::string outcome_of(const study::CellResult& result) {
  std::string out = study::state_text(result);
  for (const auto& metric : result.metrics) {
    const auto value = result.values.find(metric.key);
    if (value != result.values.end())
      out += fmt::format("  {} {}", one_line(metric.title), shown(metric, value->second));
  }
  if (!result.message.empty()) out += ": " + result.message;
  return out;
}

}  // namespace

StudyProgress::StudyProgress(size_t cells, size_t cells_done, double work, double done)
    : cells_(cells), cells_done_(cells_done), work_(work), before_(done), terminal_(isatty(STDOUT_FILENO) != 0) {}

StudyProgress::~StudyProgress() { clear(); }

std::string StudyProgress::left(double done) const {
  if (done <= before_) return "";
  const double spent = std::chrono::duration<double>(Clock::now() - start_).count();
  return clock_text(spent / (done - before_) * std::max(0.0, work_ - done)) + " left";
}

void StudyProgress::show(double done, const std::string& state) {
  const auto now = Clock::now();
  if (now - last_ < (terminal_ ? Clock::duration(kRedraw) : Clock::duration(kPlainLine))) return;
  last_ = now;
  const double share = work_ > 0 ? std::clamp(done / work_, 0.0, 1.0) : 1;
  auto text = fmt::format("{:3.0f} %  {} of {} cells  {}  {}", 100 * share, cells_done_, cells_, left(done), state);
  if (!terminal_) {
    fmt::print("{}\n", text);
    std::fflush(stdout);
    return;
  }
  const int full = static_cast<int>(share * kBar);
  text = fmt::format("[{}{}] {}", std::string(full, '='), std::string(kBar - full, ' '), text);
  text.resize(std::min(text.size(), terminal_width() - 1));
  fmt::print("\r\x1b[K{}", text);
  std::fflush(stdout);
  drawn_ = true;
}

void StudyProgress::cell_ended(const study::CellResult& result, double done) {
  ++cells_done_;
  line(fmt::format("{:>3}/{}  {:<20} {}  {}", cells_done_, cells_, result.cell.name, outcome_of(result),
                   cells_done_ < cells_ ? left(done) : ""));
}

void StudyProgress::line(const std::string& text) {
  clear();
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

void StudyProgress::clear() {
  if (!drawn_) return;
  std::fputs("\r\x1b[K", stdout);  // does not throw: destructors clear
  std::fflush(stdout);
  drawn_ = false;
}

}  // namespace frn::cli
