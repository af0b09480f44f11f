// frn train: a network from data, resumable at any moment. The path: data -> models -> task (losses, score) ->
// train/step
// -> train/checkpoint; frn report draws what it leaves.
#include <fmt/format.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <optional>

#include "frn/cli/commands.h"
#include "frn/cli/exit.h"
#include "frn/cli/launch.h"
#include "frn/cli/progress.h"
#include "frn/cli/stop_signals.h"
#include "frn/cli/threads.h"
#include "frn/cli/train_options.h"
#include "frn/core/error.h"
#include "frn/core/text.h"
#include "frn/dist/device.h"
#include "frn/dist/environment.h"
#include "frn/train/trainer.h"

namespace frn::cli {
namespace {

using train::Outcome;
using train::RunFolder;
using train::Status;
using train::TrainConfig;

constexpr const char* kStopping =
    "\nfrn: stopping after this step with a checkpoint; once more to stop at once, without one\n";

constexpr size_t kMostMetrics = 4;  // on a line of progress

const char* schedule_name(train::Decay decay) {
  return decay == train::Decay::kCosine ? "cosine" : decay == train::Decay::kStep ? "step" : "constant";
}

struct TrainCommandOptions {
  TrainOptions settings;
  std::string out;
  bool resume = false;
  int64_t processes = 1;
};

// What the run prints while it goes.
class Display {
 public:
  explicit Display(const TrainConfig& config) : config_(config) {}

  train::TrainerEvents events() {
    return {.planned = [this](const train::RunPlan& plan) { planned(plan); },
            .stepped = [this](int64_t step) { progress_->show(step, state_); },
            .trained = [this](const TrainRow& row) { trained(row); },
            .validated = [this](const ValidationRow& row) { validated(row); },
            .warned = [this](const std::string& sentence) { warned(sentence); }};
  }
  const std::vector<Metric>& metrics() const { return metrics_; }

 private:
  void planned(const train::RunPlan& plan) {
    steps_ = plan.steps;
    metrics_ = plan.metrics;
    training_metrics_ = plan.training_metrics;
    say(fmt::format("{}, {}: {:.2f} M parameters; {}: {} training, {} validation images, {} classes\n", config_.model,
                    config_.norm, static_cast<double>(plan.parameters) / 1e6, config_.data, plan.samples,
                    plan.validation_samples, plan.classes));
    say(fmt::format(
        "{} images per device x {} device{}{} = {} per step; {} steps ({:.1f} epochs), lr_peak {:.4g}, {}\n",
        config_.batch_per_device, config_.devices, config_.devices == 1 ? "" : "s",
        config_.accumulate > 1 ? fmt::format(" x {} accumulated", config_.accumulate) : "", config_.batch_global(),
        plan.steps, static_cast<double>(plan.steps) / static_cast<double>(plan.batches_per_epoch),
        plan.schedule.lr_peak, schedule_name(config_.schedule)));
    if (plan.first_step > 0) say(fmt::format("going on after step {}\n", plan.first_step));
    progress_.emplace("step", plan.first_step, plan.steps);
  }

  // "loss 0.453  P@1 84.0 %", in widths that stay the same from line to line.
  static std::string values_text(const NamedValues& values, const std::vector<Metric>& metrics, size_t most) {
    auto out = fmt::format("loss {:.3f}", value_of(values, "loss"));
    for (size_t i = 0; i < metrics.size() && i < most; ++i) {
      if (metrics[i].key == "loss") continue;
      out += fmt::format("  {} {:>7}", metrics[i].title, shown(metrics[i], value_of(values, metrics[i].key)));
    }
    return out;
  }

  void trained(const TrainRow& row) {
    training_ = values_text(row.values, training_metrics_, 1);
    speed_ = row.images_per_second;
    state_ = fmt::format("{}  {:.0f} images/s", training_, speed_);
  }

  void validated(const ValidationRow& row) {
    progress_->line(fmt::format("epoch {:5.1f}  step {:>{}}  {}  {:6.0f} images/s | validation: {}  {} left", row.epoch,
                                row.step, std::to_string(steps_).size(), training_, speed_,
                                values_text(row.values, metrics_, kMostMetrics),
                                clock_text(progress_->seconds_left(row.step))));
  }

  void warned(const std::string& sentence) {
    if (progress_) {
      progress_->warn(sentence);
    } else {
      fmt::print(stderr, "frn: {}\n", sentence);
    }
  }

  const TrainConfig& config_;
  std::optional<Progress> progress_;
  std::vector<Metric> metrics_, training_metrics_;
  std::string training_;  // what the last line of training said
  double speed_ = 0;
  int64_t steps_ = 0;
  std::string state_;
};

// A row for the last validation, the best one and training, a column for each metric and the loss.
void print_results(const Outcome& outcome, const std::vector<Metric>& metrics) {
  const auto row = [&](const char* name, const auto& values, const std::string& remark = "") {
    fmt::print("{:<16}{:>10}", name, values.step);
    for (const auto& metric : metrics) {
      if (metric.key != "loss") fmt::print("{:>11}", shown(metric, values[metric.key]));
    }
    fmt::print("{:>10.4f}{}\n", values["loss"], remark);
  };
  fmt::print("\n{:<16}{:>10}", "", "step");
  for (const auto& metric : metrics) {
    if (metric.key != "loss") fmt::print("{:>11}", metric.title);
  }
  fmt::print("{:>10}\n", "loss");
  row("validation", *outcome.validation);
  if (outcome.best && outcome.best->step != outcome.validation->step) row("best", *outcome.best);
  // A detector is not scored on what it trains on.
  const bool comparable = outcome.train && std::isfinite((*outcome.train)[metrics.front().key]);
  if (comparable) row("training", *outcome.train, fmt::format("  (the last {} images)", outcome.train->samples));
}

void print_end(const RunFolder& folder, const Outcome& outcome, const std::vector<Metric>& metrics) {
  if (outcome.validation) print_results(outcome, metrics);
  fmt::print("\n{} after {} of training; the run is in {}\n", train::status_name(outcome.status),
             clock_text(outcome.seconds), folder.path.string());
}

// For the command that goes on with the run.
std::string started_by_launcher() {
  const char* const count = std::getenv(kProcessesVariable);
  return count == nullptr ? "" : fmt::format(" --processes {}", count);
}

// Rank 0's part: settings that are checked, in a folder that holds them. torchrun's restarts resume by themselves.
TrainConfig open_folder(const TrainCommandOptions& options, const Given& given, const RunFolder& folder,
                        const dist::Place& place) {
  if (options.resume || place.restarts > 0) {
    if (folder.holds_run()) return options.settings.resolve_resumed(folder.read_config(), given);
    if (options.resume) {
      throw Error("train", options.out + " holds no run to resume: there is no config.toml; leave --resume out");
    }
  }
  auto config = train::with_settings_of_weights(options.settings.resolve(given));
  // A process is a device, unless it is told to be several.
  if (config.devices == 1) config.devices = place.world;
  folder.check_free();  // it is made when data and model are there
  return config;
}

// What is wrong is said once, not by every rank.
void check_before_launch(const TrainCommandOptions& options, const Given& given) {
  dist::Place place;
  place.world = options.processes;
  const auto config = open_folder(options, given, RunFolder{options.out}, place);
  train::check_devices(config, options.processes, options.resume);
}

void run(const TrainCommandOptions& options, const Given& given) {
  if (options.processes > 1) {
    check_before_launch(options, given);
    throw Exit{launch_processes(options.processes,
                                {.advice = "--resume goes on from the newest checkpoint", .notice = kStopping})};
  }
  const RunFolder folder{options.out};
  const auto place = dist::read_place();
  const auto group = place.world == 1 ? dist::make_single_group()
                                      : dist::make_group(place, std::chrono::milliseconds(static_cast<int64_t>(
                                                                    1000 * options.settings.timeout(given))));
  TrainConfig config;
  if (group->is_first()) config = open_folder(options, given, folder, place);
  if (group->world() > 1) {
    const auto text = group->broadcast_text(train::to_toml(config));
    if (!group->is_first()) train::read_toml_text(config, text, "rank 0's settings");
  }
  group->set_device(dist::choose_device(config.device == train::DeviceKind::kCuda ? "cuda" : "cpu", place));
  // Without the option the processor's threads are shared by the processes of this machine.
  if (config.threads > 0) set_threads(static_cast<int>(config.threads));
  // Ranks leave it to who started them to end them at once.
  catch_stop_signals(group->world() == 1 ? SecondRequest::kEndsAtOnce : SecondRequest::kIsCounted,
                     group->world() == 1 ? kStopping : nullptr);
  Display display(config);
  const auto outcome = train::train(folder, config, display.events(), stop_requested(), group);
  if (!group->is_first()) throw Exit{outcome.status == Status::kDiverged ? kExitDiverged : 0};
  if (outcome.status == Status::kDiverged) {
    fmt::print(stderr, "frn: [train] {}\n", outcome.message);
    throw Exit{kExitDiverged};
  }
  print_end(folder, outcome, display.metrics());
  if (outcome.status == Status::kInterrupted) {
    fmt::print("frn train --resume --out {}{} goes on after step {}\n", shell_word(folder.path.string()),
               started_by_launcher(), outcome.step);
    if (config.max_steps > 0 && outcome.step >= config.max_steps) return;
    throw Exit{kExitSignal + (stop_requested() ? stop_signal() : SIGTERM)};  // or another rank was asked
  }
}

}  // namespace

Command train_command() {
  auto options = std::make_shared<TrainCommandOptions>();
  Command out{.name = "train",
              .help = "Train a network",
              .run = [options](const Given& given) { run(*options, given); },
              .ending = R"(Examples:
  frn train --out runs/a
      A small network on the built-in images, in minutes.
  frn train --out runs/b --model resnetv2-20 --norm frn+tlu --data cifar10:DIR \
      --batch-per-device 16 --devices 8 --epochs 30 --lr-base 0.4
      CIFAR-10, 8 x 16 images per step; `frn data get cifar10 DIR` fetches it.
  frn train --resume --out runs/b
      Continue after an interruption.

`frn report runs/a` draws the curves, `frn eval --run runs/a` measures accuracy.)"};
  out.options = {
      {.name = "--out",
       .to = &options->out,
       .help = "Folder of the run: settings, log, checkpoints, results",
       .value = "DIR",
       .group = "Run",
       .required = true},
      {.name = "--resume",
       .to = &options->resume,
       .help = "Continue the run in --out from its newest intact checkpoint. Its settings stay; only --processes, " +
               TrainOptions::free_on_resume() + " may change",
       .group = "Run"}};
  for (auto& option : options->settings.options()) {
    out.options.push_back(std::move(option));
    if (out.options.back().name != "--devices") continue;
    out.options.push_back({.name = "--processes",
                           .to = &options->processes,
                           .help = "Start this many processes on this machine and share the devices out among them",
                           .group = out.options.back().group,
                           .range = Range{1, 1024}});
  }
  return out;
}

}  // namespace frn::cli
