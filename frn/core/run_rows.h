// The lines of a run's log that tell of its progress: the one place that knows their keys, for who writes them (train/)
// and who reads them (report/).
//
//   {"event":"train","step":12,"epoch":0.5,"loss":1.2,"precision_at_1":0.4,...,"lr":0.1,...,"samples":384}
//   {"event":"validation","step":24,"epoch":1,"loss":1.1,"precision_at_1":0.5,...,"samples":1000}
//   {"event":"layers","step":24,"layers":[{"name":"norm1","scale":0.8,"clipped":0.4},...]}
//
// What a task measures stands between the fixed keys, under its own names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "frn/core/metric.h"

namespace frn {

inline constexpr const char* kTrainEvent = "train";
inline constexpr const char* kValidationEvent = "validation";
inline constexpr const char* kLayersEvent = "layers";

// Numbers that a line does not have, or has as null (they were not finite), are NaN.
struct TrainRow {
  int64_t step = 0;
  double epoch = 0;
  NamedValues values{};  // over the steps since the row before: "loss", its parts where there are several, scores
  double lr = 0;
  double images_per_second = 0;  // with the wait for data
  double wait_share = 0;         // of the time, spent waiting for data
  double gradient_norm = 0;
  int64_t samples = 0;  // in those steps

  double operator[](std::string_view key) const { return value_of(values, key); }
};

struct ValidationRow {
  int64_t step = 0;
  double epoch = 0;
  NamedValues values{};
  int64_t samples = 0;

  double operator[](std::string_view key) const { return value_of(values, key); }
};

struct LayerState {
  std::string name;
  double scale = 0;               // the root of the mean square of its output
  std::optional<double> clipped;  // the share of units at the threshold, of a layer with ReLU or TLU
};

// Without "event", as metrics.json has them too.
Value to_value(const TrainRow& row);
Value to_value(const ValidationRow& row);
Value to_value(const std::vector<LayerState>& layers);

TrainRow train_row(const Value& line);
ValidationRow validation_row(const Value& line);
// What stands under "layers"; empty when nothing does.
std::vector<LayerState> layer_states(const Value& line);

}  // namespace frn
