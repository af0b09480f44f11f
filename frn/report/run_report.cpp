#include "frn/report/run_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "frn/core/error.h"
#include "frn/core/whole_file.h"
#include "frn/report/curves.h"
#include "frn/report/evaluation.h"
#include "frn/report/html.h"
#include "frn/report/run.h"

namespace frn::report {
namespace {

constexpr const char* kNone = "\u2013";  // a dash: not measured

std::string short_number(double value) { return std::isfinite(value) ? fmt::format("{:.4g}", value) : kNone; }

int64_t last_step(const Run& run) {
  int64_t step = 0;
  if (!run.training.empty()) step = run.training.back().step;
  if (!run.validation.empty()) step = std::max(step, run.validation.back().step);
  return step;
}

// "P@1 91.20 % in the last validation, which is the best."
std::string best_text(const Run& run) {
  const auto* const best = best_validation(run);
  if (best == nullptr) return "";
  const auto& metric = run.metrics.front();
  const double last = run.validation.back()[metric.key];
  auto out = fmt::format("{} {} in the last validation", metric.title, shown(metric, last));
  if (!is_better(metric, (*best)[metric.key], last)) return out + ", which is the best.";
  return out + fmt::format(", {} in the best (step {}).", shown(metric, (*best)[metric.key]), best->step);
}

// "resnetv2-20 with frn+tlu on cifar10. Finished after 3120 steps. P@1 91.20 % in the last validation, ..."
std::string summary(const Run& run) {
  std::string out;
  const auto model = value_of(run.config, "model");
  const auto norm = value_of(run.config, "norm");
  const auto data = value_of(run.config, "data");
  if (!model.empty()) out += model + (norm.empty() ? "" : " with " + norm);
  if (!model.empty() && !data.empty()) out += " on " + data.substr(0, data.find(':'));
  if (!out.empty()) out += ". ";
  const std::string steps = fmt::format("{} step{}", last_step(run), last_step(run) == 1 ? "" : "s");
  switch (run.state) {
    case RunState::kFinished:
      out += "Finished after " + steps + ".";
      break;
    case RunState::kDiverged:
      out += "Diverged after " + steps + ".";
      break;
    case RunState::kUnfinished:
      out += "Not finished: " + steps + " so far.";
      break;
  }
  if (const auto best = best_text(run); !best.empty()) out += " " + best;
  return out;
}

// The run's metrics and its loss.
std::vector<Metric> result_columns(const Run& run) {
  auto out = run.metrics;
  const auto loss = find_metric(run.metrics, "loss");
  if (std::find(out.begin(), out.end(), loss) == out.end()) out.push_back(loss);
  return out;
}

std::string results(const Run& run) {
  const auto columns = result_columns(run);
  html::Table table{{{""}}, {}};
  for (const auto& column : columns) table.columns.push_back({column.title, true});
  table.columns.insert(table.columns.end(), {{"step", true}, {"epoch", true}});
  const auto add = [&](const std::string& name, const auto& row) {
    std::vector<html::Cell> cells{name};
    for (const auto& column : columns) cells.emplace_back(shown(column, row[column.key]));
    cells.emplace_back(std::to_string(row.step));
    cells.emplace_back(short_number(row.epoch));
    table.rows.push_back(std::move(cells));
  };
  if (!run.training.empty()) add("training, last", run.training.back());
  if (!run.validation.empty()) add("validation, last", run.validation.back());
  if (const auto* best = best_validation(run)) add("validation, best " + run.metrics.front().title, *best);
  return html::section("Results", html::table(table));
}

std::string layers(const Run& run) {
  html::Table table{{{"layer"}, {"scale", true}, {"clipped", true}}, {}};
  for (const auto& layer : run.layers) {
    const auto clipped = layer.clipped ? fmt::format("{:.2f} %", 100 * *layer.clipped) : kNone;
    table.rows.push_back({layer.name, short_number(layer.scale), html::Cell(clipped, layer.clipped)});
  }
  const auto text = fmt::format(
      "At step {}: the root mean square of each layer's output, and the share of its units at the threshold.",
      run.layers_step);
  return html::section("Layers", html::paragraph(text) + html::table(table));
}

std::string incidents(const Run& run) {
  html::Table table{{{"step", true}, {"event"}, {"details"}}, {}};
  for (const auto& incident : run.incidents) {
    table.rows.push_back({incident.step ? std::to_string(*incident.step) : kNone, incident.event, incident.details});
  }
  return html::section("Events", html::table(table));
}

std::string share_text(double share) { return std::isfinite(share) ? fmt::format("{:.2f}", 100 * share) : kNone; }

// A detector's classes and what it found, where `frn eval` was run.
std::string evaluation(const EvaluationFiles& files, const std::string& curves) {
  html::Table table{{{"class"}, {"objects", true}, {"AP", true}, {"AP50", true}, {"AP75", true}, {"AR", true}}, {}};
  for (const auto& one : files.classes) {
    table.rows.push_back({one.name, std::to_string(one.objects), share_text(one.ap), share_text(one.ap50),
                          share_text(one.ap75), share_text(one.ar)});
  }
  auto out = html::section("Classes", html::paragraph("frn eval, " + files.source + ".") + html::table(table) + curves);
  std::vector<std::string> pictures;
  for (const auto& path : files.examples) {
    pictures.push_back(html::picture(contents_of(path), "Image " + path.stem().string()));
  }
  if (pictures.empty()) return out;
  return out + html::section("Examples",
                             html::paragraph("Left what is there, right what the network found, with its scores.") +
                                 html::figures(pictures));
}

std::string body(const Run& run, const std::vector<std::string>& figures, const std::string& evaluated) {
  std::string out = results(run);
  out += html::section("Curves", html::figures(figures));
  out += evaluated;
  if (!run.last_metrics.empty()) out += html::section("Last metrics", html::properties(run.last_metrics));
  if (!run.layers.empty()) out += layers(run);
  if (!run.incidents.empty()) out += incidents(run);
  if (!run.config.empty()) out += html::section("Settings", html::properties(run.config));
  return out;
}

std::string precision_figure(const EvaluationFiles& files, const std::filesystem::path& folder,
                             std::vector<std::filesystem::path>& written) {
  LineChart chart{
      .title = "", .x_label = "recall, %", .y_label = "precision, %", .curves = files.curves, .y_min = 0, .y_max = 100};
  if (!has_points(chart)) return "";
  written.push_back(folder / "precision-recall.svg");
  draw_svg(chart, written.back());
  return html::figures({html::figure(contents_of(written.back()), "precision-recall",
                                     "Precision over recall, the mean of the classes.")});
}

}  // namespace

std::vector<std::filesystem::path> run_report(const std::filesystem::path& folder) {
  const Run run = read_run(folder);
  const auto charts = charts_of(run);
  if (charts.empty()) {
    throw Error("report", folder.string() + " has no line of training or validation in its log yet; let the run go on");
  }
  std::vector<std::filesystem::path> written;
  std::vector<std::string> figures;
  for (const auto& [file, caption, chart] : charts) {
    written.push_back(folder / (file + ".svg"));
    draw_svg(chart, written.back());
    figures.push_back(html::figure(contents_of(written.back()), file, caption));
  }
  const auto files = read_evaluation(folder);
  std::string evaluated;
  if (!files.classes.empty()) evaluated = evaluation(files, precision_figure(files, folder, written));
  written.push_back(folder / "curves.csv");
  write_file(written.back(), csv_of(run));
  written.push_back(folder / "report.html");
  write_file(written.back(), html::page("Run " + run.name, summary(run), body(run, figures, evaluated),
                                        "Made by frn report from log.jsonl, config.toml and metrics.json of the run."));
  return written;
}

}  // namespace frn::report
