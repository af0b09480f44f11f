#include "frn/core/metric.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>

namespace frn {
namespace {

constexpr std::array<std::pair<std::string_view, MetricKind>, 4> kKinds{{{"share", MetricKind::kShare},
                                                                         {"loss", MetricKind::kLoss},
                                                                         {"count", MetricKind::kCount},
                                                                         {"number", MetricKind::kNumber}}};

std::string_view kind_name(MetricKind kind) {
  for (const auto& [name, known] : kKinds) {
    if (known == kind) return name;
  }
  return "number";
}

MetricKind kind_from(std::string_view text) {
  for (const auto& [name, kind] : kKinds) {
    if (name == text) return kind;
  }
  return MetricKind::kNumber;
}

std::string text_in(const Value& table, std::string_view key) {
  const auto* const found = table.find(key);
  return found == nullptr || found->text() == nullptr ? "" : *found->text();
}

}  // namespace

double value_of(std::span<const NamedValue> values, std::string_view key) {
  for (const auto& value : values) {
    if (value.key == key) return value.value;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

std::span<const Metric> classification_metrics() {
  static const std::array<Metric, 2> metrics{Metric{"precision_at_1", "P@1", MetricKind::kShare, true},
                                             Metric{"recall_at_5", "R@5", MetricKind::kShare, true}};
  return metrics;
}

Metric find_metric(std::span<const Metric> metrics, std::string_view key) {
  for (const auto& metric : metrics) {
    if (metric.key == key) return metric;
  }
  const bool is_loss = key == "loss" || key.ends_with("_loss");
  return {std::string(key), std::string(key), is_loss ? MetricKind::kLoss : MetricKind::kNumber, !is_loss};
}

bool is_better(const Metric& metric, double a, double b) {
  if (std::isnan(a)) return false;
  if (std::isnan(b)) return true;
  return metric.higher_is_better ? a > b : a < b;
}

double shown_number(const Metric& metric, double value) {
  return metric.kind == MetricKind::kShare ? 100 * value : value;
}

std::string_view unit(const Metric& metric) { return metric.kind == MetricKind::kShare ? "%" : ""; }

std::string shown(const Metric& metric, double value) {
  if (!std::isfinite(value)) return "–";
  switch (metric.kind) {
    case MetricKind::kShare:
      return fmt::format("{:.2f} %", 100 * value);
    case MetricKind::kLoss:
      return fmt::format("{:.4f}", value);
    case MetricKind::kCount:
      return value == std::floor(value) && std::abs(value) < 1e15 ? fmt::format("{:.0f}", value)
                                                                  : fmt::format("{:.2f}", value);
    case MetricKind::kNumber:
      break;
  }
  return fmt::format("{:.4g}", value);
}

Value to_value(std::span<const Metric> metrics) {
  auto list = Value::empty_list();
  for (const auto& metric : metrics) {
    list.push_back({{"key", metric.key},
                    {"title", metric.title},
                    {"kind", kind_name(metric.kind)},
                    {"better", metric.higher_is_better ? "higher" : "lower"}});
  }
  return list;
}

std::vector<Metric> metrics_in(const Value& table) {
  const auto* const found = table.find("metrics");
  if (found == nullptr || found->list() == nullptr) {
    const auto known = classification_metrics();
    return {known.begin(), known.end()};
  }
  std::vector<Metric> out;
  for (const auto& entry : *found->list()) {
    const auto key = text_in(entry, "key");
    if (key.empty()) continue;
    const auto title = text_in(entry, "title");
    out.push_back(
        {key, title.empty() ? key : title, kind_from(text_in(entry, "kind")), text_in(entry, "better") != "lower"});
  }
  return out;
}

}  // namespace frn
