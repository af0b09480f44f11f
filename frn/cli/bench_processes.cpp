#include "frn/cli/bench_processes.h"

#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "frn/cli/exit.h"
#include "frn/cli/launch.h"
#include "frn/cli/output.h"
#include "frn/cli/threads.h"

namespace frn::cli {
namespace {

constexpr auto kTimeout = std::chrono::minutes(10);
constexpr int64_t kBucketBytes = 25 << 20;  // as the reducer's

// What one number of processes gave; seconds are the slowest rank's.
struct Scaling {
  int64_t processes = 1;
  double apart = 0;      // a step whose gradients stay on their ranks
  double together = 0;   // a step that averages them
  double waited = 0;     // of that, for the others' gradients after all of one's own
  double reduction = 0;  // averaging as many bytes with nothing beside it
  double megabytes = 0;
};

double images_per_second(const ProcessesOptions& options, const Scaling& row, double seconds) {
  return static_cast<double>(options.step.batch_per_device * row.processes) / seconds;
}

double slowest(dist::Group& group, double seconds) {
  return group.gather(at::tensor(seconds, at::kDouble)).max().item<double>();
}

// The gradients' bytes in as many pieces as the reducer makes.
std::vector<at::Tensor> pieces_of(const std::vector<at::Tensor>& parameters) {
  int64_t count = 0;
  for (const auto& parameter : parameters) count += parameter.numel();
  const auto piece = kBucketBytes / static_cast<int64_t>(sizeof(float));
  std::vector<at::Tensor> out;
  for (; count > 0; count -= piece) out.push_back(at::zeros({std::min(count, piece)}));
  return out;
}

double seconds_of_reduction(dist::Group& group, const std::vector<at::Tensor>& pieces) {
  const auto start = std::chrono::steady_clock::now();
  for (const auto& piece : pieces) group.all_reduce(piece);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Scaling measure(const ProcessesOptions& options, dist::Group& group) {
  BenchStep step(options.step);
  const auto reducer = group.make_reducer(step.parameters());
  const auto pieces = pieces_of(step.parameters());
  step.run();  // warms caches, the allocator, connections
  step.run(reducer.get());
  seconds_of_reduction(group, pieces);
  // Rounds interleave what is compared, so that a slow moment of the machine hits all of it.
  std::vector<double> apart, together, waited, reduction;
  for (int round = 0; round < options.rounds; ++round) {
    group.barrier();
    apart.push_back(slowest(group, seconds_of_a_step(step).whole));
    group.barrier();
    const auto seconds = seconds_of_a_step(step, reducer.get());
    together.push_back(slowest(group, seconds.whole));
    waited.push_back(slowest(group, seconds.waited));
    group.barrier();
    reduction.push_back(slowest(group, seconds_of_reduction(group, pieces)));
  }
  Scaling out{.processes = group.world()};
  out.apart = median(apart);
  out.together = median(together);
  out.waited = median(waited);
  out.reduction = median(reduction);
  for (const auto& piece : pieces) out.megabytes += static_cast<double>(piece.nbytes()) / 1e6;
  return out;
}

Value to_value(const Scaling& row) {
  return {{"processes", row.processes},
          {"seconds_apart", row.apart},
          {"seconds_together", row.together},
          {"seconds_waited", row.waited},
          {"seconds_of_reduction", row.reduction},
          {"megabytes_reduced", row.megabytes}};
}

Scaling from_value(const Value& in) {
  return {.processes = in.at("processes").as_whole(),
          .apart = in.at("seconds_apart").as_number(),
          .together = in.at("seconds_together").as_number(),
          .waited = in.at("seconds_waited").as_number(),
          .reduction = in.at("seconds_of_reduction").as_number(),
          .megabytes = in.at("megabytes_reduced").as_number()};
}

Scaling launch(const ProcessesOptions& options, int64_t count) {
  std::string output;
  const auto threads = std::to_string(options.threads);
  const int code = launch_processes(count, {.without = {"--processes", "--threads"},
                                            .more = {"--as-rank", "--threads", threads},
                                            .output_of_first = &output});
  if (code != 0) throw Exit{code};
  return from_value(parse_json(output));
}

// Of the time that reducing takes by itself, what goes by while backward still computes.
double hidden_share(const Scaling& row) { return std::max(0.0, 1 - row.waited / row.reduction); }

void print_row(const ProcessesOptions& options, const Scaling& row, double alone) {
  fmt::print("{:<11}{:>10.1f}{:>12.2f}", row.processes, images_per_second(options, row, row.together),
             alone / row.together);
  if (row.processes == 1) {
    fmt::print("\n");
    return;
  }
  fmt::print("{:>10.1f}{:>12.2f}{:>9.0f} ms{:>7.0f} ms{:>8.0f} %\n", images_per_second(options, row, row.apart),
             alone / row.apart, 1000 * row.reduction, 1000 * row.waited, 100 * hidden_share(row));
}

}  // namespace

void bench_processes(const ProcessesOptions& options) {
  auto counts = options.counts;
  counts.push_back(1);  // what the others are compared with
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  Value out{{"command", "bench train --processes"},
            {"model", options.step.model},
            {"norm", options.step.norm},
            {"layout", options.step.layout},
            {"size", options.step.size},
            {"batch_per_device", options.step.batch_per_device},
            {"threads", options.threads},
            {"rows", Value::empty_list()}};
  if (!options.as_json) {
    fmt::print("frn bench train: {}, {}, {}, {} px, {} images per process and step, {} thread{} each\n\n",
               options.step.model, options.step.norm, options.step.layout, options.step.size,
               options.step.batch_per_device, options.threads, options.threads == 1 ? "" : "s");
    fmt::print("{:<11}{:>10}{:>12}{:>10}{:>12}{:>12}{:>10}{:>10}\n", "processes", "images/s", "efficiency", "apart",
               "efficiency", "reduction", "waited", "hidden");
    std::fflush(stdout);
  }
  double alone = 0;
  double megabytes = 0;
  for (const auto count : counts) {
    const auto row = launch(options, count);
    if (count == 1) alone = row.together;
    megabytes = row.megabytes;
    auto entry = to_value(row);
    entry["efficiency"] = alone / row.together;
    if (count > 1) entry["hidden_share"] = hidden_share(row);
    out["rows"].push_back(entry);
    if (!options.as_json) print_row(options, row, alone);
    std::fflush(stdout);
  }
  if (options.as_json) {
    return print_json(out);
  }
  fmt::print(
      "\nefficiency: images/s over so many times those of one process alone. apart: the same processes at the same time "
      "without\nreducing gradients. reduction: averaging the gradients' {:.0f} MB with nothing beside it; waited: for it "
      "after a step's own\nbackward; hidden: the part that backward went on beside. On processors without a free core "
      "hidden work is not free: compare\nefficiency with that apart.\n",
      megabytes);
}

void bench_as_rank(const ProcessesOptions& options, const dist::Place& place) {
  set_threads(options.threads);
  const auto group = place.world == 1 ? dist::make_single_group() : dist::make_group(place, kTimeout);
  const auto row = measure(options, *group);
  if (group->is_first()) print_json(to_value(row));
  group->barrier();  // rank 0 keeps the store where all meet
}

}  // namespace frn::cli
