#include "frn/core/run_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace frn {
namespace {

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

// Everything else that is a number belongs to the task.
constexpr std::array<std::string_view, 8> kFixedKeys{"event",      "step",          "epoch",  "lr", "images_per_second",
                                                     "wait_share", "gradient_norm", "samples"};

double number_in(const Value& line, std::string_view key) {
  const auto* const found = line.find(key);
  return found == nullptr ? kNotANumber : found->number().value_or(kNotANumber);
}

int64_t whole_in(const Value& line, std::string_view key) {
  const double number = number_in(line, key);
  // Beyond 2^53 a double is no exact count, and the conversion could be undefined.
  return std::abs(number) < 9e15 ? static_cast<int64_t>(number) : 0;
}

NamedValues values_in(const Value& line) {
  NamedValues out;
  if (line.table() == nullptr) return out;
  for (const auto& [key, value] : *line.table()) {
    if (std::find(kFixedKeys.begin(), kFixedKeys.end(), key) != kFixedKeys.end()) continue;
    if (value.is_null() || value.number()) out.push_back({key, value.number().value_or(kNotANumber)});
  }
  return out;
}

void add(Value& to, const NamedValues& values) {
  for (const auto& [key, value] : values) to[key] = value;
}

}  // namespace

Value to_value(const TrainRow& row) {
  Value out{{"step", row.step}, {"epoch", row.epoch}};
  add(out, row.values);
  out["lr"] = row.lr;
  out["images_per_second"] = row.images_per_second;
  out["wait_share"] = row.wait_share;
  out["gradient_norm"] = row.gradient_norm;
  out["samples"] = row.samples;
  return out;
}

Value to_value(const ValidationRow& row) {
  Value out{{"step", row.step}, {"epoch", row.epoch}};
  add(out, row.values);
  out["samples"] = row.samples;
  return out;
}

Value to_value(const std::vector<LayerState>& layers) {
  auto list = Value::empty_list();
  for (const auto& layer : layers) {
    list.push_back({{"name", layer.name},
                    {"scale", layer.scale},
                    {"clipped", layer.clipped ? Value(*layer.clipped) : Value(nullptr)}});
  }
  return list;
}

TrainRow train_row(const Value& line) {
  return {.step = whole_in(line, "step"),
          .epoch = number_in(line, "epoch"),
          .values = values_in(line),
          .lr = number_in(line, "lr"),
          .images_per_second = number_in(line, "images_per_second"),
          .wait_share = number_in(line, "wait_share"),
          .gradient_norm = number_in(line, "gradient_norm"),
          .samples = whole_in(line, "samples")};
}

ValidationRow validation_row(const Value& line) {
  return {.step = whole_in(line, "step"),
          .epoch = number_in(line, "epoch"),
          .values = values_in(line),
          .samples = whole_in(line, "samples")};
}

std::vector<LayerState> layer_states(const Value& line) {
  std::vector<LayerState> out;
  const auto* const found = line.find("layers");
  if (found == nullptr || found->list() == nullptr) return out;
  for (const auto& layer : *found->list()) {
    if (layer.table() == nullptr) continue;
    const auto* const name = layer.find("name");
    const double clipped = number_in(layer, "clipped");
    out.push_back({name == nullptr || name->text() == nullptr ? "" : *name->text(), number_in(layer, "scale"),
                   std::isnan(clipped) ? std::nullopt : std::optional(clipped)});
  }
  return out;
}

}  // namespace frn
