#include "frn/cli/study_plan.h"

#include <fmt/format.h>
#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

#include "frn/cli/progress.h"
#include "frn/cli/study_measure.h"
#include "frn/core/error.h"
#include "frn/data/dataset.h"
#include "frn/data/loader.h"
#include "frn/models/model.h"
#include "frn/train/run_folder.h"

namespace frn::cli {
namespace {

struct DataFacts {
  int64_t samples = 0, classes = 0, channels = 0, image_size = 0;
};

DataFacts facts_of(const std::string& data) {
  static std::map<std::string, DataFacts> known;
  const auto found = known.find(data);
  if (found != known.end()) return found->second;
  const auto name = data::parse_data_name(data);
  const auto set = data::open_dataset(name, data::Split::kTrain);
  return known[data] = {set->size(), static_cast<int64_t>(set->classes().size()), set->facts().channels,
                        set->facts().image_size};
}

ModelOptions model_options(const PlannedCell& cell) {
  return {.norm = NormActSpec::parse(cell.config.norm),
          .classes = cell.classes,
          .input_channels = cell.channels,
          .weights_standardised = WeightSpec::parse(cell.config.weights_standardised),
          .detector = {.style = cell.config.style, .image_size = cell.image_size}};
}

// Networks of the same kind need to be built once, not once per cell.
std::pair<int64_t, int64_t> costs_of(const PlannedCell& cell) {
  static std::map<std::tuple<std::string, std::string, std::string, int64_t>, std::pair<int64_t, int64_t>> known;
  const std::tuple key(cell.config.model, cell.config.norm, cell.config.weights_standardised, cell.image_size);
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  const auto options = model_options(cell);
  int64_t parameters = 0;
  for (const auto& parameter : make_uninitialised_model(cell.config.model, options)->parameters()) {
    parameters += parameter.numel();
  }
  return known[key] = {parameters, multiply_adds(cell.config.model, options, cell.image_size)};
}

PlannedCell plan(const study::Cell& cell) {
  PlannedCell out{cell, config_of(cell)};
  const auto facts = facts_of(out.config.data);
  out.classes = facts.classes;
  out.channels = facts.channels;
  out.image_size = out.config.image_size.value_or(facts.image_size);
  const int64_t batches = std::max<int64_t>(1, facts.samples / out.config.batch_global());
  out.steps = train::schedule_of(out.config, batches).steps;
  std::tie(out.parameters, out.multiply_adds) = costs_of(out);
  return out;
}

std::string size_text(double bytes) {
  return bytes < 1e9 ? fmt::format("{:.0f} MB", bytes / 1e6) : fmt::format("{:.1f} GB", bytes / 1e9);
}

std::string time_text(double seconds) {
  constexpr double kDay = 86400;
  return seconds < 2 * kDay ? clock_text(seconds) : fmt::format("{:.0f} days", seconds / kDay);
}

struct Estimate {
  double seconds = 0, bytes = 0;
};

Estimate estimate(const PlannedCell& cell, const MeasuredStep& measured) {
  const double images = static_cast<double>(cell.steps_to_go() * cell.config.batch_global());
  // Another norm may have made the network wider than the measured one.
  const double wider = static_cast<double>(cell.multiply_adds) / static_cast<double>(measured.multiply_adds);
  constexpr double kCopies = 3 * sizeof(float);  // weights, gradients, momentum
  constexpr double kProgram = 3e8;               // LibTorch
  const int64_t batch = cell.config.batch_global() * cell.channels * cell.image_size * cell.image_size *
                        static_cast<int64_t>(sizeof(float));
  const int64_t batches = cell.config.workers > 0 ? data::batches_ahead_of(cell.config.workers, batch) : 1;
  return {images * measured.seconds_per_image * wider,
          kProgram + static_cast<double>(batch * batches) + kCopies * static_cast<double>(cell.parameters) +
              static_cast<double>(images_at_once(cell.config)) * measured.bytes_per_image * wider};
}

struct Total {
  double seconds = 0, bytes = 0;
  size_t at_once = 1;
};

// Of so many cells at a time, of which there may be fewer. It takes as long as the longest of them at least, and no
// more memory than the largest together.
Total together(const std::vector<Estimate>& costs, int64_t jobs) {
  Total out{.at_once = std::clamp<size_t>(static_cast<size_t>(jobs), 1, std::max<size_t>(1, costs.size()))};
  std::vector<double> sizes;
  double longest = 0;
  for (const auto& cost : costs) {
    out.seconds += cost.seconds / static_cast<double>(out.at_once);
    longest = std::max(longest, cost.seconds);
    sizes.push_back(cost.bytes);
  }
  out.seconds = std::max(out.seconds, longest);
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  for (size_t i = 0; i < std::min(sizes.size(), out.at_once); ++i) out.bytes += sizes[i];
  return out;
}

}  // namespace

train::TrainConfig config_of(const study::Cell& cell) {
  const auto text = study::to_toml(cell.settings);
  const auto config =
      train::applied_to_defaults([&](train::TrainConfig& to) { train::read_toml_text(to, text, "settings"); });
  train::check(config);
  return config;
}

int64_t images_at_once(const train::TrainConfig& config) {
  const int64_t micro_batch = config.batch_per_device * config.devices;
  if (config.images_at_once == 0) return micro_batch;
  return std::min(micro_batch, config.images_at_once / config.batch_per_device * config.batch_per_device);
}

int64_t PlannedCell::steps_to_go() const { return config.max_steps > 0 ? std::min(config.max_steps, steps) : steps; }

double PlannedCell::work() const {
  return static_cast<double>(steps_to_go()) * static_cast<double>(config.batch_global()) *
         static_cast<double>(multiply_adds);
}

std::vector<PlannedCell> plan_cells(const std::vector<study::Cell>& cells) {
  std::vector<PlannedCell> out;
  for (const auto& cell : cells) {
    try {
      out.push_back(plan(cell));
    } catch (const Error& error) {
      throw Error("study", fmt::format("cell {}: {}", cell.name, error.what()));
    }
  }
  return out;
}

std::string amount_of_work(size_t trainings, size_t cells) {
  if (trainings == cells) return fmt::format("{} cell{}", cells, cells == 1 ? "" : "s");
  return fmt::format("{} training{} for {} cell{}", trainings, trainings == 1 ? "" : "s", cells, cells == 1 ? "" : "s");
}

void print_plan(const study::Definition& study, const std::vector<PlannedCell>& plan, size_t cells, int64_t jobs,
                const std::map<std::string, std::string>& same_as) {
  size_t cell_width = 4;
  size_t norm_width = 4;
  for (const auto& cell : plan) {
    cell_width = std::max(cell_width, cell.cell.name.size());
    norm_width = std::max(norm_width, cell.config.norm.size());
  }
  const auto print_line = [&](const auto& cell, const auto& model, const auto& norm, const auto&... numbers) {
    fmt::print("{:<{}}  {:<12}  {:<{}}", cell, cell_width, model, norm, norm_width);
    (fmt::print("{:>13}", numbers), ...);
    fmt::print("\n");
    std::fflush(stdout);
  };
  fmt::print("{}: {}\n\n", study.name, amount_of_work(plan.size(), cells));
  print_line("cell", "model", "norm", "lr_peak", "images/step", "steps", "memory", "time");
  std::map<std::tuple<std::string, int64_t, int64_t>, MeasuredStep> measured;
  std::vector<Estimate> costs;
  for (const auto& cell : plan) {
    const std::tuple key(cell.config.model, cell.image_size, images_to_measure(cell));
    if (!measured.contains(key)) measured[key] = measure_step(cell);
    const auto cost = estimate(cell, measured[key]);
    costs.push_back(cost);
    print_line(cell.cell.name, cell.config.model, cell.config.norm, fmt::format("{:.3g}", cell.config.lr_peak()),
               fmt::format("{} x {}", cell.config.batch_per_device, cell.config.devices), cell.steps_to_go(),
               size_text(cost.bytes), time_text(cost.seconds));
  }
  for (const auto& [cell, trained] : same_as) {
    fmt::print("{:<{}}  is the same training as {} by construction\n", cell, cell_width, trained);
  }
  const auto [seconds, bytes, at_once] = together(costs, jobs);
  fmt::print(
      "\nabout {} with {} at a time, and up to {} of memory, on this machine as it is now.\n"
      "Time: one step of each network and batch was measured (a few images where a step takes long), and taken in\n"
      "proportion to images and multiply-adds; reading images, validation and starting come on top. Memory: what the\n"
      "measured step allocated per image, three copies of the weights, the batches that are prepared ahead, and 0.3 GB\n"
      "for the program.\n",
      time_text(seconds), at_once, size_text(bytes));
}

}  // namespace frn::cli
