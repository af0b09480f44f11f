// frn bench train: training steps of one network under several norms, in one run. bench/train_peers.py prints the same
// for timm.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

#include "frn/cli/allocator.h"
#include "frn/cli/commands.h"
#include "frn/models/model.h"
#include "frn/nn/layers.h"
#include "frn/ops/ops.h"

namespace frn::cli {
namespace {

using nlohmann::json;

struct Options {
  bool as_json = false;
  std::string model = "resnetv2-50";
  std::vector<std::string> norms{"frn+tlu", "bn+relu", "gn+relu", "none+relu"};
  std::vector<std::string> layouts{"contiguous", "channels-last"};
  int64_t batch_per_device = 16;
  int64_t size = 96;
  int64_t classes = 1000;
  int threads = at::get_num_threads();
  int rounds = 7;
};

// A network with its optimiser's memory, which trains on the same random batch again and again.
class Subject {
 public:
  Subject(const Options& options, const std::string& norm, const std::string& layout) {
    at::manual_seed(0);
    model_ = make_model(options.model, {.norm = NormActSpec::parse(norm), .classes = options.classes});
    const auto format = layout == "channels-last" ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
    set_memory_format(*model_, format);
    const int64_t n = options.batch_per_device;
    x_ = at::randn({n, 3, options.size, options.size}).contiguous(format);
    target_ = at::randint(options.classes, {n});
    parameters_ = model_->parameters();
    for (const auto& parameter : parameters_) momentum_.push_back(at::zeros_like(parameter));
  }

  // A rate so small that the numbers, and with them the time of denormals or infinities, stay as at the start.
  void step() {
    constexpr double kMomentum = 0.9;
    constexpr double kRate = 1e-6;
    const auto out = model_->forward(x_);
    auto loss = at::cross_entropy_loss(out.logits, target_);
    if (out.auxiliary.defined()) {
      loss = loss + model_->row().auxiliary_weight * at::cross_entropy_loss(out.auxiliary, target_);
    }
    loss.backward();
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> gradients;
    for (auto& parameter : parameters_) gradients.push_back(parameter.grad());
    at::_foreach_mul_(momentum_, kMomentum);
    at::_foreach_add_(momentum_, gradients);
    at::_foreach_add_(parameters_, momentum_, -kRate);
    for (auto& parameter : parameters_) parameter.mutable_grad() = at::Tensor();
  }

 private:
  std::shared_ptr<Model> model_;
  at::Tensor x_, target_;
  std::vector<at::Tensor> parameters_, momentum_;
};

struct Row {
  std::string norm;
  std::string layout;
  double images_per_second;
  double peak_megabytes;
};

// What a step allocates beyond the weights, gradients included, at its highest point.
double peak_of_a_step(Subject& subject) {
  const TensorBytes bytes;
  subject.step();
  return static_cast<double>(bytes.peak()) / 1e6;
}

double seconds_of_a_step(Subject& subject) {
  const auto start = std::chrono::steady_clock::now();
  subject.step();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::vector<Row> measure(const Options& options, const std::string& layout) {
  std::vector<Subject> subjects;
  std::vector<Row> rows;
  for (const auto& norm : options.norms) {
    subjects.emplace_back(options, norm, layout);
    subjects.back().step();  // warms caches and the allocator
    rows.push_back({norm, layout, 0, peak_of_a_step(subjects.back())});
  }
  // Rounds interleave the subjects, so that a slow moment of the machine hits all of them.
  std::vector<std::vector<double>> times(subjects.size());
  for (int round = 0; round < options.rounds; ++round) {
    for (size_t i = 0; i < subjects.size(); ++i) times[i].push_back(seconds_of_a_step(subjects[i]));
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    std::sort(times[i].begin(), times[i].end());
    rows[i].images_per_second = static_cast<double>(options.batch_per_device) / times[i][times[i].size() / 2];
  }
  return rows;
}

void print_rows(const std::vector<Row>& rows) {
  fmt::print("\n{}\n{:<22}{:>10}{:>12}{:>20}\n", rows[0].layout, "norm", "images/s", "ratio", "peak of a step, MB");
  for (const auto& row : rows) {
    fmt::print("{:<22}{:>10.1f}{:>12.2f}{:>20.0f}\n", row.norm, row.images_per_second,
               row.images_per_second / rows[0].images_per_second, row.peak_megabytes);
  }
}

void run(const Options& options) {
  at::set_num_threads(options.threads);
  if (!options.as_json) {
    fmt::print("frn bench train: {}, {} px, {} images per step, float32, {} thread{}, implementation {}, {}\n",
               options.model, options.size, options.batch_per_device, options.threads, options.threads == 1 ? "" : "s",
               chosen_implementation(), allocator_name());
  }
  json out{{"command", "bench train"},   {"model", options.model},
           {"size", options.size},       {"batch_per_device", options.batch_per_device},
           {"threads", options.threads}, {"rows", json::array()}};
  for (const auto& layout : options.layouts) {
    const auto rows = measure(options, layout);
    if (!options.as_json) print_rows(rows);
    for (const auto& row : rows) {
      out["rows"].push_back({{"norm", row.norm},
                             {"layout", row.layout},
                             {"images_per_second", row.images_per_second},
                             {"peak_megabytes", row.peak_megabytes}});
    }
  }
  if (options.as_json) std::cout << out.dump(2) << "\n";
}

}  // namespace

void add_bench_train(CLI::App& bench) {
  auto options = std::make_shared<Options>();
  auto* train = bench.add_subcommand("train", "Training steps of one network under several norms");
  train->add_flag("--json", options->as_json, "Print JSON instead of tables");
  train->add_option("--model", options->model, "A network of frn info models")->capture_default_str();
  train->add_option("--norms", options->norms, "Norms to compare; ratios are to the first")->expected(1, -1);
  train->add_option("--layouts", options->layouts, "contiguous, channels-last")
      ->delimiter(',')
      ->check(CLI::IsMember({"contiguous", "channels-last"}));
  train->add_option("--batch-per-device", options->batch_per_device, "Images per step")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  train->add_option("--size", options->size, "Height and width")->check(CLI::PositiveNumber)->capture_default_str();
  train->add_option("--threads", options->threads, "Threads")->check(CLI::Range(1, 1024))->capture_default_str();
  train->add_option("--rounds", options->rounds, "Steps per norm; the median counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  train->callback([options] { run(*options); });
}

}  // namespace frn::cli
