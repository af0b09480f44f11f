// What a run directory tells, read from its files: log.jsonl, config.toml and metrics.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "frn/core/run_rows.h"

namespace frn::report {

inline constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

// Something other than progress: a resume, a broken image, a divergence.
struct Incident {
  std::string event;
  std::optional<int64_t> step;
  std::string details;  // the line's other fields, but not lists and objects
};

enum class RunState : uint8_t { kUnfinished, kFinished, kDiverged };

using Properties = std::vector<std::pair<std::string, std::string>>;

struct Run {
  std::string name;  // of the folder
  RunState state = RunState::kUnfinished;
  std::vector<Metric> metrics;     // what the run measures besides its loss; the first decides which validation is best
  std::vector<TrainRow> training;  // in the order of steps
  std::vector<ValidationRow> validation;
  std::vector<LayerState> layers;  // of the last line that tells of them
  int64_t layers_step = 0;
  std::vector<Incident> incidents;
  Properties config;        // empty without the file
  Properties last_metrics;  // of metrics.json, flattened: "validation.loss"; empty without the file
};

// Throws frn::Error when the folder has no log, or a file in it cannot be read. A run that is not finished is read as
// far as it is.
Run read_run(const std::filesystem::path& folder);

// The value of a key, or an empty text.
std::string value_of(const Properties& properties, const std::string& key);

// The validation that is the best by the run's first metric, the earliest of equals; none without one.
const ValidationRow* best_validation(const Run& run);

}  // namespace frn::report
