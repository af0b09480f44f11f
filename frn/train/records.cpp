#include "frn/train/records.h"

#include "frn/core/whole_file.h"

namespace frn::train {
namespace {

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

Value to_value(const TrainRow& row) {
  return {{"step", row.step},
          {"epoch", row.epoch},
          {"loss", row.loss},
          {"precision_at_1", row.precision_at_1},
          {"recall_at_5", row.recall_at_5},
          {"lr", row.lr},
          {"images_per_second", row.images_per_second},
          {"wait_share", row.wait_share},
          {"gradient_norm", row.gradient_norm},
          {"samples", row.samples}};
}

Value to_value(const ValidationRow& row) {
  return {{"step", row.step},
          {"epoch", row.epoch},
          {"loss", row.loss},
          {"precision_at_1", row.precision_at_1},
          {"recall_at_5", row.recall_at_5},
          {"samples", row.samples}};
}

// Numbers that are not finite stand as null.
double number(const Value& line, const char* key) {
  const auto* const found = line.find(key);
  return found == nullptr ? kNotANumber : found->number().value_or(kNotANumber);
}

int64_t whole(const Value& line, const char* key) {
  const auto* const found = line.find(key);
  return found == nullptr || found->whole() == nullptr ? 0 : *found->whole();
}

TrainRow train_row(const Value& line) {
  return {.step = whole(line, "step"),
          .epoch = number(line, "epoch"),
          .loss = number(line, "loss"),
          .precision_at_1 = number(line, "precision_at_1"),
          .recall_at_5 = number(line, "recall_at_5"),
          .lr = number(line, "lr"),
          .images_per_second = number(line, "images_per_second"),
          .wait_share = number(line, "wait_share"),
          .gradient_norm = number(line, "gradient_norm"),
          .samples = whole(line, "samples")};
}

ValidationRow validation_row(const Value& line) {
  return {.step = whole(line, "step"),
          .epoch = number(line, "epoch"),
          .loss = number(line, "loss"),
          .precision_at_1 = number(line, "precision_at_1"),
          .recall_at_5 = number(line, "recall_at_5"),
          .samples = whole(line, "samples")};
}

std::optional<int64_t> resumed_after(int64_t first_step) {
  return first_step > 0 ? std::optional(first_step) : std::nullopt;
}

Value event(const char* name, const Value& line) {
  Value out{{"event", name}};
  for (const auto& [key, value] : line.as_table()) out[key] = value;
  return out;
}

}  // namespace

Records::Records(const RunFolder& folder, int64_t first_step, int64_t seed)
    : log_(folder.log()), events_(folder.path, resumed_after(first_step)) {
  log_.truncate_after(first_step);
  for (const auto& line : RunLog::read(folder.log())) {
    const auto* const name = line.find("event");
    if (name == nullptr) continue;
    if (*name == "train") remember(train_row(line));
    if (*name == "validation") remember(validation_row(line));
  }
  log_.append({{"event", first_step > 0 ? "resume" : "start"}, {"step", first_step}, {"seed", seed}});
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
  out.loss = out.precision_at_1 = out.recall_at_5 = 0;
  out.samples = 0;
  for (const auto& row : last_trained_) {
    const auto samples = static_cast<double>(row.samples);
    out.loss += row.loss * samples;
    out.precision_at_1 += row.precision_at_1 * samples;
    out.recall_at_5 += row.recall_at_5 * samples;
    out.samples += row.samples;
  }
  for (double* const sum : {&out.loss, &out.precision_at_1, &out.recall_at_5}) *sum /= static_cast<double>(out.samples);
  return out;
}

void Records::remember(const ValidationRow& row) {
  last_validation_ = row;
  if (!best_validation_ || row.precision_at_1 > best_validation_->precision_at_1) best_validation_ = row;
}

void Records::add(const TrainRow& row) {
  log_.append(event("train", to_value(row)));
  events_.scalar("train/loss", row.loss, row.step);
  events_.scalar("train/precision_at_1", row.precision_at_1, row.step);
  events_.scalar("train/recall_at_5", row.recall_at_5, row.step);
  events_.scalar("run/learning_rate", row.lr, row.step);
  events_.scalar("run/gradient_norm", row.gradient_norm, row.step);
  events_.scalar("run/images_per_second", row.images_per_second, row.step);
  events_.scalar("run/wait_share", row.wait_share, row.step);
  events_.flush();
  remember(row);
}

void Records::add(const ValidationRow& row) {
  log_.append(event("validation", to_value(row)));
  events_.scalar("validation/loss", row.loss, row.step);
  events_.scalar("validation/precision_at_1", row.precision_at_1, row.step);
  events_.scalar("validation/recall_at_5", row.recall_at_5, row.step);
  events_.flush();
  remember(row);
}

void Records::add(int64_t step, const std::vector<LayerState>& layers) {
  auto list = Value::empty_list();
  for (const auto& layer : layers) {
    list.push_back({{"name", layer.name},
                    {"scale", layer.scale},
                    {"clipped", layer.clipped ? Value(*layer.clipped) : Value(nullptr)}});
    events_.scalar("scale/" + layer.name, layer.scale, step);
    if (layer.clipped) events_.scalar("clipped/" + layer.name, *layer.clipped, step);
  }
  log_.append({{"event", "layers"}, {"step", step}, {"layers", std::move(list)}});
}

void Records::add_broken(int64_t step, const data::BrokenSample& sample) {
  log_.append({{"event", "broken_image"}, {"step", step}, {"name", sample.name}, {"reason", sample.reason}});
}

void Records::end(const Outcome& outcome, const std::filesystem::path& metrics) {
  Value out{{"status", status_name(outcome.status)}, {"step", outcome.step}, {"seconds", outcome.seconds}};
  if (outcome.train) out["train"] = to_value(*outcome.train);
  if (outcome.validation) out["validation"] = to_value(*outcome.validation);
  if (outcome.best) out["best"] = to_value(*outcome.best);
  if (!outcome.message.empty()) out["message"] = outcome.message;
  log_.append(event(outcome.status == Status::kDiverged ? "diverged" : "end", out));
  events_.flush();
  write_whole_file(metrics, to_json(out, 2) + "\n", "train");
}

}  // namespace frn::train
