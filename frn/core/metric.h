// What a measured number is: its key in files, its title for people, how it is shown, and which way is better. A task
// names its metrics; logs, reports and studies carry them and know none by itself.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frn/core/value.h"

namespace frn {

enum class MetricKind {
  kShare,   // from 0 to 1, shown in per cent
  kLoss,    // shown with four decimals
  kCount,   // a whole number, or a mean of whole numbers
  kNumber,  // anything else
};

struct Metric {
  std::string key;    // "precision_at_1"
  std::string title;  // "P@1"
  MetricKind kind = MetricKind::kNumber;
  bool higher_is_better = true;

  bool operator==(const Metric&) const = default;
};

struct NamedValue {
  std::string key;
  double value = 0;

  bool operator==(const NamedValue&) const = default;
};
using NamedValues = std::vector<NamedValue>;

// The value of a key; not a number when there is none.
double value_of(std::span<const NamedValue> values, std::string_view key);

// Precision@1 and Recall@5: what files of versions before 0.3, which name no metrics, hold.
std::span<const Metric> classification_metrics();

// The metric with this key; of one that is not listed what its key tells: a loss when it is "loss" or ends in "_loss",
// else a number.
Metric find_metric(std::span<const Metric> metrics, std::string_view key);

// Whether a is the better of two values; one that is not a number never is, and any number is better than that.
bool is_better(const Metric& metric, double a, double b);

// What charts and tables show: shares times 100, others as they are.
double shown_number(const Metric& metric, double value);
// The unit of that number: "%" for shares, else an empty text.
std::string_view unit(const Metric& metric);
// For a person: "84.02 %", "0.4530", "17", "3.142"; "–" when it is not finite.
std::string shown(const Metric& metric, double value);

// As a list under "metrics" in a run's log (its first line) and metrics.json.
Value to_value(std::span<const Metric> metrics);
// The list under "metrics" of such a table; classification_metrics() when there is none. An entry that is not one is
// left out.
std::vector<Metric> metrics_in(const Value& table);

}  // namespace frn
