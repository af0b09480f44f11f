#include "frn/train/run_folder.h"

#include <algorithm>

#include "frn/core/error.h"
#include "frn/core/random.h"
#include "frn/core/whole_file.h"
#include "frn/nn/layers.h"
#include "frn/nn/norm_act.h"
#include "frn/nn/weights.h"
#include "frn/train/classification.h"
#include "frn/train/detection.h"
#include "frn/train/hub_folder.h"
#include "frn/train/own_random_numbers.h"
#include "frn/train/run_hold.h"

namespace frn::train {
namespace {

// Beside a run that has not begun: a study's files about its cell, and what a killed start left.
bool may_be_there(const std::string& name) {
  return name == "cell.toml" || name == "output.txt" || name == "failure.txt" || name == kRunLock ||
         is_partial_file(name);
}

detection::DetectOptions detect_options(const TrainConfig& config) {
  auto options = detection::detect_options_of(config.style);
  options.least_score = config.score_threshold.value_or(options.least_score);
  options.overlap = config.nms_threshold.value_or(options.overlap);
  options.most = config.detections_per_image.value_or(options.most);
  return options;
}

// Of a file, or of the newest checkpoint of a run: its moving average where there is one.
NamedTensors weights_of(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) return read_weights(path);
  const RunFolder folder{path};
  const auto found = CheckpointFolder(folder.checkpoints()).newest();
  if (!found) throw Error("train", path.string() + " has no checkpoint to take a backbone from");
  return found->checkpoint.averages.empty() ? found->checkpoint.model : found->checkpoint.averages;
}

// A classifier's weights but those of its last layer.
void load_backbone(Model& model, const std::filesystem::path& path) {
  NamedTensors tensors;
  for (const auto& [name, tensor] : weights_of(path)) {
    if (!name.starts_with("fc.")) tensors["backbone.body." + name] = tensor;
  }
  const auto report = load_state(model, tensors, LoadMode::kPartial);
  std::string wrong;
  const auto note = [&](const std::vector<std::string>& names, const char* what) {
    for (const auto& name : names) {
      if (wrong.empty() && name.starts_with("backbone.body.")) wrong = name + " " + what;
    }
  };
  note(report.missing, "is not among them");
  note(report.unexpected, "has no place in it");
  note(report.misfits, "does not fit");
  if (!wrong.empty()) {
    throw Error("train", path.string() + " must hold the weights of the backbone of " + std::string(model.row().name) +
                             " with its norm, but " + wrong);
  }
}

}  // namespace

bool RunFolder::holds_run() const { return std::filesystem::exists(config()); }

void RunFolder::check_free() const {
  if (holds_run()) {
    throw Error("train", path.string() + " holds a run already; --resume goes on with it, another --out starts anew");
  }
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_directory(status)) {
    throw Error("train", path.string() + " must be a folder but is a file; give another --out");
  }
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    if (may_be_there(entry.path().filename().string())) continue;
    throw Error("train", path.string() + " must be empty or a new folder but holds " +
                             entry.path().filename().string() + " and no run (no config.toml); give another --out");
  }
}

void RunFolder::start(const TrainConfig& config) const {
  check_free();
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw Error("train", "cannot make the folder " + path.string() + ": " + error.message());
  write_whole_file(this->config(), to_toml(config), "train");
}

TrainConfig RunFolder::read_config() const {
  if (!holds_run()) {
    throw Error("run", path.string() + " holds no run: there is no config.toml; frn train --out makes one");
  }
  TrainConfig config;
  read_toml(config, this->config());
  return config;
}

TrainConfig applied_to_defaults(const std::function<void(TrainConfig&)>& apply) {
  TrainConfig config;
  apply(config);
  if (!find_model(config.model).detects) return config;
  config = detector_defaults(config.optimizer);
  apply(config);
  return config;
}

TrainConfig with_settings_of_weights(TrainConfig config) {
  if (config.weights.empty()) return config;
  const auto metadata = read_metadata(config.weights);
  const auto standardised = metadata.find("frn.weights_standardised");
  if (standardised != metadata.end()) {
    const auto spec = WeightSpec::parse(config.weights_standardised);
    const auto theirs = WeightSpec::parse(standardised->second);
    const bool named = spec.form != WeightForm::kOff && (spec.form != theirs.form || spec.eps != WeightSpec::kEps);
    if (!named) config.weights_standardised = theirs.to_string();
  }
  const auto found = metadata.find("frn.norm");
  if (found == metadata.end()) return config;
  const auto spec = NormActSpec::parse(config.norm);
  const auto theirs = NormActSpec::parse(found->second);
  if (&spec.norm() != &theirs.norm() || spec.has("eps") || !theirs.has("eps") || !theirs.number("eps")) return config;
  config.norm = spec.with_eps(*theirs.number("eps")).to_string();
  return config;
}

data::Pipeline training_pipeline(const TrainConfig& config, const data::SetFacts& facts) {
  auto pipeline = evaluation_pipeline(config, facts);
  pipeline.crop = 0;
  pipeline.augmentation = config.augmentation.value_or(facts.augmentation);
  const bool inception = pipeline.augmentation == data::Augmentation::kInception;
  pipeline.colour = facts.channels == 3 && config.colour.value_or(inception);
  return pipeline;
}

data::Pipeline evaluation_pipeline(const TrainConfig& config, const data::SetFacts& facts) {
  return {.augmentation = data::Augmentation::kNone,
          .colour = false,
          .size = config.image_size.value_or(facts.image_size),
          .crop = config.evaluation_crop,
          .channels = facts.channels,
          .mean = facts.mean,
          .deviation = facts.deviation};
}

int64_t images_to_evaluate_at_once(const TrainSettings& settings, int64_t processes) {
  constexpr int64_t kFewest = 16;
  constexpr int64_t kMost = 100;
  if (settings.images_at_once > 0) return std::min(kMost, settings.images_at_once);
  return std::clamp(settings.batch_per_device * settings.devices / processes, kFewest, kMost);
}

void arrange(torch::nn::Module& network, const TrainSettings& settings) {
  if (settings.channels_last()) set_memory_format(network, at::MemoryFormat::ChannelsLast);
  set_computes_again(network, settings.memory == Memory::kLeast  ? ComputeAgain::kAll
                              : settings.memory == Memory::kFast ? ComputeAgain::kNone
                                                                 : ComputeAgain::kCheap);
}

std::shared_ptr<Model> make_model(const TrainConfig& config, int64_t classes, const data::SetFacts& facts) {
  const OwnRandomNumbers random(RandomKey(static_cast<uint64_t>(config.seed)).value(), at::kCPU);
  auto model = frn::make_model(config.model, {.norm = NormActSpec::parse(config.norm),
                                              .classes = classes,
                                              .input_channels = facts.channels,
                                              .dropout = config.dropout,
                                              .weights_standardised = WeightSpec::parse(config.weights_standardised),
                                              .detector = {.style = config.style,
                                                           .image_size = config.image_size.value_or(facts.image_size),
                                                           .he_initialisation = config.he_initialisation}});
  arrange(*model, config);
  return model;
}

std::shared_ptr<const Task> make_task(const TrainConfig& config, const Model& model,
                                      const std::vector<std::string>& classes, const std::vector<int64_t>& class_ids) {
  if (model.row().detects) {
    return std::make_shared<Detection>(DetectionOptions{.classes = classes,
                                                        .class_ids = class_ids,
                                                        .style = config.style,
                                                        .normaliser = config.loss_normaliser,
                                                        .drop_crowd = config.drop_crowd,
                                                        .detect = detect_options(config)});
  }
  return std::make_shared<Classification>(ClassificationOptions{
      .classes = classes, .label_smoothing = config.label_smoothing, .auxiliary_weight = model.row().auxiliary_weight});
}

std::shared_ptr<const Task> make_task(const TrainConfig& config, const Model& model, const data::Dataset& set) {
  return make_task(config, model, set.classes(), set.class_ids());
}

void load_start(Model& model, const TrainConfig& config) {
  if (!config.weights.empty()) {
    load_state(model, read_weights(config.weights));
  } else if (!config.backbone.empty()) {
    load_backbone(model, config.backbone);
  }
}

TrainedModel open_trained(const RunFolder& folder, Weights weights) {
  if (!folder.holds_run() && is_hub_folder(folder.path)) return open_hub_folder(folder.path, weights);
  TrainedModel trained;
  trained.config = folder.read_config();
  const auto found = CheckpointFolder(folder.checkpoints()).newest();
  if (!found) throw Error("run", folder.path.string() + " has no checkpoint yet; train it first");
  const auto& checkpoint = found->checkpoint;
  if (weights == Weights::kAveraged && checkpoint.averages.empty()) {
    throw Error("run", folder.path.string() + " keeps no moving average; it was trained with ema_decay 0");
  }
  trained.averaged = weights != Weights::kPlain && !checkpoint.averages.empty();
  trained.classes = checkpoint.state.classes;
  trained.step = checkpoint.state.step;
  trained.checkpoint = found->path;
  trained.damaged = found->damaged;
  // Checkpoints of earlier versions do not tell: sets were as is usual for their kind.
  const auto usual = [&] { return data::parse_data_name(trained.config.data).kind->usual; };
  trained.facts = checkpoint.state.facts ? *checkpoint.state.facts : usual();
  trained.model = make_model(trained.config, static_cast<int64_t>(trained.classes.size()), trained.facts);
  trained.task = make_task(trained.config, *trained.model, trained.classes);
  load_state(*trained.model, trained.averaged ? checkpoint.averages : checkpoint.model);
  trained.model->eval();
  return trained;
}

}  // namespace frn::train
