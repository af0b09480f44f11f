#include "frn/cli/study_progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "frn/core/text.h"

namespace frn::cli {
namespace {

// Cells take minutes, and to ask how far they are means to read their logs.
constexpr ProgressDisplay::Pace kPace{.on_terminal = std::chrono::milliseconds(250),
                                      .elsewhere = std::chrono::seconds(60)};

constexpr size_t kMostMetrics = 3;  // on a line

// "finished  P@1 85.10 %", "failed: [train] ..."
std::string outcome_of(const study::CellResult& result) {
  std::string out = study::state_text(result);
  size_t shown_ones = 0;
  for (const auto& metric : result.metrics) {
    const auto value = result.values.find(metric.key);
    if (value == result.values.end()) continue;
    out += fmt::format("  {} {}", one_line(metric.title), shown(metric, value->second));
    if (++shown_ones == kMostMetrics) break;
  }
  if (!result.message.empty()) out += ": " + result.message;
  return out;
}

}  // namespace

StudyProgress::StudyProgress(size_t cells, size_t cells_done, double work, double done)
    : cells_(cells), cells_done_(cells_done), work_(work), before_(done), time_(done), display_(kPace) {}

std::string StudyProgress::left(double done) const {
  return done <= before_ ? "" : clock_text(time_.seconds(done, work_)) + " left";
}

void StudyProgress::show(double done, const std::string& state) {
  if (!display_.is_due()) return;
  const double share = work_ > 0 ? std::clamp(done / work_, 0.0, 1.0) : 1;
  const auto text = fmt::format("{} of {} cells  {}  {}", cells_done_, cells_, left(done), state);
  display_.show(share, "", text, fmt::format("{:3.0f} %  {}", 100 * share, text));
}

void StudyProgress::cell_ended(const study::CellResult& result, double done) {
  ++cells_done_;
  line(fmt::format("{:>3}/{}  {:<20} {}  {}", cells_done_, cells_, result.cell.name, outcome_of(result),
                   cells_done_ < cells_ ? left(done) : ""));
}

}  // namespace frn::cli
