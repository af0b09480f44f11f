#include "frn/report/study_terminal.h"

#include <fmt/format.h>

#include <algorithm>

#include "frn/report/study_tables.h"

namespace frn::report {
namespace {

using Lines = std::vector<std::vector<std::string>>;

// One decimal: a screen is for large differences.
std::string short_value(const study::CellSummary& summary) {
  if (summary.metric.kind != MetricKind::kShare) return value_text(summary);
  if (summary.values.empty() || summary.values.size() < summary.seeds) return value_text(summary);
  auto out = fmt::format("{}{:.1f}", summary.same_as_another ? "= " : "", summary.mean);
  if (summary.values.size() > 1) out += fmt::format(" ± {:.1f}", summary.deviation);
  return out;
}

std::string short_paper(const Metric& metric, const study::PublishedValue* value) {
  const bool shortened = metric.kind == MetricKind::kShare && value != nullptr && !value->diverged;
  return shortened ? fmt::format("{:.1f}", value->number) : published_text(metric, value);
}

// The first column to the left, the others to the right.
std::string aligned(const Lines& lines) {
  std::vector<size_t> widths(lines.front().size(), 0);
  for (const auto& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], width_of(line[i]));
  }
  std::string out;
  for (const auto& line : lines) {
    std::string text = "  " + line[0] + std::string(widths[0] - width_of(line[0]), ' ');
    for (size_t i = 1; i < line.size(); ++i) text += std::string(widths[i] - width_of(line[i]) + 3, ' ') + line[i];
    out += text + "\n";
  }
  return out;
}

std::string table_of(const study::Results& results) {
  const auto& study = results.study;
  const auto& metric = results.metrics.front();
  Lines lines{{""}};
  for (const auto& column : study.columns) lines[0].push_back(column.title);
  for (size_t r = 0; r < study.rows.size(); ++r) {
    std::vector<std::string> ours{study.rows[r].title};
    std::vector<std::string> paper{"  paper"};
    for (size_t c = 0; c < study.columns.size(); ++c) {
      ours.push_back(short_value(summarise(results, metric.key, r, c)));
      paper.push_back(short_paper(metric, study.published_at(metric.key, r, c)));
    }
    lines.push_back(std::move(ours));
    if (study.published_at(metric.key, r, 0) != nullptr) lines.push_back(std::move(paper));
  }
  return aligned(lines);
}

std::string claim_lines(const study::Results& results) {
  const auto claims = judge(results);
  if (claims.empty()) return "";
  auto out = fmt::format("\n{}: {}\n", title_of_claims(results), verdict_count(claims));
  for (const auto& claim : claims) {
    const auto& text = claim.claim->text;
    out += fmt::format("  {:<14} {} ({})\n", verdict_text(claim.verdict),
                       text.substr(0, text.find_last_not_of('.') + 1), claim.brief);
  }
  return out;
}

std::string not_finished(const study::Results& results) {
  const auto notes = notes_of(results);
  if (notes.empty()) return "";
  std::string out = "\nNot finished:";
  constexpr size_t kMost = 8;
  for (size_t i = 0; i < std::min(notes.size(), kMost); ++i) {
    out += fmt::format("{} {} ({})", i == 0 ? "" : ",", notes[i].cell, notes[i].state);
  }
  if (notes.size() > kMost) out += fmt::format(", and {} more", notes.size() - kMost);
  return out + "\n";
}

}  // namespace

std::string terminal_text(const study::Folder& folder) {
  const auto results = read_results(folder);
  const auto& study = results.study;
  const auto& metric = results.metrics.front();
  auto out = fmt::format("{} ({}), scale {}: {}\n{}{}{}\n\n", study.title, study.place, results.record.scale,
                         state_of_cells(results), metric.title, unit(metric).empty() ? "" : " in %",
                         study.column_title.empty() ? "" : ", by " + study.column_title);
  out += table_of(results);
  if (results.count_same() > 0) out += "  = the same training as another cell by construction, trained once\n";
  return out + not_finished(results) + claim_lines(results);
}

}  // namespace frn::report
