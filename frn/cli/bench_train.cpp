// frn bench train: training steps of one network under several norms, in one run. bench/train_peers.py prints the same
// for timm.
#include <fmt/format.h>

#include <algorithm>

#include "frn/cli/allocator.h"
#include "frn/cli/bench_processes.h"
#include "frn/cli/bench_step.h"
#include "frn/cli/commands.h"
#include "frn/cli/output.h"
#include "frn/cli/threads.h"
#include "frn/dist/environment.h"
#include "frn/ops/ops.h"

namespace frn::cli {
namespace {

struct BenchTrainOptions {
  bool as_json = false;
  bool as_rank = false;
  StepOptions step;
  std::vector<std::string> norms{"frn+tlu", "bn+relu", "gn+relu", "none+relu"};
  std::vector<std::string> layouts{"contiguous", "channels-last"};
  std::vector<std::string> memories{"auto"};
  std::vector<std::string> standardised{"off"};
  std::vector<int64_t> processes;
  int threads = default_threads();
  int rounds = 7;
};

constexpr int64_t kPaperBatchPerDevice = 32;

struct BenchTrainRow {
  std::string norm;
  std::string weights_standardised;
  std::string memory;
  std::string layout;
  double images_per_second;
  double peak_megabytes;
};

std::vector<BenchTrainRow> measure(const BenchTrainOptions& options, const std::string& layout) {
  std::vector<BenchStep> subjects;
  std::vector<BenchTrainRow> rows;
  for (const auto& norm : options.norms) {
    for (const auto& standardised : options.standardised) {
      for (const auto& memory : options.memories) {
        auto step = options.step;
        step.norm = norm;
        step.weights_standardised = standardised;
        step.layout = layout;
        step.memory = memory;
        subjects.emplace_back(step);
        subjects.back().run();  // warms caches and the allocator
        rows.push_back({norm, standardised, memory, layout, 0, peak_megabytes([&] { subjects.back().run(); })});
      }
    }
  }
  // Rounds interleave the subjects, so that a slow moment of the machine hits all of them.
  std::vector<std::vector<double>> times(subjects.size());
  for (int round = 0; round < options.rounds; ++round) {
    for (size_t i = 0; i < subjects.size(); ++i) times[i].push_back(seconds_of_a_step(subjects[i]).whole);
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].images_per_second = static_cast<double>(options.step.batch_per_device) / median(times[i]);
  }
  return rows;
}

void print_rows(const std::vector<BenchTrainRow>& rows) {
  size_t width = 22;
  for (const auto& row : rows) width = std::max(width, row.norm.size() + 2);
  fmt::print("\n{}\n{:<{}}{:>14}{:>8}{:>10}{:>12}{:>20}\n", rows[0].layout, "norm", width, "standardised", "memory",
             "images/s", "ratio", "peak of a step, MB");
  for (const auto& row : rows) {
    fmt::print("{:<{}}{:>14}{:>8}{:>10.2f}{:>12.3f}{:>20.0f}\n", row.norm, width, row.weights_standardised, row.memory,
               row.images_per_second, row.images_per_second / rows[0].images_per_second, row.peak_megabytes);
  }
}

void run_alone(const BenchTrainOptions& options) {
  set_threads(options.threads);
  if (!options.as_json) {
    fmt::print("frn bench train: {}, {} px, {} images per step, float32, {} thread{}, implementation {}, {}\n",
               options.step.model, options.step.size, options.step.batch_per_device, options.threads,
               options.threads == 1 ? "" : "s", chosen_implementation(), allocator_name());
  }
  Value out{{"command", "bench train"},   {"model", options.step.model},
            {"size", options.step.size},  {"batch_per_device", options.step.batch_per_device},
            {"threads", options.threads}, {"rows", Value::empty_list()}};
  for (const auto& layout : options.layouts) {
    const auto rows = measure(options, layout);
    if (!options.as_json) print_rows(rows);
    for (const auto& row : rows) {
      out["rows"].push_back({{"norm", row.norm},
                             {"weights_standardised", row.weights_standardised},
                             {"memory", row.memory},
                             {"layout", row.layout},
                             {"images_per_second", row.images_per_second},
                             {"peak_megabytes", row.peak_megabytes}});
    }
  }
  if (options.as_json) print_json(out);
}

// Options that were not given are those of a comparison of norms; here one network is enough.
ProcessesOptions processes_options(const BenchTrainOptions& options, const Given& given) {
  ProcessesOptions out{.step = options.step, .counts = options.processes, .rounds = options.rounds};
  if (!given.contains("--batch-per-device")) out.step.batch_per_device = kPaperBatchPerDevice;
  out.step.layout = "channels-last";  // as frn train does
  if (given.contains("--norms")) out.step.norm = options.norms.front();
  if (given.contains("--layouts")) out.step.layout = options.layouts.front();
  out.step.memory = options.memories.front();
  out.step.weights_standardised = options.standardised.front();
  if (given.contains("--threads")) out.threads = options.threads;
  out.as_json = options.as_json;
  return out;
}

void run(const BenchTrainOptions& options, const Given& given) {
  if (!options.processes.empty()) return bench_processes(processes_options(options, given));
  const auto place = dist::read_place();
  if (options.as_rank || place.world > 1) return bench_as_rank(processes_options(options, given), place);
  run_alone(options);
}

}  // namespace

Command bench_train_command() {
  auto options = std::make_shared<BenchTrainOptions>();
  return {
      .name = "train",
      .help = "Training steps of one network under several norms, or on several processes",
      .options =
          {{.name = "--model", .to = &options->step.model, .help = "The network; `frn info models` lists them"},
           {.name = "--norms", .to = &options->norms, .help = "Norms to compare; ratios are to the first"},
           {.name = "--weights-standardised",
            .to = &options->standardised,
            .help = "How convolutions standardise their weights: off, plain, scaled or gain",
            .value = "FORM,...",
            .separator = ','},
           {.name = "--layouts",
            .to = &options->layouts,
            .help = "Memory layouts",
            .choices = {"contiguous", "channels-last"},
            .separator = ','},
           {.name = "--memory",
            .to = &options->memories,
            .help = "What is kept for the gradients, as in frn train",
            .choices = {"auto", "least", "fast"},
            .separator = ','},
           {.name = "--batch-per-device",
            .to = &options->step.batch_per_device,
            .help = "Images per step, and per process",
            .default_text = "16; 32 with --processes",
            .range = Range{1}},
           {.name = "--size", .to = &options->step.size, .help = "Height and width of the images", .range = Range{1}},
           {.name = "--threads",
            .to = &options->threads,
            .help = "Processor threads",
            .default_text = "all processors; 1 per process with --processes",
            .range = Range{1, 1024}},
           {.name = "--rounds",
            .to = &options->rounds,
            .help = "Steps to measure of each norm; their median is printed",
            .range = Range{1, 1000}},
           {.name = "--processes",
            .to = &options->processes,
            .help = "Measure how speed grows with the number of processes, such as 1,2, with the first of "
                    "--norms and --layouts",
            .range = Range{1, 1024},
            .separator = ','},
           {.name = "--json", .to = &options->as_json, .help = "Print JSON in place of tables"},
           {.name = "--as-rank", .to = &options->as_rank, .help = "What --processes starts", .hidden = true}},
      .run = [options](const Given& given) { run(*options, given); }};
}

}  // namespace frn::cli
