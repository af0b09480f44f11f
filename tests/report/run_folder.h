// A run directory as frn train leaves it, made up: losses that fall, a schedule, layers.
#pragma once

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "frn/core/run_log.h"

namespace frn::report {

struct RunFolder {
  explicit RunFolder(std::filesystem::path path)
      : path(std::move(path)), log((create(this->path), this->path / "log.jsonl")) {}

  static void create(const std::filesystem::path& path) { std::filesystem::create_directories(path); }
  void put(const char* name, std::string_view text) const { std::ofstream(path / name, std::ios::binary) << text; }

  void train(int64_t step, int64_t steps) {
    const double done = static_cast<double>(step) / static_cast<double>(steps);
    const double noise = 0.1 * std::sin(12.9898 * static_cast<double>(step));
    log.append({{"event", "train"},
                {"step", step},
                {"epoch", 30 * done},
                {"loss", 0.3 + 2 * std::exp(-4 * done) + noise},
                {"precision_at_1", 0.95 - 0.85 * std::exp(-4 * done) - 0.2 * noise},
                {"recall_at_5", 0.99 - 0.4 * std::exp(-6 * done)},
                {"lr", 0.05 * (1 + std::cos(M_PI * done))},
                {"images_per_second", 410.5},
                {"gradient_norm", 1.5}});
  }

  void validate(int64_t step, int64_t steps) {
    const double done = static_cast<double>(step) / static_cast<double>(steps);
    log.append({{"event", "validation"},
                {"step", step},
                {"epoch", 30 * done},
                {"loss", 0.42 + 1.8 * std::exp(-4 * done)},
                {"precision_at_1", 0.91 - 0.8 * std::exp(-4 * done)},
                {"recall_at_5", 0.985 - 0.4 * std::exp(-6 * done)},
                {"samples", 10000}});
  }

  void layers(int64_t step) {
    auto list = Value::empty_list();
    for (int i = 0; i < 9; ++i) {
      const auto name = "stages." + std::to_string(i / 3) + ".blocks." + std::to_string(i % 3) + ".norm1";
      list.push_back({{"name", name}, {"scale", 0.8 + 0.07 * i}, {"clipped", 0.3 + 0.05 * i}});
    }
    log.append({{"event", "layers"}, {"step", step}, {"layers", list}});
  }

  // A whole run: so many steps, validated ten times.
  void fill(int64_t steps) {
    log.append({{"event", "start"}, {"step", 0}, {"parameters", 272474}});
    for (int64_t step = 1; step <= steps; ++step) {
      train(step, steps);
      if (step % (steps / 10) == 0) validate(step, steps);
    }
    layers(steps);
    log.append({{"event", "end"}, {"step", steps}});
    put("config.toml",
        "model = \"resnetv2-20\"\nnorm = \"frn+tlu\"\ndata = \"cifar10:data/cifar-10-batches-bin\"\n"
        "batch_per_device = 32\ndevices = 4\nlr_base = 0.1\nlr_drops = [0.33, 0.67, 0.9]\ndecay_norms = false\n"
        "epochs = 30.0\nmomentum = 0.9\nweight_decay = 0.0001\nlabel_smoothing = 0.0\nseed = 0\n");
    put("metrics.json", R"({"step":)" + std::to_string(steps) +
                            R"(,"validation":{"loss":0.45296,"precision_at_1":0.8953,"samples":10000}})");
  }

  std::filesystem::path path;
  RunLog log;
};

}  // namespace frn::report
