#include "frn/report/study_report.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>

#include "frn/report/html.h"
#include "frn/report/study_figures.h"
#include "frn/report/study_tables.h"

namespace frn::report {
namespace {

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string counted(size_t count, const std::string& what) { return fmt::format("{} {}", count, what); }

std::string summary(const StudyResults& results) {
  const auto& study = results.study;
  const auto unfinished = results.count(CellState::kUnfinished) + results.count(CellState::kStopped);
  std::string out = fmt::format("{}, scale {}: {} of {} cells finished", study.place, results.record.scale,
                                results.count(CellState::kFinished), results.cells.size());
  const std::pair<size_t, const char*> others[]{{results.count(CellState::kDiverged), "diverged"},
                                                {results.count(CellState::kFailed), "failed"},
                                                {unfinished, "stopped before the end"},
                                                {results.count(CellState::kMissing), "not run"}};
  for (const auto& [count, what] : others) {
    if (count > 0) out += ", " + counted(count, what);
  }
  return out + fmt::format(". {} each.", seeds_text(results));
}

html::Cell ours_cell(const CellSummary& summary) {
  html::Cell cell(summary_text(summary));
  if (summary.failed > 0) return std::move(cell).in("bad");
  if (summary.diverged > 0 || summary.open > 0) return std::move(cell).in("open");
  return std::move(cell).in("strong");
}

html::Table table_of(const StudyResults& results, const Metric& metric) {
  const auto& study = results.study;
  html::Table table{{{metric.title + ", %"}, {""}}, {}};
  for (const auto& column : study.columns) table.columns.push_back({column.title, true});
  const bool has_paper = study.published.contains(metric.key);
  table.together = has_paper ? 3 : 1;
  for (size_t r = 0; r < study.rows.size(); ++r) {
    std::vector<html::Cell> paper{html::Cell(study.rows[r].title).in("strong"), html::Cell("paper").in("soft")};
    std::vector<html::Cell> ours{has_paper ? "" : study.rows[r].title, html::Cell("ours").in("soft")};
    std::vector<html::Cell> difference{"", html::Cell("diff.").in("soft")};
    for (size_t c = 0; c < study.columns.size(); ++c) {
      const auto* published = study.published_at(metric.key, r, c);
      const auto summary = summarise(results, metric.key, r, c);
      paper.emplace_back(published_text(published));
      ours.push_back(ours_cell(summary));
      difference.push_back(html::Cell(difference_text(summary, published)).in("soft"));
    }
    if (has_paper) table.rows.push_back(std::move(paper));
    table.rows.push_back(std::move(ours));
    if (has_paper) table.rows.push_back(std::move(difference));
  }
  return table;
}

// How each row stands to the reference row, in the paper and here: what can be compared between scales.
html::Table relative_table(const StudyResults& results, const Metric& metric) {
  const auto& study = results.study;
  size_t base = 0;
  while (study.rows[base].name != study.reference) ++base;
  html::Table table{{{metric.title + ", points"}, {""}}, {}, 2};
  for (const auto& column : study.columns) table.columns.push_back({column.title, true});
  for (size_t r = 0; r < study.rows.size(); ++r) {
    if (r == base) continue;
    std::vector<html::Cell> paper{html::Cell(study.rows[r].title).in("strong"), html::Cell("paper").in("soft")};
    std::vector<html::Cell> ours{"", html::Cell("ours").in("soft")};
    for (size_t c = 0; c < study.columns.size(); ++c) {
      const auto* a = study.published_at(metric.key, r, c);
      const auto* b = study.published_at(metric.key, base, c);
      const bool known = a != nullptr && b != nullptr && !a->diverged && !b->diverged;
      paper.emplace_back(known ? fmt::format("{:+.2f}", a->percent - b->percent) : "–");
      const auto x = summarise(results, metric.key, r, c);
      const auto y = summarise(results, metric.key, base, c);
      ours.emplace_back(x.values.empty() || y.values.empty() ? "–" : fmt::format("{:+.2f}", x.mean - y.mean));
    }
    table.rows.push_back(std::move(paper));
    table.rows.push_back(std::move(ours));
  }
  return table;
}

std::string results_section(const StudyResults& results) {
  const auto& study = results.study;
  std::string out;
  if (results.record.scale != "paper" && !study.published.empty()) {
    out += html::paragraph(
        "This scale is not the paper's: other images, a smaller network, fewer steps. Compare which is higher and by "
        "how "
        "much, not the values themselves; the verdicts below are about these cells, not about the paper's.");
  }
  for (const auto& metric : study.metrics) out += html::table(table_of(results, metric));
  return html::section("The paper's table beside ours", out);
}

std::string relative_section(const StudyResults& results) {
  const auto& study = results.study;
  if (study.reference.empty() || study.rows.size() < 2) return "";
  std::string title;
  for (const auto& row : study.rows) {
    if (row.name == study.reference) title = row.title;
  }
  return html::section("Difference from " + title, html::table(relative_table(results, study.metrics.front())));
}

std::string claims_section(const StudyResults& results) {
  std::vector<html::Judged> entries;
  for (const auto& claim : judge(results)) {
    const char* tone = claim.verdict == Verdict::kHolds         ? "good"
                       : claim.verdict == Verdict::kDoesNotHold ? "bad"
                                                                : "open";
    const auto& place = claim.claim->place;
    entries.push_back({verdict_text(claim.verdict), tone, claim.claim->text,
                       (place.empty() ? "" : "Paper, " + place + ". Here: ") + claim.reason + "."});
  }
  if (entries.empty()) return "";
  return html::section("Claims of the paper", html::judgements(entries) + html::paragraph(rule_of_claims()));
}

std::string notes_section(const StudyResults& results) {
  const auto notes = notes_of(results);
  if (notes.empty()) return "";
  html::Table table{{{"cell"}, {"state"}, {"reason"}}, {}};
  for (const auto& note : notes) {
    const char* tone = note.state == "failed" ? "bad" : "open";
    table.rows.push_back({note.cell, html::Cell(note.state).in(tone), note.message});
  }
  return html::section("Cells that did not finish", html::table(table));
}

// The settings that all cells share; those that differ are in the next table.
std::string settings_section(const StudyResults& results) {
  Properties common;
  std::vector<std::string> different;
  for (const auto& [key, value] : results.cells.front().cell.settings) {
    bool same = true;
    for (const auto& result : results.cells) {
      const auto found = result.cell.settings.find(key);
      same = same && found != result.cell.settings.end() && found->second == value;
    }
    if (key == "seed") continue;
    if (same)
      common.emplace_back(key, plain_value(results.cells.front().cell.settings, key));
    else
      different.push_back(key);
  }
  html::Table table{{{"cell"}}, {}};
  for (const auto& key : different) table.columns.push_back({key});
  table.columns.insert(table.columns.end(), {{"state"}, {"steps", true}, {"minutes", true}});
  for (const auto& result : results.cells) {
    std::vector<html::Cell> row{result.cell.name};
    for (const auto& key : different) row.emplace_back(plain_value(result.cell.settings, key));
    row.emplace_back(state_text(result));
    row.emplace_back(std::to_string(result.step));
    row.emplace_back(fmt::format("{:.1f}", result.seconds / 60));
    table.rows.push_back(std::move(row));
  }
  return html::section("Settings of all cells", html::properties(common)) + html::section("Cells", html::table(table));
}

std::string body(const StudyResults& results, const std::vector<std::string>& figures) {
  const auto& study = results.study;
  const auto& about = study.scale(results.record.scale).about;
  std::string out;
  if (!study.about.empty()) out += html::paragraph(study.about);
  if (!about.empty()) out += html::paragraph("Scale " + results.record.scale + ": " + about);
  out += results_section(results) + relative_section(results) + claims_section(results) + notes_section(results);
  if (!figures.empty()) out += html::section("Figures", html::figures(figures));
  return out + settings_section(results) +
         html::section("Where it was made", html::properties(results.record.provenance));
}

}  // namespace

std::vector<std::filesystem::path> study_report(const StudyFolder& folder) {
  const auto results = read_results(folder);
  std::vector<std::filesystem::path> written;
  const auto write = [&](const std::string& name, const std::string& text) {
    written.push_back(folder.path / name);
    write_file(written.back(), text);
  };
  std::vector<std::string> figures;
  for (const auto& [file, caption, chart] : charts_of(folder, results)) {
    written.push_back(folder.path / (file + ".svg"));
    draw_svg(chart, written.back());
    figures.push_back(html::figure(contents(written.back()), file, caption));
  }
  write("table.md", markdown_of(results));
  write("table.csv", csv_of(results));
  write("report.html", html::page(results.study.title, summary(results), body(results, figures),
                                  "Made by frn report from study.toml, study.json and the cells' run directories."));
  return written;
}

std::string table_text(const StudyFolder& folder) { return markdown_of(read_results(folder)); }

}  // namespace frn::report
