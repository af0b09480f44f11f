#include "frn/report/curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

namespace frn::report {
namespace {

using Field = double Point::*;

// More points than a chart has pixels are noise and megabytes.
constexpr size_t kMostPoints = 600;
// Fewer than this are marked one by one.
constexpr size_t kFewPoints = 40;
// A loss that spans more than this is that of a run that went wrong, and unreadable on a linear axis.
constexpr double kWideSpan = 1000;

bool has_epochs(const Run& run) {
  const auto missing = [](const Point& point) { return std::isnan(point.epoch); };
  return std::none_of(run.training.begin(), run.training.end(), missing) &&
         std::none_of(run.validation.begin(), run.validation.end(), missing);
}

double mean(std::vector<double>::const_iterator begin, std::vector<double>::const_iterator end) {
  double sum = 0;
  double count = 0;
  for (auto value = begin; value != end; ++value) {
    if (!std::isfinite(*value)) continue;
    sum += *value;
    count += 1;
  }
  return count == 0 ? kMissing : sum / count;
}

// Means of neighbours, when there are too many points.
Curve thinned(Curve curve) {
  const size_t together = (curve.x.size() + kMostPoints - 1) / kMostPoints;
  if (together <= 1) return curve;
  Curve out{curve.title, {}, {}};
  for (size_t begin = 0; begin < curve.x.size(); begin += together) {
    const auto first = static_cast<std::ptrdiff_t>(begin);
    const auto last = static_cast<std::ptrdiff_t>(std::min(begin + together, curve.x.size()));
    out.x.push_back(mean(curve.x.begin() + first, curve.x.begin() + last));
    out.y.push_back(mean(curve.y.begin() + first, curve.y.begin() + last));
  }
  return out;
}

class Charts {
 public:
  explicit Charts(const Run& run) : run_(run), epochs_(has_epochs(run)) {}

  NamedChart chart(const char* file, const std::string& caption, const char* y_label) const {
    LineChart chart;
    chart.x_label = epochs_ ? "epoch" : "step";
    chart.y_label = y_label;
    chart.legend = Legend::kAbove;
    chart.width = 480;  // small, so that the letters can be read on a phone
    chart.height = 310;
    return {file, caption, chart};
  }

  void add(NamedChart& to, const char* title, const std::vector<Point>& points, Field field, double scale = 1) const {
    Curve curve{title, {}, {}};
    for (const auto& point : points) {
      curve.x.push_back(epochs_ ? point.epoch : static_cast<double>(point.step));
      curve.y.push_back(scale * (point.*field));
    }
    if (std::none_of(curve.y.begin(), curve.y.end(), [](double y) { return std::isfinite(y); })) return;
    curve.marked = curve.x.size() < kFewPoints;
    to.chart.curves.push_back(thinned(std::move(curve)));
  }

  NamedChart loss() const {
    auto out = chart("curves-loss", "Loss: training, mean over the steps between two lines of the log, and validation.",
                     "loss");
    add(out, "training", run_.training, &Point::loss);
    add(out, "validation", run_.validation, &Point::loss);
    out.chart.y_log = spans_widely(out.chart);
    return out;
  }

  NamedChart accuracy() const {
    auto out = chart(
        "curves-accuracy",
        "Share of images whose class comes first (P@1) or among the first five (R@5), in training and validation.",
        "%");
    add(out, "P@1 train", run_.training, &Point::precision_at_1, 100);
    add(out, "P@1 val", run_.validation, &Point::precision_at_1, 100);
    add(out, "R@5 val", run_.validation, &Point::recall_at_5, 100);
    out.chart.y_min = 0;
    out.chart.y_max = 100;
    return out;
  }

  NamedChart learning_rate() const {
    auto out = chart("curves-learning-rate", "Learning rate.", "learning rate");
    add(out, "learning rate", run_.training, &Point::lr);
    out.chart.y_min = 0;
    return out;
  }

 private:
  static bool spans_widely(const LineChart& chart) {
    double least = INFINITY;
    double most = 0;
    for (const auto& curve : chart.curves) {
      for (const double y : curve.y) {
        if (!std::isfinite(y)) continue;
        least = std::min(least, y);
        most = std::max(most, y);
      }
    }
    return least > 0 && most > kWideSpan * least;
  }

  const Run& run_;
  bool epochs_;
};

struct CsvColumn {
  const char* name;
  bool of_validation;
  Field field;
};

constexpr std::array kColumns{
    CsvColumn{"train_loss", false, &Point::loss},
    CsvColumn{"train_precision_at_1", false, &Point::precision_at_1},
    CsvColumn{"train_recall_at_5", false, &Point::recall_at_5},
    CsvColumn{"lr", false, &Point::lr},
    CsvColumn{"images_per_second", false, &Point::images_per_second},
    CsvColumn{"gradient_norm", false, &Point::gradient_norm},
    CsvColumn{"validation_loss", true, &Point::loss},
    CsvColumn{"validation_precision_at_1", true, &Point::precision_at_1},
    CsvColumn{"validation_recall_at_5", true, &Point::recall_at_5},
};

std::string csv_number(double value) { return std::isfinite(value) ? fmt::format("{:.9g}", value) : ""; }

}  // namespace

std::vector<NamedChart> charts_of(const Run& run) {
  const Charts charts(run);
  std::vector<NamedChart> out;
  for (auto& chart : {charts.loss(), charts.accuracy(), charts.learning_rate()}) {
    if (has_points(chart.chart)) out.push_back(chart);
  }
  return out;
}

std::string csv_of(const Run& run) {
  std::map<int64_t, std::pair<const Point*, const Point*>> rows;
  for (const auto& point : run.training) rows[point.step].first = &point;
  for (const auto& point : run.validation) rows[point.step].second = &point;
  std::string out = "step,epoch";
  for (const auto& column : kColumns) out += fmt::format(",{}", column.name);
  out += "\n";
  for (const auto& [step, row] : rows) {
    out += fmt::format("{},{}", step, csv_number((row.first != nullptr ? row.first : row.second)->epoch));
    for (const auto& column : kColumns) {
      const Point* const point = column.of_validation ? row.second : row.first;
      out += "," + (point == nullptr ? "" : csv_number(point->*column.field));
    }
    out += "\n";
  }
  return out;
}

}  // namespace frn::report
