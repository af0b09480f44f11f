#include "frn/report/study_tables.h"

#include <fmt/format.h>

#include <algorithm>

#include "frn/report/csv.h"

namespace frn::report {
namespace {

constexpr const char* kNoValue = "–";

using Grid = std::vector<std::vector<std::string>>;

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c == '\n' ? ' ' : c);
  return out;
}

// Padded, so that it can be read as it is; the first two columns to the left.
std::string markdown_table(Grid grid) {
  std::vector<size_t> widths(grid.front().size(), 3);
  for (auto& row : grid) {
    for (size_t i = 0; i < row.size(); ++i) {
      row[i] = escaped(row[i]);
      widths[i] = std::max(widths[i], width_of(row[i]));
    }
  }
  std::string out;
  for (size_t r = 0; r < grid.size(); ++r) {
    out += "|";
    for (size_t i = 0; i < grid[r].size(); ++i) {
      const std::string padding(widths[i] - width_of(grid[r][i]), ' ');
      out += i < 2 ? " " + grid[r][i] + padding + " |" : " " + padding + grid[r][i] + " |";
    }
    out += "\n";
    if (r > 0) continue;
    out += "|";
    for (size_t i = 0; i < widths.size(); ++i) {
      out += i < 2 ? " " + std::string(widths[i], '-') + " |" : " " + std::string(widths[i] - 1, '-') + ": |";
    }
    out += "\n";
  }
  return out;
}

Grid grid_of(const study::Results& results, const Metric& metric) {
  const auto& study = results.study;
  Grid grid{{metric.title, ""}};
  for (const auto& column : study.columns) grid[0].push_back(column.title);
  for (size_t r = 0; r < study.rows.size(); ++r) {
    std::vector<std::string> ours{study.rows[r].title, "ours"};
    std::vector<std::string> paper{"", "paper"};
    std::vector<std::string> difference{"", "difference"};
    for (size_t c = 0; c < study.columns.size(); ++c) {
      const auto* published = study.published_at(metric.key, r, c);
      const auto summary = summarise(results, metric.key, r, c);
      ours.push_back(value_text(summary));
      paper.push_back(published_text(metric, published));
      difference.push_back(difference_text(summary, published));
    }
    grid.push_back(std::move(ours));
    const bool has_paper = study.published_at(metric.key, r, 0) != nullptr;
    if (has_paper) grid.push_back(std::move(paper));
    if (has_paper && is_papers_scale(results)) grid.push_back(std::move(difference));
  }
  return grid;
}

std::string claims_of(const study::Results& results) {
  const auto claims = judge(results);
  if (claims.empty()) return "";
  auto out = fmt::format("\n## {}: {}\n\n", title_of_claims(results), verdict_count(claims));
  for (const auto& claim : claims) {
    out += fmt::format("- **{}**: {} {}.\n", verdict_text(claim.verdict), claim.claim->text, claim.reason);
  }
  return out;
}

std::string notes_text(const study::Results& results) {
  const auto notes = notes_of(results);
  std::string out = notes.empty() ? "" : "\n## Not finished\n\n";
  for (const auto& note : notes) {
    out += fmt::format("- {}: {}{}\n", note.cell, note.state, note.message.empty() ? "" : ": " + note.message);
  }
  return out;
}

std::string csv_number(const Metric& metric, double value) {
  return metric.kind == MetricKind::kShare ? fmt::format("{:.4f}", 100 * value) : fmt::format("{:.6g}", value);
}

std::string csv_line(const study::Results& results, const study::CellResult& result) {
  const auto& study = results.study;
  const auto& cell = result.cell;
  const auto setting = [&](const char* key) { return csv_text(study::plain_value(cell.settings, key)); };
  std::string out =
      fmt::format("{},{},{},{},{},{},{},{},{},{}", cell.name, csv_text(study.rows[cell.row].name),
                  csv_text(study.columns[cell.column].name), cell.seed, setting("model"), setting("norm"),
                  setting("batch_per_device"), setting("lr_base"), csv_text(state_text(result)), result.step);
  for (const auto& metric : results.metrics) {
    const auto* published = study.published_at(metric.key, cell.row, cell.column);
    out += "," + (published == nullptr ? "" : published_text(metric, published));
    const auto value = result.values.find(metric.key);
    const bool known = value != result.values.end() && result.state != study::CellState::kDiverged;
    out += "," + (known ? csv_number(metric, value->second) : "");
  }
  return out + fmt::format(",{:.1f},{},{}\n", result.seconds, csv_text(result.message), result.same_as);
}

}  // namespace

std::string title_of_claims(const study::Results& results) {
  return results.study.published.empty() ? "Claims" : "Claims of the paper";
}

std::string title_with_unit(const Metric& metric) {
  const auto of = unit(metric);
  return of.empty() ? metric.title : fmt::format("{}, {}", metric.title, of);
}

std::string published_text(const Metric& metric, const study::PublishedValue* value) {
  if (value == nullptr) return kNoValue;
  return value->diverged ? "diverged" : study::number_text(metric, value->number);
}

std::string difference_text(const study::CellSummary& ours, const study::PublishedValue* published) {
  if (published == nullptr || published->diverged || ours.values.empty()) return kNoValue;
  return study::signed_text(ours.metric, ours.mean - published->number);
}

std::vector<CellNote> notes_of(const study::Results& results) {
  std::vector<CellNote> out;
  for (const auto& result : results.cells) {
    if (result.state == study::CellState::kFinished || !result.same_as.empty()) continue;
    out.push_back({result.cell.name, state_text(result), result.message});
  }
  return out;
}

size_t width_of(std::string_view text) {
  // Bytes that do not continue a letter.
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

std::string value_text(const study::CellSummary& summary) {
  return (summary.same_as_another ? "= " : "") + summary_text(summary);
}

std::string state_of_cells(const study::Results& results) {
  auto out = fmt::format("{} of {} cells finished", results.count(study::CellState::kFinished), results.cells.size());
  if (const auto same = results.count_same(); same > 0) {
    out += fmt::format(" ({} {} the same training as another)", same, same == 1 ? "is" : "are");
  }
  const auto unfinished = results.count(study::CellState::kUnfinished) + results.count(study::CellState::kStopped);
  const std::pair<size_t, const char*> others[]{{results.count(study::CellState::kDiverged), "diverged"},
                                                {results.count(study::CellState::kFailed), "failed"},
                                                {unfinished, "stopped before the end"},
                                                {results.count(study::CellState::kMissing), "not run"}};
  for (const auto& [count, what] : others) {
    if (count > 0) out += fmt::format(", {} {}", count, what);
  }
  return out + ", " + seeds_text(results);
}

std::string note_on_same_cells(const study::Results& results) {
  if (results.count_same() == 0) return "";
  return "= marks cells that are the same training as another one by construction: they differ only in how the images of a step are split over devices, which has no effect on a norm that normalises each image by itself. They were trained once.";
}

std::string markdown_of(const study::Results& results,
                        const std::vector<std::pair<std::string, std::string>>& figures) {
  const auto& study = results.study;
  auto out = fmt::format("# {}\n\n{}. Scale {}: {}.\n", study.title, study.place, results.record.scale,
                         state_of_cells(results));
  for (const auto& [file, caption] : figures) out += fmt::format("\n![{}]({})\n", caption, file);
  out += claims_of(results) + "\n## Results\n";
  for (const auto& metric : results.metrics) out += "\n" + markdown_table(grid_of(results, metric));
  if (const auto note = note_on_same_cells(results); !note.empty()) out += "\n" + note + "\n";
  out += notes_text(results);
  if (!study.claims.empty()) out += "\n" + study::rule_of_claims() + "\n";
  return out;
}

std::string csv_of(const study::Results& results) {
  std::string out = "cell,row,column,seed,model,norm,batch_per_device,lr_base,state,step";
  for (const auto& metric : results.study.metrics) {
    out += "," + csv_text(metric.key + "_paper") + "," + csv_text(metric.key);
  }
  out += ",seconds,message,same_as\n";
  for (const auto& result : results.cells) out += csv_line(results, result);
  return out;
}

}  // namespace frn::report
