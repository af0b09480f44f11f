#include "frn/train/trainer.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>

#include "frn/core/error.h"
#include "frn/core/free_memory.h"
#include "frn/dist/device.h"
#include "frn/dist/environment.h"
#include "frn/train/classification.h"
#include "frn/train/loop.h"
#include "frn/train/memory_check.h"
#include "frn/train/run_folder.h"

namespace frn::train {
namespace {

// Sets ATen's threads while it lives; 0 leaves them as they are.
class Threads {
 public:
  explicit Threads(int64_t count) : before_(at::get_num_threads()) {
    if (count > 0) at::set_num_threads(static_cast<int>(count));
  }
  ~Threads() {
    if (at::get_num_threads() != before_) at::set_num_threads(before_);
  }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

const char* device_name(DeviceKind kind) { return kind == DeviceKind::kCuda ? "cuda" : "cpu"; }

// The given group, or the one that the environment names, on the device that the settings ask for.
std::shared_ptr<dist::Group> joined(std::shared_ptr<dist::Group> group, const TrainSettings& settings) {
  const auto place = dist::read_place();
  if (!group) {
    group = place.world == 1
                ? dist::make_single_group()
                : dist::make_group(place, std::chrono::milliseconds(static_cast<int64_t>(1000 * settings.timeout)));
  }
  const bool cuda = settings.device == DeviceKind::kCuda;
  if (cuda != group->device().is_cuda()) group->set_device(dist::choose_device(device_name(settings.device), place));
  return group;
}

// On rank 0. A process is a device, unless it is told to be several. A run that goes on keeps the devices that it has:
// with others it would be another training.
void settle_devices(TrainSettings& settings, int64_t world, const RunFolder& folder) {
  const bool fresh = !folder.holds_run();
  if (settings.devices == 1) settings.devices = fresh ? world : folder.read_config().devices;
  check_devices(settings, world, !fresh);
}

// On rank 0; else null.
std::unique_ptr<RunHold> hold_of(const RunFolder& folder, const dist::Group& group, const TrainerEvents& events) {
  if (!group.is_first()) return nullptr;
  auto hold = std::make_unique<RunHold>(folder);
  if (hold->weakness()) events.warned(*hold->weakness());
  return hold;
}

// The settings that a resumed run goes on with: another number of devices may be left out. Throws when one differs that
// would change what comes out.
TrainSettings resumed(const RunFolder& folder, const TrainSettings& wanted) {
  TrainConfig saved = folder.read_config();
  TrainConfig asked;
  static_cast<TrainSettings&>(asked) = wanted;
  if (asked.devices == 1) asked.devices = saved.devices;
  const auto before = settings_of(saved);
  const auto after = settings_of(asked);
  for (size_t i = 0; i < before.size(); ++i) {
    if (!is_general(before[i].key) || before[i].free_on_resume || before[i].get() == after[i].get()) continue;
    throw Error("train",
                fmt::format("{} holds a run with {} = {}, which a resumed run keeps, but {} was given; give the "
                            "same or another folder",
                            folder.path.string(), before[i].key, to_json(before[i].get()), to_json(after[i].get())));
  }
  return asked;
}

data::Pipeline usual_pipeline(const data::SetFacts& facts, bool training) {
  const auto augmentation = training ? facts.augmentation : data::Augmentation::kNone;
  return {.augmentation = augmentation,
          .colour = augmentation == data::Augmentation::kInception && facts.channels == 3,
          .size = facts.image_size,
          .channels = facts.channels,
          .mean = facts.mean,
          .deviation = facts.deviation};
}

void check_parts(const Task* task, const data::Dataset* training_set, const std::filesystem::path& out) {
  const auto must = [](bool holds, const char* what) {
    if (!holds) throw Error("train", std::string(what) + " must be given but is missing");
  };
  must(task != nullptr, "a task");
  must(training_set != nullptr, "a training set");
  must(!out.empty(), "options.out, the folder of the run,");
}

// A detector needs boxes, a classifier needs a class for the whole image.
void check_fits(const TrainConfig& config, const data::Dataset& set) {
  const bool detects = find_model(config.model).detects;
  if (detects && config.evaluation_crop > 0) {
    throw Error("train", fmt::format("evaluation_crop must be 0 for {}, whose boxes are scored in whole images, but is "
                                     "{}; leave --evaluation-crop out",
                                     config.model, config.evaluation_crop));
  }
  if (detects == set.has_boxes()) return;
  throw Error("train", detects
                           ? fmt::format("{} finds boxes, but {} has none; give --data coco:DIR, voc:DIR or shapes, "
                                         "or another --model",
                                         config.model, config.data)
                           : fmt::format("{} names the class of an image, but {} has boxes; give a detector, such "
                                         "as --model retinanet-r18, or other --data",
                                         config.model, config.data));
}

// What of a set's files is not learned: the run goes on, but nobody shall wonder.
void tell_problems(const data::Dataset& set, const std::string& name, const TrainerEvents& events) {
  const auto problems = set.problems();
  const auto left_out = std::count_if(problems.begin(), problems.end(), [](const auto& one) { return one.left_out; });
  if (left_out == 0) return;
  const auto first = std::find_if(problems.begin(), problems.end(), [](const auto& one) { return one.left_out; });
  events.warned(
      fmt::format("{} of the training set's annotations {} left out, the first: {}: {}; frn data check {} "
                  "names all",
                  left_out, left_out == 1 ? "is" : "are", first->name, first->reason, name));
}

void check_image_size(const TrainConfig& config, const Model& model, int64_t size) {
  if (model.row().detects && model.options().detector.style == detection::Style::kPaper &&
      size % detection::kCoarsestStride != 0) {
    throw Error("train", fmt::format("image_size must be a multiple of {} for {} but is {}", detection::kCoarsestStride,
                                     config.model, size));
  }
  if (size >= model.smallest_input()) return;
  throw Error("train",
              fmt::format("image_size must be at least {} for {} but is {}; give --image-size or another model",
                          model.smallest_input(), config.model, size));
}

}  // namespace

std::string_view status_name(Status status) {
  return status == Status::kFinished ? "finished" : status == Status::kDiverged ? "diverged" : "interrupted";
}

const std::atomic<bool>& never() {
  static const std::atomic<bool> never{false};
  return never;
}

Trainer::Trainer(Network network, std::shared_ptr<const Task> task, std::shared_ptr<const data::Dataset> training_set,
                 std::shared_ptr<const data::Dataset> validation_set, TrainerOptions options)
    : network_(std::move(network)),
      task_(std::move(task)),
      training_set_(std::move(training_set)),
      validation_set_(std::move(validation_set)),
      options_(std::move(options)) {
  check_parts(task_.get(), training_set_.get(), options_.out);
  check(static_cast<const TrainSettings&>(options_));
}

Outcome Trainer::run(const std::atomic<bool>& stop) {
  const auto group = joined(options_.group, options_);
  const Threads threads(options_.threads);
  const RunFolder folder{options_.out};
  const auto hold = hold_of(folder, *group, options_.events);
  TrainConfig agreed;
  TrainSettings& settings = agreed;
  settings = options_;
  if (hold) {
    if (!hold->fresh()) settings = resumed(folder, settings);
    settle_devices(settings, group->world(), folder);
  }
  if (group->world() > 1) read_toml_text(agreed, group->broadcast_text(to_toml(settings)), "rank 0's settings");
  arrange(network_.module(), settings);
  const auto& facts = training_set_->facts();
  Loop loop(
      {.folder = folder,
       .config_text = fmt::format("# A run of a program's own Trainer; task: {}\n{}", task_->name(), to_toml(settings)),
       .network = network_,
       .task = task_,
       .training_set = training_set_,
       .validation_set = validation_set_,
       .training_pipeline = options_.training_pipeline.value_or(usual_pipeline(facts, true)),
       .validation_pipeline = options_.validation_pipeline.value_or(usual_pipeline(facts, false)),
       .data_name = "the training set",
       .load_weights = nullptr,
       .settings = settings,
       .events = options_.events,
       .group = group,
       .optimizer = options_.make_optimizer ? options_.make_optimizer(network_.module()) : nullptr});
  return loop.run(stop, hold.get());
}

Outcome train(const RunFolder& folder, const TrainConfig& asked, const TrainerEvents& events,
              const std::atomic<bool>& stop, std::shared_ptr<dist::Group> group) {
  auto config = asked;
  check(config);
  group = joined(std::move(group), config);
  if (group->is_first()) settle_devices(config, group->world(), folder);
  if (group->world() > 1) config.devices = std::stoll(group->broadcast_text(std::to_string(config.devices)));
  const Threads threads(config.threads);
  const auto hold = hold_of(folder, *group, events);
  const auto data = data::parse_data_name(config.data);
  const auto training_set = data::open_dataset(data, data::Split::kTrain);
  const auto validation_set = data::open_dataset(data, data::Split::kValidation);
  const auto& facts = training_set->facts();
  check_fits(config, *training_set);
  if (group->is_first()) tell_problems(*training_set, config.data, events);
  const auto model = make_model(config, static_cast<int64_t>(training_set->classes().size()), facts);
  check_image_size(config, *model, evaluation_pipeline(config, facts).size);
  if (config.device == DeviceKind::kCpu) {
    check_memory(*model, config, training_pipeline(config, facts).size, group->world(), free_memory());
  }
  Loop loop({.folder = folder,
             .config_text = to_toml(config),
             .network = model,
             .task = make_task(config, *model, *training_set),
             .training_set = training_set,
             .validation_set = validation_set,
             .training_pipeline = training_pipeline(config, facts),
             .validation_pipeline = evaluation_pipeline(config, facts),
             .data_name = config.data,
             .load_weights = [&] { load_start(*model, config); },
             .settings = config,
             .events = events,
             .group = group,
             .optimizer = nullptr});
  return loop.run(stop, hold.get());
}

}  // namespace frn::train
