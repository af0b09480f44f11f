#include "frn/report/study_report.h"

#include <fmt/format.h>

#include <set>

#include "frn/core/error.h"
#include "frn/core/whole_file.h"
#include "frn/report/html.h"
#include "frn/report/study_figures.h"
#include "frn/report/study_tables.h"

namespace frn::report {
namespace {

std::string summary(const study::Results& results) {
  return fmt::format("{}, scale {}: {}.", results.study.place, results.record.scale, state_of_cells(results));
}

// The name on the page of the figure with a row's curves.
std::string curves_name(const study::Line& row) { return "curves-of-" + row.name; }

using RowsWithCurves = std::set<std::string>;

html::Cell ours_cell(const study::CellSummary& summary, const std::string& figure) {
  auto cell = html::Cell(value_text(summary)).to_figure(figure);
  if (summary.failed > 0) return std::move(cell).in("bad");
  if (summary.diverged > 0 || summary.open > 0) return std::move(cell).in("open");
  return std::move(cell).in("strong");
}

html::Table table_of(const study::Results& results, const Metric& metric, const RowsWithCurves& curves) {
  const auto& study = results.study;
  html::Table table{{{title_with_unit(metric)}, {""}}, {}};
  for (const auto& column : study.columns) table.columns.push_back({column.title, true});
  const bool has_paper = study.published.contains(metric.key);
  const bool subtracts = has_paper && is_papers_scale(results);
  table.together = subtracts ? 3 : has_paper ? 2 : 1;
  for (size_t r = 0; r < study.rows.size(); ++r) {
    std::vector<html::Cell> ours{html::Cell(study.rows[r].title).in("strong"), html::Cell("ours").in("soft")};
    std::vector<html::Cell> paper{"", html::Cell("paper").in("soft")};
    std::vector<html::Cell> difference{"", html::Cell("diff.").in("soft")};
    for (size_t c = 0; c < study.columns.size(); ++c) {
      const auto* published = study.published_at(metric.key, r, c);
      const auto summary = summarise(results, metric.key, r, c);
      const auto& row = study.rows[r];
      ours.push_back(ours_cell(summary, curves.contains(row.name) ? curves_name(row) : ""));
      paper.push_back(html::Cell(published_text(metric, published)).in("soft"));
      difference.push_back(html::Cell(difference_text(summary, published)).in("soft"));
    }
    table.rows.push_back(std::move(ours));
    if (has_paper) table.rows.push_back(std::move(paper));
    if (subtracts) table.rows.push_back(std::move(difference));
  }
  return table;
}

// The difference of each row from the reference row, in the paper and here: it can be compared between scales.
html::Table relative_table(const study::Results& results, const Metric& metric) {
  const auto& study = results.study;
  size_t base = 0;
  while (study.rows[base].name != study.reference) ++base;
  const bool has_paper = study.published.contains(metric.key);
  html::Table table{{{metric.title + (metric.kind == MetricKind::kShare ? ", points" : "")}, {""}}, {}};
  table.together = has_paper ? 2 : 1;
  for (const auto& column : study.columns) table.columns.push_back({column.title, true});
  for (size_t r = 0; r < study.rows.size(); ++r) {
    if (r == base) continue;
    std::vector<html::Cell> ours{html::Cell(study.rows[r].title).in("strong"), html::Cell("ours").in("soft")};
    std::vector<html::Cell> paper{"", html::Cell("paper").in("soft")};
    for (size_t c = 0; c < study.columns.size(); ++c) {
      const auto* a = study.published_at(metric.key, r, c);
      const auto* b = study.published_at(metric.key, base, c);
      const bool known = a != nullptr && b != nullptr && !a->diverged && !b->diverged;
      paper.push_back(html::Cell(known ? study::signed_text(metric, a->number - b->number) : "–").in("soft"));
      const auto x = summarise(results, metric.key, r, c);
      const auto y = summarise(results, metric.key, base, c);
      ours.emplace_back(x.values.empty() || y.values.empty() ? "–" : study::signed_text(metric, x.mean - y.mean));
    }
    table.rows.push_back(std::move(ours));
    if (has_paper) table.rows.push_back(std::move(paper));
  }
  return table;
}

std::string results_section(const study::Results& results, const RowsWithCurves& curves) {
  const auto& study = results.study;
  std::string out;
  for (const auto& metric : results.metrics) out += html::table(table_of(results, metric, curves));
  if (!curves.empty()) out += html::paragraph("A click on a value shows the curves of its row.");
  if (const auto note = note_on_same_cells(results); !note.empty()) out += html::paragraph(note);
  if (!is_papers_scale(results) && !study.published.empty()) {
    out += html::paragraph(
        "The paper's values are of other images, larger networks and more steps: compare which row is higher and by "
        "how much, not the values themselves.");
  }
  const auto columns = study.column_title.empty() ? "" : ", by " + study.column_title;
  return html::section("Results" + columns, out);
}

std::string relative_section(const study::Results& results) {
  const auto& study = results.study;
  if (study.reference.empty() || study.rows.size() < 2) return "";
  std::string title;
  for (const auto& row : study.rows) {
    if (row.name == study.reference) title = row.title;
  }
  return html::section("Difference from " + title, html::table(relative_table(results, results.metrics.front())));
}

std::string claims_section(const study::Results& results) {
  const auto claims = judge(results);
  if (claims.empty()) return "";
  std::vector<html::Judged> entries;
  for (const auto& claim : claims) {
    const char* tone = claim.verdict == study::Verdict::kHolds         ? "good"
                       : claim.verdict == study::Verdict::kDoesNotHold ? "bad"
                                                                       : "open";
    const auto& place = claim.claim->place;
    entries.push_back({verdict_text(claim.verdict), tone, claim.claim->text,
                       claim.reason + "." + (place.empty() ? "" : " Paper: " + place + ".")});
  }
  return html::section(title_of_claims(results) + ": " + verdict_count(claims), html::judgements(entries));
}

std::string notes_section(const study::Results& results) {
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
std::string settings_section(const study::Results& results) {
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
      common.emplace_back(key, study::plain_value(results.cells.front().cell.settings, key));
    else
      different.push_back(key);
  }
  html::Table table{{{"cell"}}, {}};
  for (const auto& key : different) table.columns.push_back({key});
  table.columns.insert(table.columns.end(), {{"state"}, {"steps", true}, {"seconds", true}});
  for (const auto& result : results.cells) {
    std::vector<html::Cell> row{result.cell.name};
    for (const auto& key : different) row.emplace_back(study::plain_value(result.cell.settings, key));
    const bool own = result.same_as.empty();
    row.emplace_back(own ? state_text(result) : "same training as " + result.same_as);
    row.emplace_back(own ? std::to_string(result.step) : "");
    row.emplace_back(own ? fmt::format("{:.1f}", result.seconds) : "");
    table.rows.push_back(std::move(row));
  }
  return html::section("Settings of all cells", html::properties(common)) + html::section("Cells", html::table(table));
}

std::string about_section(const study::Results& results) {
  const auto& study = results.study;
  const auto& about = study.scale(results.record.scale).about;
  std::string out;
  if (!study.about.empty()) out += html::paragraph(study.about);
  if (!about.empty()) out += html::paragraph("Scale " + results.record.scale + ": " + about);
  if (!study.claims.empty()) out += html::paragraph(study::rule_of_claims());
  return out.empty() ? "" : html::section("How it was made", out);
}

// The conclusions first, then the numbers, then how they were made.
std::string body(const study::Results& results, const std::vector<std::string>& figures,
                 const std::vector<std::string>& curves, const RowsWithCurves& with_curves) {
  std::string out;
  if (!figures.empty()) out += html::figures(figures);
  out += claims_section(results) + results_section(results, with_curves) + relative_section(results);
  if (!curves.empty()) out += html::section("Curves of every row", html::figures(curves));
  return out + notes_section(results) + about_section(results) + settings_section(results) +
         html::section("Where it was made", html::properties(results.record.provenance));
}

// Draws charts, and remembers those that could not be drawn.
class Drawing {
 public:
  explicit Drawing(std::vector<std::filesystem::path>& written) : written_(written) {}

  // The figure for the page; empty when it could not be drawn.
  std::string figure(const LineChart& chart, const std::filesystem::path& svg, const std::string& name,
                     const std::string& caption) {
    ++charts_;
    try {
      draw_svg(chart, svg);
    } catch (const Error& error) {
      if (undrawn_++ == 0) reason_ = error.what();
      return "";
    }
    written_.push_back(svg);
    return html::figure(contents_of(svg), name, caption);
  }

  std::string undrawn() const {
    if (undrawn_ == 0) return "";
    return fmt::format("{}; the tables and report.html were written without {} of {} figures", reason_, undrawn_,
                       charts_);
  }

 private:
  std::vector<std::filesystem::path>& written_;
  size_t charts_ = 0, undrawn_ = 0;
  std::string reason_;
};

}  // namespace

WrittenReport study_report(const study::Folder& folder) {
  const auto results = read_results(folder);
  refuse_link(folder.path / "curves", "report");
  WrittenReport out;
  const auto write = [&](const std::string& name, const std::string& text) {
    out.files.push_back(folder.path / name);
    write_file(out.files.back(), text);
  };
  Drawing drawing(out.files);
  std::vector<std::string> figures;
  std::vector<std::pair<std::string, std::string>> files;
  for (const auto& [file, caption, chart] : charts_of(folder, results)) {
    auto figure = drawing.figure(chart, folder.path / (file + ".svg"), file, caption);
    if (figure.empty()) continue;
    figures.push_back(std::move(figure));
    files.emplace_back(file + ".svg", caption);
  }
  std::vector<std::string> curves;
  RowsWithCurves with_curves;
  for (const auto& [row, chart] : curves_of_rows(folder, results)) {
    std::filesystem::create_directories(folder.path / "curves");
    auto figure = drawing.figure(chart, folder.path / "curves" / (row.name + ".svg"), curves_name(row), row.title);
    if (figure.empty()) continue;
    curves.push_back(std::move(figure));
    with_curves.insert(row.name);
  }
  write("table.md", markdown_of(results, files));
  write("table.csv", csv_of(results));
  write("report.html", html::page(results.study.title, summary(results), body(results, figures, curves, with_curves),
                                  "Made by frn report from study.toml, study.json and the cells' run directories."));
  out.undrawn = drawing.undrawn();
  return out;
}

std::string table_text(const study::Folder& folder) { return markdown_of(read_results(folder)); }

}  // namespace frn::report
