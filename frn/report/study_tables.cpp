#include "frn/report/study_tables.h"

#include <fmt/format.h>

#include <algorithm>

namespace frn::report {
namespace {

constexpr const char* kNone = "–";

using Grid = std::vector<std::vector<std::string>>;

// Letters as a terminal shows them: bytes that do not continue one.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

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

Grid grid_of(const StudyResults& results, const Metric& metric) {
  const auto& study = results.study;
  Grid grid{{metric.title, ""}};
  for (const auto& column : study.columns) grid[0].push_back(column.title);
  for (size_t r = 0; r < study.rows.size(); ++r) {
    std::vector<std::string> paper{study.rows[r].title, "paper"};
    std::vector<std::string> ours{"", "ours"};
    std::vector<std::string> difference{"", "difference"};
    for (size_t c = 0; c < study.columns.size(); ++c) {
      const auto* published = study.published_at(metric.key, r, c);
      const auto summary = summarise(results, metric.key, r, c);
      paper.push_back(published_text(published));
      ours.push_back(summary_text(summary));
      difference.push_back(difference_text(summary, published));
    }
    if (!study.published.contains(metric.key)) {
      ours[0] = study.rows[r].title;
      grid.push_back(ours);
      continue;
    }
    for (auto& line : {paper, ours, difference}) grid.push_back(line);
  }
  return grid;
}

std::string csv_text(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

std::string csv_line(const StudyResults& results, const CellResult& result) {
  const auto& study = results.study;
  const auto& cell = result.cell;
  const auto setting = [&](const char* key) { return csv_text(plain_value(cell.settings, key)); };
  std::string out =
      fmt::format("{},{},{},{},{},{},{},{},{},{}", cell.name, csv_text(study.rows[cell.row].name),
                  csv_text(study.columns[cell.column].name), cell.seed, setting("model"), setting("norm"),
                  setting("batch_per_device"), setting("lr_base"), csv_text(state_text(result)), result.step);
  for (const auto& metric : study.metrics) {
    const auto* published = study.published_at(metric.key, cell.row, cell.column);
    out += "," + (published == nullptr ? "" : published_text(published));
    const auto value = result.percent.find(metric.key);
    out += "," + (value == result.percent.end() || result.state == CellState::kDiverged
                      ? ""
                      : fmt::format("{:.4f}", value->second));
  }
  return out + fmt::format(",{:.1f},{}\n", result.seconds, csv_text(result.message));
}

}  // namespace

std::string published_text(const PublishedValue* value) {
  if (value == nullptr) return kNone;
  return value->diverged ? "diverged" : fmt::format("{:.2f}", value->percent);
}

std::string difference_text(const CellSummary& ours, const PublishedValue* published) {
  if (published == nullptr || published->diverged || ours.values.empty()) return kNone;
  return fmt::format("{:+.2f}", ours.mean - published->percent);
}

std::vector<CellNote> notes_of(const StudyResults& results) {
  std::vector<CellNote> out;
  for (const auto& result : results.cells) {
    if (result.state == CellState::kFinished) continue;
    out.push_back({result.cell.name, state_text(result), result.message});
  }
  return out;
}

std::string markdown_of(const StudyResults& results) {
  const auto& study = results.study;
  std::string out =
      fmt::format("# {}\n\n{}. Scale {}: {} of {} cells finished, {}.\n", study.title, study.place,
                  results.record.scale, results.count(CellState::kFinished), results.cells.size(), seeds_text(results));
  for (const auto& metric : study.metrics) out += "\n" + markdown_table(grid_of(results, metric));
  const auto notes = notes_of(results);
  if (!notes.empty()) out += "\nNot finished:\n\n";
  for (const auto& note : notes) {
    out += fmt::format("- {}: {}{}\n", note.cell, note.state, note.message.empty() ? "" : ": " + note.message);
  }
  const auto claims = judge(results);
  if (!claims.empty()) out += "\nClaims of the paper:\n\n";
  for (const auto& claim : claims) {
    out += fmt::format("- {}: {} ({})\n", verdict_text(claim.verdict), claim.claim->text, claim.reason);
  }
  if (!claims.empty()) out += "\n" + rule_of_claims() + "\n";
  return out;
}

std::string csv_of(const StudyResults& results) {
  std::string out = "cell,row,column,seed,model,norm,batch_per_device,lr_base,state,step";
  for (const auto& metric : results.study.metrics) out += fmt::format(",{0}_paper,{0}", metric.key);
  out += ",seconds,message\n";
  for (const auto& result : results.cells) out += csv_line(results, result);
  return out;
}

}  // namespace frn::report
