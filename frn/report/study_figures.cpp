#include "frn/report/study_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "frn/core/error.h"
#include "frn/report/study_tables.h"

namespace frn::report {
namespace {

bool is_shown(const study::Figure& figure, const std::string& row) {
  return figure.rows.empty() || std::find(figure.rows.begin(), figure.rows.end(), row) != figure.rows.end();
}

LineChart empty_chart(const std::string& x_label, const std::string& y_label) {
  LineChart chart;
  chart.x_label = x_label;
  chart.y_label = y_label;
  chart.legend = Legend::kAbove;
  chart.width = 480;  // small, so that the letters can be read on a phone
  chart.height = 360;
  return chart;
}

// Columns by the number that their name is: 32, 16, ...
class OverColumns {
 public:
  OverColumns(const study::Results& results, const study::Figure& figure) : results_(results), figure_(figure) {
    for (const auto& column : results.study.columns) xs_.push_back(std::strtod(column.name.c_str(), nullptr));
  }

  // `value_at(row, column)` gives a mean and half the length of its bar. Columns are in the order of the table, and
  // each curve a little beside the next, so that bars do not cover each other.
  template <typename Value>
  LineChart chart(const Value& value_at) const {
    constexpr double kBeside = 0.08;  // in doublings of x
    const auto& study = results_.study;
    const auto metric = results_.metric(figure_.metric);
    auto chart = empty_chart(figure_.x_label, title_with_unit(metric));
    std::vector<size_t> shown;
    for (size_t r = 0; r < study.rows.size(); ++r) {
      if (is_shown(figure_, study.rows[r].name)) shown.push_back(r);
    }
    for (size_t i = 0; i < shown.size(); ++i) {
      const size_t r = shown[i];
      const double from_middle = static_cast<double>(i) - static_cast<double>(shown.size() - 1) / 2;
      Curve curve{study.rows[r].words, {}, {}, true};
      for (size_t c = 0; c < xs_.size(); ++c) {
        const auto [mean, spread] = value_at(r, c);
        curve.x.push_back(xs_[c] * std::exp2(-kBeside * from_middle));
        curve.y.push_back(mean);
        curve.spread.push_back(spread);
      }
      chart.curves.push_back(std::move(curve));
    }
    chart.x_ticks = xs_;
    chart.x_falls = xs_.front() > xs_.back();
    if (metric.kind == MetricKind::kShare) {
      chart.y_min = 0;
      chart.y_max = 100;
    }
    chart.legend = Legend::kAtEnds;
    chart.inset = inset(chart);
    return chart;
  }

 private:
  std::optional<Inset> inset(const LineChart& chart) const {
    Inset out{INFINITY, -INFINITY, INFINITY, -INFINITY};
    for (size_t c = 0; c < xs_.size(); ++c) {
      const auto& name = results_.study.columns[c].name;
      if (std::find(figure_.inset.begin(), figure_.inset.end(), name) == figure_.inset.end()) continue;
      out.x_low = std::min(out.x_low, xs_[c]);
      out.x_high = std::max(out.x_high, xs_[c]);
      for (const auto& curve : chart.curves) {
        if (!std::isfinite(curve.y[c])) continue;
        const double spread = std::isfinite(curve.spread[c]) ? curve.spread[c] : 0;
        out.y_low = std::min(out.y_low, curve.y[c] - spread);
        out.y_high = std::max(out.y_high, curve.y[c] + spread);
      }
    }
    if (!(out.y_low < out.y_high) || !(out.x_low < out.x_high)) return std::nullopt;
    const double margin = 0.1 * (out.y_high - out.y_low);
    constexpr double kRoom = 1.15;
    return Inset{out.x_low / kRoom, out.x_high * kRoom, out.y_low - margin, out.y_high + margin};
  }

  const study::Results& results_;
  const study::Figure& figure_;
  std::vector<double> xs_;
};

struct ValueWithSpread {
  double mean, spread;
};

std::string caption_of(const study::Results& results, const study::Figure& figure, const LineChart& chart) {
  auto out = fmt::format("Here, scale {}. {}", results.record.scale, figure.caption);
  const bool has_bars = std::any_of(chart.curves.begin(), chart.curves.end(), [](const Curve& curve) {
    return std::any_of(curve.spread.begin(), curve.spread.end(), [](double spread) { return std::isfinite(spread); });
  });
  if (has_bars) out += fmt::format(" Bars: standard deviation of {}.", seeds_text(results));
  return out;
}

void add_over_columns(const study::Results& results, const study::Figure& figure, std::vector<NamedChart>& out) {
  const OverColumns columns(results, figure);
  const auto& study = results.study;
  auto ours = columns.chart([&](size_t r, size_t c) {
    const auto summary = summarise(results, figure.metric, r, c);
    return ValueWithSpread{summary.mean, summary.deviation};
  });
  const auto& scale = study.scale(results.record.scale);
  const bool has_chance = scale.chance > 0 && results.metrics.front().kind == MetricKind::kShare;
  if (has_chance && figure.metric == study.metrics.front().key) ours.level = {scale.chance, "guessing"};
  auto paper = columns.chart([&](size_t r, size_t c) {
    const auto* value = study.published_at(figure.metric, r, c);
    return ValueWithSpread{value == nullptr || value->diverged ? kMissing : value->number, kMissing};
  });
  if (has_points(ours)) out.push_back({figure.file, caption_of(results, figure, ours), ours});
  if (!has_points(paper)) return;
  out.push_back({figure.file + "-paper", fmt::format("The paper's values ({}).", study.place), paper});
}

std::optional<Run> run_of(const study::Folder& folder, const study::CellResult& result) {
  const auto path = folder.cell(result.trained_as());
  if (!std::filesystem::exists(path / "log.jsonl")) return std::nullopt;
  try {
    return read_run(path);
  } catch (const Error&) {
    return std::nullopt;  // the cell's state tells that something is wrong with it
  }
}

template <typename Row>
Curve curve_of(const std::string& title, const std::vector<Row>& rows, const Metric& metric) {
  Curve curve{title, {}, {}};
  for (const auto& row : rows) {
    curve.x.push_back(static_cast<double>(row.step));
    curve.y.push_back(shown_number(metric, row[study::key_in_log(metric.key)]));
  }
  curve.marked = curve.x.size() < kFewPoints;
  return curve;
}

// Training lines of the log are means over few steps: neighbours are taken together, that a curve can be followed.
Curve smoothed(Curve curve) {
  constexpr size_t kPoints = 40;
  const size_t together = std::max<size_t>(1, curve.x.size() / kPoints);
  Curve out{curve.title, {}, {}, false};
  for (size_t begin = 0; begin + together <= curve.x.size(); begin += together) {
    double x = 0;
    double y = 0;
    for (size_t i = begin; i < begin + together; ++i) {
      x += curve.x[i] / static_cast<double>(together);
      y += curve.y[i] / static_cast<double>(together);
    }
    out.x.push_back(x);
    out.y.push_back(y);
  }
  return out;
}

void add_curves(const study::Folder& folder, const study::Results& results, const study::Figure& figure,
                std::vector<NamedChart>& out) {
  const auto metric = results.metric(figure.metric);
  auto training = empty_chart("step", title_with_unit(metric));
  auto validation = training;
  for (const auto& result : results.cells) {
    const auto& row = results.study.rows[result.cell.row];
    if (result.cell.seed != 0 || result.cell.column != 0 || !is_shown(figure, row.name)) continue;
    const auto run = run_of(folder, result);
    if (!run) continue;
    training.curves.push_back(smoothed(curve_of(row.title, run->training, metric)));
    validation.curves.push_back(curve_of(row.title, run->validation, metric));
  }
  if (has_points(training)) out.push_back({figure.file + "-training", "Training. " + figure.caption, training});
  if (has_points(validation)) out.push_back({figure.file + "-validation", "Validation. " + figure.caption, validation});
}

}  // namespace

std::vector<RowCurves> curves_of_rows(const study::Folder& folder, const study::Results& results) {
  const auto& metric = results.metrics.front();
  std::vector<RowCurves> out;
  for (size_t r = 0; r < results.study.rows.size(); ++r) {
    auto chart = empty_chart("step", title_with_unit(metric));
    for (const auto& result : results.cells) {
      if (result.cell.row != r || result.cell.seed != 0 || !result.same_as.empty()) continue;
      const auto run = run_of(folder, result);
      if (!run || run->validation.size() < 2) continue;
      const auto& column = results.study.columns[result.cell.column];
      chart.curves.push_back(curve_of(column.title, run->validation, metric));
    }
    if (has_points(chart)) out.push_back({results.study.rows[r], chart});
  }
  return out;
}

std::vector<NamedChart> charts_of(const study::Folder& folder, const study::Results& results) {
  std::vector<NamedChart> out;
  for (const auto& figure : results.study.figures) {
    if (figure.kind == "columns")
      add_over_columns(results, figure, out);
    else
      add_curves(folder, results, figure, out);
  }
  return out;
}

}  // namespace frn::report
