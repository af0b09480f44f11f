#include "frn/report/run.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "frn/core/error.h"
#include "frn/core/run_log.h"

namespace frn::report {
namespace {

using nlohmann::json;

constexpr const char* kOperation = "report";

double number_in(const json& line, const char* key) {
  const auto found = line.find(key);
  return found == line.end() || !found->is_number() ? kMissing : found->get<double>();
}

std::string text_in(const json& line, const char* key) {
  const auto found = line.find(key);
  return found == line.end() || !found->is_string() ? "" : found->get<std::string>();
}

std::optional<int64_t> step_in(const json& line) {
  const double step = number_in(line, "step");
  // Beyond 2^53 a double is no exact step, and the conversion could be undefined.
  if (!(std::abs(step) < 9e15)) return std::nullopt;
  return static_cast<int64_t>(step);
}

Point point_of(const json& line) {
  return {step_in(line).value_or(0),
          number_in(line, "epoch"),
          number_in(line, "loss"),
          number_in(line, "precision_at_1"),
          number_in(line, "recall_at_5"),
          number_in(line, "lr"),
          number_in(line, "images_per_second"),
          number_in(line, "gradient_norm"),
          number_in(line, "samples")};
}

std::vector<Layer> layers_of(const json& line) {
  std::vector<Layer> layers;
  const auto found = line.find("layers");
  if (found == line.end() || !found->is_array()) return layers;
  for (const auto& layer : *found) {
    if (!layer.is_object()) continue;
    layers.push_back({text_in(layer, "name"), number_in(layer, "scale"), number_in(layer, "clipped")});
  }
  return layers;
}

// A JSON value as a person would write it: no quotes around a text, no more digits than a float has.
std::string shown(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return fmt::format("{:.7g}", value.get<double>());
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string details_of(const json& line) {
  std::string out;
  for (const auto& [key, value] : line.items()) {
    if (key == "event" || key == "step" || value.is_structured()) continue;
    out += (out.empty() ? "" : ", ") + key + " " + shown(value);
  }
  return out;
}

void add_line(Run& run, const json& line) {
  const auto event = text_in(line, "event");
  if (event == "train") {
    run.training.push_back(point_of(line));
  } else if (event == "validation") {
    run.validation.push_back(point_of(line));
  } else if (event == "layers") {
    run.layers = layers_of(line);
    run.layers_step = step_in(line).value_or(0);
  } else {
    run.incidents.push_back({event, step_in(line), details_of(line)});
    // A run that was stopped ends as well, until it is resumed.
    if (event == "end")
      run.state = text_in(line, "status") == "interrupted" ? RunState::kUnfinished : RunState::kFinished;
    if (event == "diverged") run.state = RunState::kDiverged;
    if (event == "start" || event == "resume") run.state = RunState::kUnfinished;
  }
}

void flatten(const json& value, const std::string& name, Properties& out) {
  if (!value.is_object()) {
    out.emplace_back(name, shown(value));
    return;
  }
  const std::string prefix = name.empty() ? "" : name + ".";
  for (const auto& [key, child] : value.items()) flatten(child, prefix + key, out);
}

Properties read_metrics(const std::filesystem::path& path) {
  Properties out;
  if (!std::filesystem::exists(path)) return out;
  std::ifstream file(path, std::ios::binary);
  const auto metrics = json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!metrics.is_object()) {
    throw Error(kOperation, path.string() + ": it must be a JSON object but is not; delete it or run frn eval again");
  }
  flatten(metrics, "", out);
  return out;
}

// One setting as the file has it, but a text without its quotes.
std::string shown(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  std::ostringstream out;
  if (const auto* array = node.as_array()) {
    for (const auto& element : *array) out << (out.tellp() == 0 ? "" : ", ") << shown(element);
  } else {
    node.visit([&](const auto& value) { out << value; });
  }
  return out.str();
}

Properties read_config(const std::filesystem::path& path) {
  Properties out;
  if (!std::filesystem::exists(path)) return out;
  try {
    const auto table = toml::parse_file(path.string());
    std::map<std::pair<size_t, size_t>, std::pair<std::string, std::string>> in_file_order;
    for (const auto& [key, node] : table) {
      const auto place = node.source().begin;
      in_file_order[{place.line, place.column}] = {std::string(key.str()), shown(node)};
    }
    for (auto& [place, entry] : in_file_order) out.push_back(std::move(entry));
  } catch (const toml::parse_error& error) {
    throw Error(kOperation, fmt::format("{}: line {} is not TOML: {}", path.string(), error.source().begin.line,
                                        error.description()));
  }
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
  for (const auto& line : RunLog::read(log)) add_line(run, line);
  run.config = read_config(folder / "config.toml");
  run.metrics = read_metrics(folder / "metrics.json");
  return run;
}

std::string value_of(const Properties& properties, const std::string& key) {
  for (const auto& [name, value] : properties) {
    if (name == key) return value;
  }
  return "";
}

const Point* best_validation(const Run& run) {
  const Point* best = nullptr;
  for (const auto& point : run.validation) {
    if (std::isnan(point.precision_at_1)) continue;
    if (best == nullptr || point.precision_at_1 > best->precision_at_1) best = &point;
  }
  return best;
}

}  // namespace frn::report
