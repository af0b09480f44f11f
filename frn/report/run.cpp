#include "frn/report/run.h"

#include <fmt/format.h>

#include <cmath>

#include "frn/core/error.h"
#include "frn/core/run_log.h"
#include "frn/core/text.h"
#include "frn/core/value.h"
#include "frn/core/whole_file.h"
#include "frn/study/plain_texts.h"

namespace frn::report {
namespace {

constexpr const char* kOperation = "report";

double number_in(const Value& line, const char* key) {
  const auto* const found = line.find(key);
  return found == nullptr ? kMissing : found->number().value_or(kMissing);
}

std::string text_in(const Value& line, const char* key) {
  const auto* const found = line.find(key);
  return found == nullptr || found->text() == nullptr ? "" : *found->text();
}

std::optional<int64_t> step_in(const Value& line) {
  const double step = number_in(line, "step");
  // Beyond 2^53 a double is no exact step, and the conversion could be undefined.
  if (!(std::abs(step) < 9e15)) return std::nullopt;
  return static_cast<int64_t>(step);
}

// A value as a person would write it: no quotes around a text, no more digits than a float has.
std::string shown(const Value& value) {
  if (value.text() != nullptr) return *value.text();
  if (value.number() && value.whole() == nullptr) return fmt::format("{:.7g}", *value.number());
  return to_json(value);
}

std::string details_of(const Value& line) {
  std::string out;
  for (const auto& [key, value] : line.as_table()) {
    if (key == "event" || key == "step" || value.list() != nullptr || value.table() != nullptr) continue;
    out += (out.empty() ? "" : ", ") + key + " " + shown(value);
  }
  return out;
}

void add_line(Run& run, const Value& line) {
  const auto event = text_in(line, "event");
  if (event == kTrainEvent) {
    run.training.push_back(train_row(line));
  } else if (event == kValidationEvent) {
    run.validation.push_back(validation_row(line));
  } else if (event == kLayersEvent) {
    run.layers = layer_states(line);
    run.layers_step = step_in(line).value_or(0);
  } else {
    run.incidents.push_back({event, step_in(line), details_of(line)});
    // A run that was stopped ends as well, until it is resumed.
    if (event == "end")
      run.state = text_in(line, "status") == "interrupted" ? RunState::kUnfinished : RunState::kFinished;
    if (event == "diverged") run.state = RunState::kDiverged;
    if (event == "start" || event == "resume") {
      run.state = RunState::kUnfinished;
      if (line.find("metrics") != nullptr) run.metrics = metrics_in(line);
    }
  }
}

void flatten(const Value& value, const std::string& name, Properties& out) {
  if (value.table() == nullptr) {
    out.emplace_back(name, shown(value));
    return;
  }
  const std::string prefix = name.empty() ? "" : name + ".";
  for (const auto& [key, child] : *value.table()) flatten(child, prefix + key, out);
}

Properties read_metrics(const std::filesystem::path& path) {
  Properties out;
  if (!std::filesystem::exists(path)) return out;
  try {
    auto metrics = parse_json(contents_of(path));
    metrics.as_table();
    metrics.erase("metrics");  // it says what the numbers are
    flatten(metrics, "", out);
  } catch (const ValueError&) {
    throw Error(kOperation, path.string() + ": it must be a JSON object but is not; delete it or run frn eval again");
  }
  return out;
}

// One setting as the file has it, but a text without its quotes.
std::string shown_setting(const Value& value) {
  if (value.number() && value.whole() == nullptr) return fmt::format("{}", *value.number());
  if (value.list() == nullptr) return shown(value);
  std::string out;
  for (const auto& element : *value.list()) out += (out.empty() ? "" : ", ") + shown_setting(element);
  return out;
}

Properties read_config(const std::filesystem::path& path) {
  Properties out;
  if (!std::filesystem::exists(path)) return out;
  const auto settings = parse_toml_of(path.string(), contents_of(path), kOperation);
  for (const auto& [key, value] : settings.as_table()) out.emplace_back(key, shown_setting(value));
  return out;
}

}  // namespace

Run read_run(const std::filesystem::path& folder) {
  const auto log = folder / "log.jsonl";
  if (!std::filesystem::is_directory(folder)) {
    throw Error(kOperation, folder.string() + " must be the folder of a run but is not one");
  }
  if (!std::filesystem::exists(log)) {
    throw Error(kOperation,
                folder.string() + " must be the folder of a run but has no log.jsonl; frn train writes one");
  }
  Run run;
  run.name = std::filesystem::weakly_canonical(folder / ".").filename().string();
  if (has_control_characters(run.name)) {
    throw Error(kOperation, "the name of a run's folder must be one line of plain text but is '" + one_line(run.name) +
                                "' with a line break or another control character; rename the folder");
  }
  run.metrics = metrics_in(nullptr);
  for (const auto& line : RunLog::read(log)) add_line(run, line);
  run.config = read_config(folder / "config.toml");
  run.last_metrics = read_metrics(folder / "metrics.json");
  return run;
}

std::string value_of(const Properties& properties, const std::string& key) {
  for (const auto& [name, value] : properties) {
    if (name == key) return value;
  }
  return "";
}

const ValidationRow* best_validation(const Run& run) {
  if (run.metrics.empty()) return nullptr;
  const auto& metric = run.metrics.front();
  const ValidationRow* best = nullptr;
  for (const auto& row : run.validation) {
    if (is_better(metric, row[metric.key], best == nullptr ? kMissing : (*best)[metric.key])) best = &row;
  }
  return best;
}

}  // namespace frn::report
