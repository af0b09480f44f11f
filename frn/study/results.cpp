#include "frn/study/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "frn/core/text.h"
#include "frn/core/value.h"
#include "frn/core/whole_file.h"

namespace frn::study {
namespace {

double number_in(const Value& object, const char* key) {
  const auto* const found = object.find(key);
  return found == nullptr ? kMissing : found->number().value_or(kMissing);
}

// Null when there is none, or it is damaged.
Value read_json(const std::filesystem::path& path) {
  try {
    return parse_json(contents_of(path));
  } catch (const ValueError&) {
    return nullptr;
  }
}

std::string first_line(const std::filesystem::path& path) {
  const auto text = contents_of(path);
  return one_line(text.substr(0, text.find('\n')));
}

// Those of training with "train." before them.
void read_values(const Value& metrics, const char* part, const std::string& prefix, CellResult& result) {
  const auto* const found = metrics.find(part);
  if (found == nullptr || found->table() == nullptr) return;
  for (const auto& [key, value] : *found->table()) {
    if (value.number()) result.values[prefix + key] = *value.number();
  }
}

void read_metrics(const Value& metrics, CellResult& result) {
  const double step = number_in(metrics, "step");
  result.step = step >= 0 && step < 9e15 ? static_cast<int64_t>(step) : 0;
  const double seconds = number_in(metrics, "seconds");
  result.seconds = std::isfinite(seconds) ? seconds : 0;
  const auto* const message = metrics.find("message");
  if (message != nullptr && message->text() != nullptr) result.message = one_line(*message->text());
  result.metrics = metrics_in(metrics);
  read_values(metrics, "validation", "", result);
  read_values(metrics, "train", "train.", result);
  const auto* const validation = metrics.find("validation");
  if (validation != nullptr) result.samples = number_in(*validation, "samples");
  // Runs of earlier versions took a line of their log, which may be a few batches, and do not say how many images.
  constexpr double kImagesOfALine = 64;
  const auto* const train = metrics.find("train");
  const double samples = train == nullptr ? kMissing : number_in(*train, "samples");
  result.train_samples = samples > 0 ? samples : kImagesOfALine;
}

CellState state_of(const Value& metrics, const CellResult& result) {
  const auto* const found = metrics.find("status");
  const std::string status = found != nullptr && found->text() != nullptr ? *found->text() : "";
  if (status == "finished") return CellState::kFinished;
  if (status == "diverged") return CellState::kDiverged;
  const auto limit = plain_value(result.cell.settings, "max_steps");
  const bool stopped = !limit.empty() && limit != "0" && result.step > 0 && std::to_string(result.step) == limit;
  return stopped ? CellState::kStopped : CellState::kUnfinished;
}

// The cell whose training the cell is by construction, when that was begun and the cell has no folder of its own.
std::string training_of(const Folder& folder, const Record& record, const std::string& cell) {
  const auto found = record.same_as.find(cell);
  if (found == record.same_as.end() || folder.has_cell(cell) || !folder.has_cell(found->second)) return "";
  return found->second;
}

// Whether a list names the key.
bool has(std::span<const Metric> metrics, std::string_view key) {
  return std::any_of(metrics.begin(), metrics.end(), [&](const Metric& metric) { return metric.key == key; });
}

// What the first cell that knows the key says of it; cells of one study have one task.
Metric metric_of_cells(const std::vector<CellResult>& cells, std::string_view key) {
  for (const auto& cell : cells) {
    if (has(cell.metrics, key)) return find_metric(cell.metrics, key);
  }
  return find_metric(classification_metrics(), key);
}

Metric resolved(const NamedMetric& metric, const std::vector<CellResult>& cells) {
  auto out = metric_of_cells(cells, key_in_log(metric.key));
  if (metric.kind && *metric.kind != out.kind) {
    out.kind = *metric.kind;
    out.higher_is_better = out.kind != MetricKind::kLoss;
  }
  out.key = metric.key;
  out.title = metric.title;
  out.higher_is_better = metric.higher_is_better.value_or(out.higher_is_better);
  return out;
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

}  // namespace

std::string state_text(const CellResult& result) {
  switch (result.state) {
    case CellState::kMissing:
      return "not run";
    case CellState::kUnfinished:
      return result.step > 0 ? fmt::format("unfinished (step {})", result.step) : "unfinished";
    case CellState::kStopped:
      return fmt::format("stopped at step {}", result.step);
    case CellState::kFailed:
      return "failed";
    case CellState::kDiverged:
      return "diverged";
    case CellState::kFinished:
      return "finished";
  }
  return "";
}

CellResult read_cell(const Folder& folder, const Cell& cell, const std::string& same_as) {
  CellResult result;
  result.cell = cell;
  result.same_as = same_as;
  const auto& name = result.trained_as();
  const auto path = folder.cell(name);
  const auto metrics = read_json(path / "metrics.json");
  if (metrics.table() != nullptr) {
    read_metrics(metrics, result);
    result.state = state_of(metrics, result);
  } else if (std::filesystem::exists(path / "config.toml")) {
    result.state = CellState::kUnfinished;
  }
  if (std::filesystem::exists(folder.failure(name)) && result.state != CellState::kFinished) {
    result.state = CellState::kFailed;
    result.message = first_line(folder.failure(name));
  }
  if (!same_as.empty()) result.seconds = 0;  // times add up to what was spent
  return result;
}

std::vector<const CellResult*> Results::at(size_t row, size_t column) const {
  std::vector<const CellResult*> out;
  for (const auto& result : cells) {
    if (result.cell.row == row && result.cell.column == column) out.push_back(&result);
  }
  return out;
}

Metric Results::metric(const std::string& key) const {
  return has(metrics, key) ? find_metric(metrics, key) : resolved({key, key}, cells);
}

size_t Results::count(CellState state) const {
  return static_cast<size_t>(
      std::count_if(cells.begin(), cells.end(), [&](const CellResult& cell) { return cell.state == state; }));
}

size_t Results::count_same() const {
  return static_cast<size_t>(
      std::count_if(cells.begin(), cells.end(), [](const CellResult& cell) { return !cell.same_as.empty(); }));
}

Results read_results(const Folder& folder) {
  auto record = folder.read_record();
  Results out{at_scale(folder.read_definition(), record.scale), std::move(record), {}, {}};
  const auto& scale = out.study.scale(out.record.scale);
  for (const auto& cell : cells_of(out.study, scale, out.record.seeds, out.record.given)) {
    const auto same_as = training_of(folder, out.record, cell.name);
    // Every cell of the table counts, run or not; further seeds of it only when they were asked for.
    const bool counts = cell.seed == 0 || out.record.asked.contains(cell.name);
    if (!counts && same_as.empty() && !folder.has_cell(cell.name)) continue;
    out.cells.push_back(read_cell(folder, cell, same_as));
  }
  for (const auto& metric : out.study.metrics) out.metrics.push_back(resolved(metric, out.cells));
  return out;
}

bool is_papers_scale(const Results& results) { return results.record.scale == "paper"; }

std::string seeds_text(const Results& results) {
  std::map<std::pair<size_t, size_t>, int64_t> seeds;
  for (const auto& result : results.cells) ++seeds[{result.cell.row, result.cell.column}];
  int64_t least = std::numeric_limits<int64_t>::max();
  int64_t most = 0;
  for (const auto& [cell, count] : seeds) {
    least = std::min(least, count);
    most = std::max(most, count);
  }
  if (least < most) return fmt::format("{} to {} seeds", least, most);
  return fmt::format("{} seed{}", most, most == 1 ? "" : "s");
}

CellSummary summarise(const Results& results, const std::string& metric, size_t row, size_t column) {
  CellSummary out{.metric = results.metric(metric)};
  for (const auto* result : results.at(row, column)) {
    ++out.seeds;
    out.trained_as.push_back(result->trained_as());
    out.same_as_another = !result->same_as.empty() && (out.seeds == 1 || out.same_as_another);
    const auto value = result->values.find(metric);
    if (result->state == CellState::kDiverged)
      ++out.diverged;
    else if (result->state == CellState::kFailed)
      ++out.failed;
    else if (result->state != CellState::kFinished || value == result->values.end())
      ++out.open;
    else {
      out.values.push_back(shown_number(out.metric, value->second));
      out.seeds_of_values.push_back(result->cell.seed);
      const double samples = is_of_training(metric) ? result->train_samples : result->samples;
      if (!(out.samples <= samples)) out.samples = samples;
    }
  }
  if (out.values.empty()) return out;
  out.mean = mean_of(out.values);
  if (out.values.size() < 2) return out;
  double sum = 0;
  for (const double value : out.values) sum += (value - out.mean) * (value - out.mean);
  out.deviation = std::sqrt(sum / static_cast<double>(out.values.size() - 1));
  return out;
}

std::string number_text(const Metric& metric, double number) {
  return metric.kind == MetricKind::kShare ? fmt::format("{:.2f}", number) : shown(metric, number);
}

std::string signed_text(const Metric& metric, double number) {
  switch (metric.kind) {
    case MetricKind::kShare:
      return fmt::format("{:+.2f}", number);
    case MetricKind::kLoss:
      return fmt::format("{:+.4f}", number);
    default:
      return fmt::format("{:+.4g}", number);
  }
}

std::string summary_text(const CellSummary& summary) {
  std::string value;
  if (!summary.values.empty()) {
    value = number_text(summary.metric, summary.mean);
    if (summary.values.size() > 1) value += " ± " + number_text(summary.metric, summary.deviation);
  }
  std::string rest;
  const auto add = [&](size_t count, const char* word) {
    if (count == 0) return;
    rest += rest.empty() ? "" : ", ";
    rest += summary.seeds == 1 ? word : fmt::format("{} of {} {}", count, summary.seeds, word);
  };
  add(summary.diverged, "diverged");
  add(summary.failed, "failed");
  add(summary.open, "open");
  if (value.empty()) return rest.empty() || (summary.seeds == 1 && summary.open == 1) ? "–" : rest;
  return rest.empty() ? value : value + " (" + rest + ")";
}

}  // namespace frn::study
