// What a run directory tells, read from its files: log.jsonl, config.toml and metrics.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace frn::report {

inline constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

// A line of the log: of training or of validation. What a line does not say, or says as null, is kMissing.
struct Point {
  int64_t step = 0;
  double epoch = kMissing;
  double loss = kMissing;
  double precision_at_1 = kMissing;  // fractions
  double recall_at_5 = kMissing;
  double lr = kMissing;
  double images_per_second = kMissing;
  double gradient_norm = kMissing;
  double samples = kMissing;
};

struct Layer {
  std::string name;
  double scale = kMissing;
  double clipped = kMissing;  // a fraction; a layer without a threshold has none
};

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
  std::vector<Point> training;  // in the order of steps
  std::vector<Point> validation;
  std::vector<Layer> layers;  // of the last line that tells of them
  int64_t layers_step = 0;
  std::vector<Incident> incidents;
  Properties config;   // empty without the file
  Properties metrics;  // flattened: "validation.loss"; empty without the file
};

// Throws frn::Error when the folder has no log, or a file in it cannot be read. A run that is not finished is read as
// far as it is.
Run read_run(const std::filesystem::path& folder);

// The value of a key, or an empty text.
std::string value_of(const Properties& properties, const std::string& key);

// The validation of the highest precision at 1, the earliest of equals; none without one.
const Point* best_validation(const Run& run);

}  // namespace frn::report
