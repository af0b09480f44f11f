// What `bench train` measures: one training step of a network on random images, as `frn train` makes it.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "frn/cli/bench_seconds.h"
#include "frn/data/batch.h"
#include "frn/dist/group.h"

namespace frn {
class Model;
namespace train {
class Task;
}
}  // namespace frn

namespace frn::cli {

struct StepOptions {
  std::string model = "resnetv2-50";
  std::string norm = "frn+tlu";
  std::string weights_standardised = "off";
  std::string layout = "contiguous";  // or channels-last
  std::string memory = "auto";        // or least, or fast
  int64_t batch_per_device = 16;
  int64_t size = 96;
  int64_t classes = 1000;
};

// A network that trains on the same random batch again and again, by the trainer's own step and optimiser.
class BenchStep {
 public:
  explicit BenchStep(const StepOptions& options);
  // Of a network and a batch at hand.
  BenchStep(std::shared_ptr<Model> model, data::Batch batch, std::shared_ptr<const train::Task> task);
  ~BenchStep();
  BenchStep(BenchStep&&) noexcept;
  BenchStep& operator=(BenchStep&&) noexcept;

  // Without a reducer the gradients are this process's. Gives the seconds of backward after the last gradient was
  // there.
  double run(dist::Reducer* reducer = nullptr);
  // Bytes that are there between forward and backward for the gradients, the output included.
  int64_t kept_bytes();
  const std::vector<at::Tensor>& parameters() const;

 private:
  class Impl;  // its headers have all of torch::nn
  std::unique_ptr<Impl> impl_;
};

// Has the norms of a network keep or compute again what they give, as frn train's --memory does.
void arrange_memory(Model& model, const std::string& memory);

// The same for a network that finds boxes in images of noise (bench_detector.cpp), in the paper's style.
BenchStep detector_step(const StepOptions& options);

struct StepSeconds {
  double whole;
  double waited;  // for gradients on their way, with all of this process's there
};
StepSeconds seconds_of_a_step(BenchStep& step, dist::Reducer* reducer = nullptr);

}  // namespace frn::cli
