// frn bench kernels: the fused layer beside a copy of the same bytes and beside its peers in ATen, in one run.
// Times mean little on a shared machine, ratios taken side by side do: every round measures all subjects in turn.
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>

#include "bench_maps.h"
#include "frn/cli/allocator.h"
#include "frn/cli/bench_seconds.h"
#include "frn/cli/bench_subjects.h"
#include "frn/cli/commands.h"
#include "frn/cli/output.h"
#include "frn/cli/threads.h"
#include "frn/core/error.h"
#include "frn/ops/ops.h"

namespace frn::cli {
namespace {

struct BenchOptions {
  bool as_json = false;
  bool quick = false;
  std::vector<std::string> types{"float32", "bfloat16"};
  std::vector<std::string> layouts{"contiguous", "channels-last"};
  std::vector<int64_t> threads{1, 2};
  std::vector<int64_t> images{32, 2, 1};
  std::vector<int64_t> map;
  double seconds = 0.15;
  std::string device = "cpu";
};

// The median over rounds of each body's time; rounds interleave the bodies so that a slow moment hits all of them.
std::vector<double> measure(const std::vector<std::function<void()>>& bodies, double seconds, at::Device device) {
  constexpr int kRounds = 5;
  // A GPU works on while the processor goes on.
  const auto time = [&](const std::function<void()>& body, int repeats) {
    const auto all = [&] {
      for (int i = 0; i < repeats; ++i) body();
      if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
    };
    return seconds_of(all) / repeats;
  };
  std::vector<int> repeats;
  for (const auto& body : bodies) {
    time(body, 1);  // warms caches and the allocator
    repeats.push_back(std::clamp(static_cast<int>(seconds / kRounds / time(body, 1)), 1, 1000));
  }
  std::vector<std::vector<double>> times(bodies.size());
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < bodies.size(); ++i) times[i].push_back(time(bodies[i], repeats[i]));
  }
  std::vector<double> medians;
  for (auto& list : times) {
    std::nth_element(list.begin(), list.begin() + kRounds / 2, list.end());
    medians.push_back(list[kRounds / 2]);
  }
  return medians;
}

struct Row {
  std::string device;
  std::string type;
  std::string layout;
  int threads;
  std::array<int64_t, 4> map;
  double copy_seconds;
  std::vector<std::string> names;
  std::vector<double> forward;  // in copies
  std::vector<double> both;
  std::vector<double> kept;  // in activations
};

Row measure_map(const BenchOptions& options, const std::string& type, const std::string& layout, int threads,
                const std::array<int64_t, 4>& map) {
  set_threads(threads);
  const auto scalar = type == "bfloat16" ? at::kBFloat16 : at::kFloat;
  const auto format = layout == "channels-last" ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  at::manual_seed(0);
  const at::Device device(options.device == "cuda" ? "cuda:0" : "cpu");
  const auto values = at::randn(map, at::dtype(at::kFloat)).to(device, scalar);
  const auto x = values.contiguous(format).set_requires_grad(true);
  const auto dz = at::randn_like(x);
  auto target = at::empty_like(x);

  const auto subjects = bench_subjects(map[1], scalar, device);
  std::vector<std::function<void()>> bodies;
  bodies.emplace_back([&] { copy_with_aten(x.detach(), target); });
  bodies.emplace_back(
      [&] { device.is_cpu() ? copy_with_memcpy(x.detach(), target) : copy_with_aten(x.detach(), target); });
  for (const auto& subject : subjects) {
    bodies.emplace_back([&] {
      const at::NoGradGuard no_grad;
      subject.forward(x);
    });
    bodies.emplace_back([&] { forward_and_backward(subject, x, dz); });
  }
  const auto times = measure(bodies, options.seconds, device);
  Row row{options.device, type, layout, threads, map, std::min(times[0], times[1]), {}, {}, {}, {}};
  for (size_t i = 0; i < subjects.size(); ++i) {
    row.names.push_back(subjects[i].name);
    row.forward.push_back(times[2 + 2 * i] / row.copy_seconds);
    row.both.push_back(times[3 + 2 * i] / row.copy_seconds);
    // Counted by the processor's allocator; it is the same on every device.
    if (!device.is_cpu()) continue;
    row.kept.push_back(static_cast<double>(bytes_kept(subjects[i], x)) / static_cast<double>(x.nbytes()));
  }
  return row;
}

std::string map_name(const std::array<int64_t, 4>& map) {
  return fmt::format("{}x{}x{}x{}", map[0], map[1], map[2], map[3]);
}

void print_heading(const Row& row) {
  const auto where =
      row.device == "cpu" ? fmt::format("{} thread{}", row.threads, row.threads == 1 ? "" : "s") : row.device;
  fmt::print("\n{} {}, {} image{}, {}: time in copies of the same bytes, forward | forward and backward\n", row.type,
             row.layout, row.map[0], row.map[0] == 1 ? "" : "s", where);
  fmt::print("{:<16}{:>9}", "map", "copy us");
  for (const auto& name : row.names) fmt::print("{:>16}", name);
  fmt::print("\n");
}

std::string pair_text(double forward, double both) {
  const auto text = [](double copies) { return fmt::format("{:.{}f}", copies, copies < 100 ? 2 : 0); };
  return text(forward) + " | " + text(both);
}

void print_row(const Row& row) {
  fmt::print("{:<16}{:>9.1f}", map_name(row.map), row.copy_seconds * 1e6);
  for (size_t i = 0; i < row.names.size(); ++i) fmt::print("{:>16}", pair_text(row.forward[i], row.both[i]));
  fmt::print("\n");
  std::cout.flush();
}

double geometric_mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += std::log(v);
  return std::exp(sum / static_cast<double>(values.size()));
}

// Geometric means of one table over maps of 14x14 and more, and over smaller ones; single values stand apart.
void print_means(const std::vector<Row>& rows) {
  for (const bool large : {true, false}) {
    std::vector<std::vector<double>> forward(rows[0].names.size());
    std::vector<std::vector<double>> both(rows[0].names.size());
    for (const auto& row : rows) {
      if ((row.map[3] >= 14) != large || row.map[3] == 1) continue;
      for (size_t i = 0; i < row.names.size(); ++i) {
        forward[i].push_back(row.forward[i]);
        both[i].push_back(row.both[i]);
      }
    }
    if (forward[0].empty()) continue;
    fmt::print("{:<25}", large ? "mean, 14x14 and more" : "mean, below 14x14");
    for (size_t i = 0; i < forward.size(); ++i) {
      fmt::print("{:>16}", pair_text(geometric_mean(forward[i]), geometric_mean(both[i])));
    }
    fmt::print("\n");
  }
}

void print_kept(const std::vector<Row>& rows) {
  fmt::print("\nKept for backward, in activations (x itself is one):");
  for (size_t i = 0; i < rows[0].names.size(); ++i) {
    std::vector<double> kept;
    for (const auto& row : rows) kept.push_back(row.kept[i]);
    fmt::print("{} {} {:.2f}", i == 0 ? "" : ",", rows[0].names[i], geometric_mean(kept));
  }
  fmt::print("\n");
}

Value to_value(const Row& row) {
  auto subjects = Value::empty_table();
  for (size_t i = 0; i < row.names.size(); ++i) {
    subjects[row.names[i]] = Value{{"forward_copies", row.forward[i]}, {"forward_backward_copies", row.both[i]}};
    if (!row.kept.empty()) subjects[row.names[i]]["kept_activations"] = row.kept[i];
  }
  return {{"device", row.device},
          {"type", row.type},
          {"layout", row.layout},
          {"threads", row.threads},
          {"map", Value::list_of(row.map)},
          {"copy_seconds", row.copy_seconds},
          {"subjects", subjects}};
}

// The maps of one table, in groups of as many images: few images are what the layer is for, and there the fixed cost of
// a call shows.
std::vector<std::vector<std::array<int64_t, 4>>> maps_of(const BenchOptions& options) {
  if (!options.map.empty()) return {{{options.map[0], options.map[1], options.map[2], options.map[3]}}};
  auto maps = kBenchMaps;
  if (options.quick) maps = {{32, 64, 56, 56}, {32, 256, 28, 28}, {32, 256, 14, 14}, {32, 512, 7, 7}};
  maps.push_back({32, 2048, 1, 1});  // after the network's last average
  std::vector<std::vector<std::array<int64_t, 4>>> groups;
  for (const int64_t images : options.images) {
    groups.push_back(maps);
    for (auto& map : groups.back()) map[0] = images;
  }
  return groups;
}

std::vector<Row> measure_group(const BenchOptions& options, const std::string& type, const std::string& layout,
                               int threads, const std::vector<std::array<int64_t, 4>>& maps) {
  std::vector<Row> rows;
  for (const auto& map : maps) {
    rows.push_back(measure_map(options, type, layout, threads, map));
    if (options.as_json) continue;
    if (rows.size() == 1) print_heading(rows[0]);
    print_row(rows.back());
  }
  if (!options.as_json) print_means(rows);
  return rows;
}

void run_kernels(const BenchOptions& given) {
  BenchOptions options = given;
  if (options.device == "cuda") {
    if (!at::globalContext().hasCUDA()) {
      throw Error("bench kernels",
                  "--device cuda needs a GPU that PyTorch sees, and there is none; build with "
                  "`make build PRESET=cuda`, or leave --device out");
    }
    options.threads = {1};
  }
  if (options.quick) {
    options.types = {"float32"};
    options.threads = {default_threads()};
  }
  const auto groups = maps_of(options);
  std::vector<Row> all;
  if (!options.as_json) {
    if (options.device == "cpu") {
      fmt::print("frn bench kernels: implementation {}, {}\n", chosen_implementation(), allocator_name());
    } else {
      fmt::print("frn bench kernels: device {}\n", options.device);
    }
  }
  for (const auto& type : options.types) {
    for (const auto& layout : options.layouts) {
      for (const int64_t threads : options.threads) {
        for (const auto& group : groups) {
          const auto rows = measure_group(options, type, layout, static_cast<int>(threads), group);
          all.insert(all.end(), rows.begin(), rows.end());
        }
      }
    }
  }
  if (!options.as_json) {
    if (options.device == "cpu") {
      print_kept(all);
    } else {
      fmt::print("\nfrn+tlu was run by: {}\n", last_implementation());
    }
    return;
  }
  Value out{{"command", "bench kernels"},
            {"implementation", last_implementation()},
            {"allocator", allocator_name()},
            {"limit", {{"forward_copies", 1.0}, {"forward_backward_copies", 2.5}}},
            {"rows", Value::empty_list()}};
  for (const auto& row : all) out["rows"].push_back(to_value(row));
  print_json(out);
}

}  // namespace

namespace {

Command kernels_command() {
  auto options = std::make_shared<BenchOptions>();
  return {
      .name = "kernels",
      .help = "The fused layer on the feature maps of ResNetV2-50, beside a copy of the same bytes and ATen's layers",
      .options = {{.name = "--quick", .to = &options->quick, .help = "Five maps in float32 only: about a minute"},
                  {.name = "--types",
                   .to = &options->types,
                   .help = "Number types",
                   .choices = {"float32", "bfloat16"},
                   .separator = ','},
                  {.name = "--layouts",
                   .to = &options->layouts,
                   .help = "Memory layouts",
                   .choices = {"contiguous", "channels-last"},
                   .separator = ','},
                  {.name = "--threads",
                   .to = &options->threads,
                   .help = "Numbers of threads to measure with",
                   .range = Range{1, 1024},
                   .separator = ','},
                  {.name = "--images",
                   .to = &options->images,
                   .help = "Numbers of images to measure with, a table for each",
                   .range = Range{1, 65536},
                   .separator = ','},
                  {.name = "--map",
                   .to = &options->map,
                   .help = "One map in place of the network's: images, channels, height, width",
                   .value = "N C H W",
                   .range = Range{1},
                   .count = 4},
                  {.name = "--seconds",
                   .to = &options->seconds,
                   .help = "Seconds for each layer and map",
                   .range = Range{0.001, 60}},
                  {.name = "--device", .to = &options->device, .help = "Where to measure", .choices = {"cpu", "cuda"}},
                  {.name = "--json", .to = &options->as_json, .help = "Print JSON in place of tables"}},
      .run = [options](const Given&) { run_kernels(*options); }};
}

}  // namespace

Command bench_command() {
  return {.name = "bench",
          .help = "Measure speed, as ratios to something measured in the same run",
          .commands = {kernels_command(), bench_loader_command(), bench_train_command(), bench_detector_command(),
                       bench_coco_command(), bench_nms_command()}};
}

}  // namespace frn::cli
