#include "frn/train/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "frn/core/checksum.h"
#include "frn/core/error.h"
#include "frn/core/text.h"
#include "frn/core/value.h"
#include "frn/core/whole_file.h"

namespace frn::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kPartial = ".partial-";  // hidden, and never taken for a checkpoint
constexpr std::string_view kAverage = "ema.";
constexpr const char* kModelFile = "model.safetensors";
constexpr const char* kTrainerFile = "trainer.safetensors";
constexpr const char* kStateFile = "state.json";

[[noreturn]] void fail(const fs::path& path, const std::string& sentence) {
  throw Error("checkpoint", path.string() + ": " + sentence);
}

void read_numbers(const Value& from, std::array<float, 3>& to) {
  const auto& list = from.as_list();
  for (size_t i = 0; i < to.size() && i < list.size(); ++i) to[i] = static_cast<float>(list[i].as_number());
}

}  // namespace

Value set_value(const data::SetFacts& facts) {
  return {{"channels", facts.channels},
          {"image_size", facts.image_size},
          {"mean", Value::list_of(facts.mean)},
          {"deviation", Value::list_of(facts.deviation)}};
}

data::SetFacts set_from(const Value& from) {
  data::SetFacts facts;
  facts.channels = from.at("channels").as_whole();
  facts.image_size = from.at("image_size").as_whole();
  read_numbers(from.at("mean"), facts.mean);
  read_numbers(from.at("deviation"), facts.deviation);
  constexpr int64_t kMost = 1 << 16;
  for (const int64_t count : {facts.channels, facts.image_size}) {
    if (count < 0 || count > kMost)
      throw ValueError(fmt::format("channels and image_size must be from 0 to {}", kMost));
  }
  return facts;
}

namespace {

Value to_value(const Running& running) {
  auto sums = Value::empty_table();
  for (const auto& [key, value] : running.loss_sums) sums[key] = value;
  return {{"loss_sum", running.loss_sum},
          {"loss_sums", std::move(sums)},
          {"weight", running.weight},
          {"samples", running.samples},
          {"score", Value::list_of(running.score)}};
}

Value to_value(const TrainState& state) {
  return {{"step", state.step},
          {"seed", state.seed},
          {"samples", state.samples},
          {"batch_global", state.batch_global},
          {"classes", Value::list_of(state.classes)},
          {"set", state.facts ? set_value(*state.facts) : Value(nullptr)},
          {"seconds", state.seconds},
          {"running", to_value(state.running)}};
}

Running running_from(const Value& from) {
  Running out;
  out.loss_sum = from.at("loss_sum").as_number();
  out.samples = from.at("samples").as_whole();
  const auto* const weight = from.find("weight");
  if (weight == nullptr) {  // of versions before 0.3, which knew classification alone
    out.weight = static_cast<double>(out.samples);
    out.score = {out.weight, from.at("first").as_number(), from.at("first_five").as_number()};
    return out;
  }
  out.weight = weight->as_number();
  for (const auto& [key, value] : from.at("loss_sums").as_table()) out.loss_sums.push_back({key, value.as_number()});
  for (const auto& number : from.at("score").as_list()) out.score.push_back(number.as_number());
  return out;
}

TrainState state_from(const Value& from) {
  TrainState state;
  state.step = from.at("step").as_whole();
  state.seed = static_cast<uint64_t>(from.at("seed").as_whole());
  state.samples = from.at("samples").as_whole();
  state.batch_global = from.at("batch_global").as_whole();
  for (const auto& name : from.at("classes").as_list()) state.classes.push_back(name.as_text());
  const auto* const set = from.find("set");
  if (set != nullptr && !set->is_null()) state.facts = set_from(*set);
  state.seconds = from.at("seconds").as_number();
  state.running = running_from(from.at("running"));
  return state;
}

std::optional<int64_t> step_of(const fs::path& path) {
  const auto name = path.filename().string();
  if (!name.starts_with(kPrefix) || name.size() > kPrefix.size() + 18) return std::nullopt;
  const auto digits = name.substr(kPrefix.size());
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  return std::stoll(digits);
}

void write_files(const fs::path& folder, const Checkpoint& checkpoint) {
  write_weights(folder / kModelFile, checkpoint.model);
  NamedTensors trainer = checkpoint.optimizer;
  for (const auto& [name, tensor] : checkpoint.averages) trainer.emplace(std::string(kAverage) + name, tensor);
  write_weights(folder / kTrainerFile, trainer);
  auto state = to_value(checkpoint.state);
  for (const auto* file : {kModelFile, kTrainerFile}) state["checksums"][file] = checksum_of_file(folder / file);
  write_whole_file(folder / kStateFile, to_json(state, 2) + "\n", "checkpoint");
}

Value read_state_file(const fs::path& path) {
  std::ifstream file(path / kStateFile);
  if (!file) fail(path, std::string(kStateFile) + " cannot be read");
  try {
    auto state = parse_json(std::string(std::istreambuf_iterator<char>(file), {}));
    if (state.table() != nullptr) return state;
  } catch (const ValueError&) {
  }
  fail(path, std::string(kStateFile) + " is damaged: it is not a JSON object");
}

// The part of the tensors whose names start so, without that start.
}  // namespace

std::string to_text(const TrainState& state) { return to_json(to_value(state)); }

TrainState state_from_text(const std::string& text) {
  try {
    return state_from(parse_json(text));
  } catch (const ValueError& error) {
    throw Error("checkpoint", std::string("a state must be what to_text writes: ") + error.what());
  }
}

CheckpointFolder::CheckpointFolder(fs::path folder, int64_t kept) : folder_(std::move(folder)), kept_(kept) {}

fs::path CheckpointFolder::path_of(int64_t step) const {
  return folder_ / (std::string(kPrefix) + std::to_string(step));
}

std::vector<int64_t> CheckpointFolder::steps() const {
  std::vector<int64_t> steps;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    if (const auto step = step_of(entry.path())) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

void CheckpointFolder::remove_partial() const {
  std::error_code error;
  std::vector<fs::path> partial;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    if (entry.path().filename().string().starts_with(kPartial)) partial.push_back(entry.path());
  }
  for (const auto& path : partial) fs::remove_all(path, error);
}

// Renamed first: a kill in the middle must not leave a folder that looks like a checkpoint.
void CheckpointFolder::remove(int64_t step) const {
  std::error_code error;
  const auto doomed = folder_ / (std::string(kPartial) + "old-" + std::to_string(step));
  fs::rename(path_of(step), doomed, error);
  if (!error) fs::remove_all(doomed, error);
}

bool CheckpointFolder::is_whole(int64_t step) {
  if (whole_.contains(step)) return true;
  try {
    read(path_of(step));
  } catch (const std::exception&) {
    return false;
  }
  whole_.insert(step);
  return true;
}

void CheckpointFolder::remove_old() {
  int64_t whole = 0;
  auto all = steps();
  for (; !all.empty() && whole < kept_; all.pop_back()) whole += is_whole(all.back()) ? 1 : 0;
  for (const int64_t step : all) {
    remove(step);
    whole_.erase(step);
  }
}

fs::path CheckpointFolder::save(const Checkpoint& checkpoint) {
  auto place = path_of(checkpoint.state.step);
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) fail(folder_, "the folder cannot be made: " + error.message());
  remove_partial();
  const int64_t step = checkpoint.state.step;
  whole_.erase(step);  // looked at again: rare, and better than a damaged one that stays
  if (fs::exists(place) && is_whole(step)) return place;
  const auto beside = folder_ / (std::string(kPartial) + std::to_string(step));
  fs::create_directory(beside, error);
  if (error) fail(beside, "the folder cannot be made: " + error.message() + "; earlier checkpoints are untouched");
  try {
    write_files(beside, checkpoint);
    sync_folder(beside);
    if (fs::exists(place)) remove(step);  // damaged: this one is better
    fs::rename(beside, place);
    sync_folder(folder_);
    whole_.insert(step);
  } catch (const std::exception& failure) {
    fs::remove_all(beside, error);
    const auto all = steps();
    throw Error("checkpoint",
                fmt::format("step {} cannot be saved: {}; {}", step, failure.what(),
                            all.empty() ? "there is no earlier checkpoint"
                                        : fmt::format("step {} is untouched, --resume goes on from it", all.back())));
  }
  remove_old();
  return place;
}

Checkpoint CheckpointFolder::read(const fs::path& path) {
  const auto state = read_state_file(path);
  Checkpoint checkpoint;
  try {
    checkpoint.state = state_from(state);
    for (const auto* file : {kModelFile, kTrainerFile}) {
      if (!fs::is_regular_file(path / file)) fail(path, std::string(file) + " is missing");
      if (!has_checksum(path / file, state.at("checksums").at(file).as_text())) {
        fail(path, std::string(file) + " is damaged: its checksum does not match");
      }
    }
  } catch (const ValueError&) {
    fail(path, std::string(kStateFile) + " is damaged: entries are missing or of another type");
  }
  checkpoint.model = read_weights(path / kModelFile);
  const auto trainer = read_weights(path / kTrainerFile);
  for (const auto& [name, tensor] : trainer) {
    if (name.starts_with(kAverage)) {
      checkpoint.averages.emplace(name.substr(kAverage.size()), tensor);
    } else {
      checkpoint.optimizer.emplace(name, tensor);
    }
  }
  return checkpoint;
}

std::optional<CheckpointFolder::Found> CheckpointFolder::newest() {
  std::vector<std::string> damaged;
  // A trainer at work may replace one by a newer one while it is read: then the list is another.
  for (bool moved = true, first = true; moved; first = false) {
    moved = false;
    damaged.clear();
    auto all = steps();
    for (; !all.empty() && !moved; all.pop_back()) {
      const auto path = path_of(all.back());
      try {
        auto checkpoint = read(path);
        whole_.insert(all.back());
        return Found{std::move(checkpoint), path, std::move(damaged)};
      } catch (const Error& error) {
        whole_.erase(all.back());
        moved = !fs::exists(path) && first;
        damaged.emplace_back(error.what());
      }
    }
  }
  if (damaged.empty()) return std::nullopt;
  const std::vector<std::string_view> sentences(damaged.begin(), damaged.end());
  throw Error("checkpoint", "no checkpoint is whole: " + join(sentences, "; ") +
                                "; restore one, or remove the folder to start from step 0");
}

}  // namespace frn::train
