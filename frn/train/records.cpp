#include "frn/train/records.h"

#include "frn/core/whole_file.h"

namespace frn::train {
namespace {

constexpr const char* kBrokenEvent = "broken_image";

std::optional<int64_t> resumed_after(int64_t first_step) {
  return first_step > 0 ? std::optional(first_step) : std::nullopt;
}

Value event(const char* name, const Value& line) {
  Value out{{"event", name}};
  for (const auto& [key, value] : line.as_table()) out[key] = value;
  return out;
}

}  // namespace

Records::Records(const RunFolder& folder, int64_t first_step, int64_t seed, std::vector<Metric> metrics)
    : metrics_(std::move(metrics)), log_(folder.log()), events_(folder.path, resumed_after(first_step)) {
  log_.truncate_after(first_step);
  for (const auto& line : RunLog::read(folder.log())) {
    const auto* const name = line.find("event");
    if (name == nullptr) continue;
    if (*name == kTrainEvent) remember(train_row(line));
    if (*name == kValidationEvent) remember(validation_row(line));
    if (*name == kBrokenEvent) remember_broken(line);
  }
  log_.append({{"event", first_step > 0 ? "resume" : "start"},
               {"step", first_step},
               {"seed", seed},
               {"metrics", to_value(metrics_)}});
}

void Records::remember(const TrainRow& row) {
  last_trained_.push_back(row);
  int64_t samples = 0;
  for (const auto& kept : last_trained_) samples += kept.samples;
  while (samples - last_trained_.front().samples >= kImagesAtTheEnd) {
    samples -= last_trained_.front().samples;
    last_trained_.pop_front();
  }
}

std::optional<TrainRow> Records::train_at_the_end() const {
  if (last_trained_.empty()) return std::nullopt;
  auto out = last_trained_.back();
  if (last_trained_.size() == 1) return out;
  out.samples = 0;
  for (const auto& row : last_trained_) out.samples += row.samples;
  for (auto& value : out.values) {
    value.value = 0;
    for (const auto& row : last_trained_) value.value += row[value.key] * static_cast<double>(row.samples);
    value.value /= static_cast<double>(out.samples);
  }
  return out;
}

void Records::remember(const ValidationRow& row) {
  last_validation_ = row;
  const auto metric = metrics_.empty() ? find_metric({}, "loss") : metrics_.front();
  if (!best_validation_ || is_better(metric, row[metric.key], (*best_validation_)[metric.key])) best_validation_ = row;
}

void Records::add_scalars(const std::string& group, const NamedValues& values, int64_t step) {
  for (const auto& [key, value] : values) events_.scalar(group + key, value, step);
}

void Records::add(const TrainRow& row) {
  log_.append(event(kTrainEvent, to_value(row)));
  add_scalars("train/", row.values, row.step);
  events_.scalar("run/learning_rate", row.lr, row.step);
  events_.scalar("run/gradient_norm", row.gradient_norm, row.step);
  events_.scalar("run/images_per_second", row.images_per_second, row.step);
  events_.scalar("run/wait_share", row.wait_share, row.step);
  events_.flush();
  remember(row);
}

void Records::add(const ValidationRow& row) {
  log_.append(event(kValidationEvent, to_value(row)));
  add_scalars("validation/", row.values, row.step);
  events_.flush();
  remember(row);
}

void Records::add(int64_t step, const std::vector<LayerState>& layers) {
  for (const auto& layer : layers) {
    events_.scalar("scale/" + layer.name, layer.scale, step);
    if (layer.clipped) events_.scalar("clipped/" + layer.name, *layer.clipped, step);
  }
  log_.append({{"event", kLayersEvent}, {"step", step}, {"layers", to_value(layers)}});
}

void Records::add_broken(int64_t step, const data::BrokenSample& sample, data::Split split) {
  Value line{{"event", kBrokenEvent}, {"step", step}, {"name", sample.name}, {"reason", sample.reason}};
  if (split == data::Split::kValidation) line["set"] = kValidationEvent;
  log_.append(line);
}

void Records::remember_broken(const Value& line) {
  const auto* const name = line.find("name");
  const auto* const reason = line.find("reason");
  if (name == nullptr || reason == nullptr || line.find("set") != nullptr) return;
  known_broken_.push_back({name->as_text(), reason->as_text()});
}

void Records::end(const Outcome& outcome, const std::filesystem::path& metrics) {
  Value out{{"status", status_name(outcome.status)}, {"step", outcome.step}, {"seconds", outcome.seconds}};
  if (outcome.train) out["train"] = to_value(*outcome.train);
  if (outcome.validation) out["validation"] = to_value(*outcome.validation);
  if (outcome.best) out["best"] = to_value(*outcome.best);
  if (!outcome.message.empty()) out["message"] = outcome.message;
  log_.append(event(outcome.status == Status::kDiverged ? "diverged" : "end", out));
  events_.flush();
  out["metrics"] = to_value(metrics_);
  write_whole_file(metrics, to_json(out, 2) + "\n", "train");
}

}  // namespace frn::train
