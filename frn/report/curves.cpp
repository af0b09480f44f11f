#include "frn/report/curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <iterator>
#include <map>
#include <set>

#include "frn/report/csv.h"

namespace frn::report {
namespace {

constexpr size_t kMostShares = 3;  // curves of validation in one chart

// More points than a chart has pixels are noise and megabytes.
constexpr size_t kMostPoints = 600;
// A loss that spans more than this is that of a run that went wrong, and unreadable on a linear axis.
constexpr double kWideSpan = 1000;
// A chart takes a tenth of a second, and a log may name any number of metrics.
constexpr size_t kMostCharts = 24;

bool has_epochs(const Run& run) {
  const auto missing = [](const auto& row) { return std::isnan(row.epoch); };
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

// For a file: other letters than these mean something in some shell or file system.
std::string file_name_of(const std::string& key) {
  constexpr size_t kLongest = 60;
  std::string out = key.substr(0, kLongest);
  for (char& c : out) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
    if (!plain) c = '-';
  }
  return out;
}

// "P@1 and R@5", "AP, AP50 and AP75"
std::string listed(const std::vector<Metric>& metrics) {
  std::string out;
  for (size_t i = 0; i < metrics.size(); ++i) {
    out += i == 0 ? "" : i + 1 == metrics.size() ? " and " : ", ";
    out += metrics[i].title;
  }
  return out;
}

class Charts {
 public:
  explicit Charts(const Run& run) : run_(run), epochs_(has_epochs(run)) {}

  std::vector<NamedChart> all() const {
    std::vector<NamedChart> out;
    const auto take = [&](NamedChart chart) {
      if (!has_points(chart.chart)) return;
      const auto wanted = chart.file;
      for (int i = 2; is_taken(out, chart.file); ++i) chart.file = fmt::format("{}-{}", wanted, i);
      out.push_back(std::move(chart));
    };
    take(losses());
    take(shares());
    take(learning_rate());
    for (const auto& metric : run_.metrics) {
      if (out.size() == kMostCharts) break;
      if (metric.kind == MetricKind::kCount || metric.kind == MetricKind::kNumber) take(alone(metric));
    }
    return out;
  }

 private:
  static bool is_taken(const std::vector<NamedChart>& charts, const std::string& file) {
    return std::any_of(charts.begin(), charts.end(), [&](const auto& chart) { return chart.file == file; });
  }

  NamedChart chart(const std::string& file, const std::string& caption, const std::string& y_label) const {
    LineChart chart;
    chart.x_label = epochs_ ? "epoch" : "step";
    chart.y_label = y_label;
    chart.legend = Legend::kAbove;
    chart.width = 480;  // small, so that the letters can be read on a phone
    chart.height = 310;
    return {file, caption, chart};
  }

  template <typename Row, typename Number>
  void add(NamedChart& to, const std::string& title, const std::vector<Row>& rows, const Number& number_of) const {
    Curve curve{title, {}, {}};
    for (const auto& row : rows) {
      curve.x.push_back(epochs_ ? row.epoch : static_cast<double>(row.step));
      curve.y.push_back(number_of(row));
    }
    if (std::none_of(curve.y.begin(), curve.y.end(), [](double y) { return std::isfinite(y); })) return;
    curve.marked = curve.x.size() < kFewPoints;
    to.chart.curves.push_back(thinned(std::move(curve)));
  }

  template <typename Row>
  void add(NamedChart& to, const std::string& title, const std::vector<Row>& rows, const Metric& metric) const {
    add(to, title, rows, [&](const Row& row) { return shown_number(metric, row[metric.key]); });
  }

  // The parts of the loss under their own names: those of a line that are losses by their kind or their key.
  std::vector<Metric> parts_of_loss() const {
    std::vector<Metric> out;
    const auto look_at = [&](const auto& rows) {
      if (rows.empty()) return;
      for (const auto& [key, value] : rows.back().values) {
        const auto metric = find_metric(run_.metrics, key);
        if (key == "loss" || metric.kind != MetricKind::kLoss) continue;
        if (std::find(out.begin(), out.end(), metric) == out.end() && out.size() < kMostCharts) out.push_back(metric);
      }
    };
    look_at(run_.training);
    look_at(run_.validation);
    return out;
  }

  NamedChart losses() const {
    auto out = chart("curves-loss", "Loss: training, mean over the steps between two lines of the log, and validation.",
                     "loss");
    const auto loss = find_metric(run_.metrics, "loss");
    add(out, "training", run_.training, loss);
    add(out, "validation", run_.validation, loss);
    for (const auto& part : parts_of_loss()) {
      add(out, part.title + " train", run_.training, part);
      add(out, part.title + " val", run_.validation, part);
    }
    out.chart.y_log = spans_widely(out.chart);
    return out;
  }

  // The first ones, and in training the first alone: more curves could not be told apart. curves.csv has all.
  NamedChart shares() const {
    std::vector<Metric> metrics;
    std::copy_if(run_.metrics.begin(), run_.metrics.end(), std::back_inserter(metrics),
                 [](const Metric& metric) { return metric.kind == MetricKind::kShare; });
    if (metrics.size() > kMostShares) metrics.resize(kMostShares);
    auto out = chart("curves-accuracy", listed(metrics) + ", in training and validation.", "%");
    if (!metrics.empty()) add(out, metrics[0].title + " train", run_.training, metrics[0]);
    for (const auto& metric : metrics) add(out, metric.title + " val", run_.validation, metric);
    out.chart.y_min = 0;
    out.chart.y_max = 100;
    return out;
  }

  NamedChart alone(const Metric& metric) const {
    auto out =
        chart("curves-" + file_name_of(metric.key), metric.title + ", in training and validation.", metric.title);
    add(out, "training", run_.training, metric);
    add(out, "validation", run_.validation, metric);
    return out;
  }

  NamedChart learning_rate() const {
    auto out = chart("curves-learning-rate", "Learning rate.", "learning rate");
    add(out, "learning rate", run_.training, [](const TrainRow& row) { return row.lr; });
    out.chart.y_min = 0;
    return out;
  }

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

// The loss, the run's metrics and then what else the lines have, in the order in which it first occurs: a run that goes
// on keeps its columns.
template <typename Row>
std::vector<std::string> keys_of(const Run& run, const std::vector<Row>& rows) {
  std::vector<std::string> out;
  std::set<std::string> seen;
  const auto take = [&](const std::string& key) {
    if (seen.insert(key).second) out.push_back(key);
  };
  take("loss");
  for (const auto& metric : run.metrics) take(metric.key);
  for (const auto& row : rows) {
    for (const auto& value : row.values) take(value.key);
  }
  return out;
}

std::string csv_number(double value) { return std::isfinite(value) ? fmt::format("{:.9g}", value) : ""; }

}  // namespace

std::vector<NamedChart> charts_of(const Run& run) { return Charts(run).all(); }

std::string csv_of(const Run& run) {
  std::map<int64_t, std::pair<const TrainRow*, const ValidationRow*>> rows;
  for (const auto& row : run.training) rows[row.step].first = &row;
  for (const auto& row : run.validation) rows[row.step].second = &row;
  const auto training_keys = keys_of(run, run.training);
  const auto validation_keys = keys_of(run, run.validation);
  std::string out = "step,epoch";
  for (const auto& key : training_keys) out += "," + csv_text("train_" + key);
  out += ",lr,images_per_second,gradient_norm";
  for (const auto& key : validation_keys) out += "," + csv_text("validation_" + key);
  out += "\n";
  static const TrainRow no_training{.lr = kMissing, .images_per_second = kMissing, .gradient_norm = kMissing};
  static const ValidationRow no_validation;
  for (const auto& [step, row] : rows) {
    const auto& training = row.first != nullptr ? *row.first : no_training;
    const auto& validation = row.second != nullptr ? *row.second : no_validation;
    out += fmt::format("{},{}", step, csv_number(row.first != nullptr ? training.epoch : validation.epoch));
    for (const auto& key : training_keys) out += "," + csv_number(training[key]);
    for (const double number : {training.lr, training.images_per_second, training.gradient_norm}) {
      out += "," + csv_number(number);
    }
    for (const auto& key : validation_keys) out += "," + csv_number(validation[key]);
    out += "\n";
  }
  return out;
}

}  // namespace frn::report
