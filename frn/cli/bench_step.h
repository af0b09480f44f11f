// What `bench train` measures: one training step of a network on random images.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "frn/dist/group.h"

namespace frn {
class Model;  // its header has all of torch::nn
}

namespace frn::cli {

struct StepOptions {
  std::string model = "resnetv2-50";
  std::string norm = "frn+tlu";
  std::string layout = "contiguous";  // or channels-last
  int64_t batch_per_device = 16;
  int64_t size = 96;
  int64_t classes = 1000;
};

// A network with its optimiser's memory, which trains on the same random batch again and again.
class BenchStep {
 public:
  explicit BenchStep(const StepOptions& options);

  // Without a reducer the gradients are this process's. Gives the seconds of backward after the last gradient was
  // there.
  double run(dist::Reducer* reducer = nullptr);
  const std::vector<at::Tensor>& parameters() const { return parameters_; }

 private:
  std::shared_ptr<Model> model_;
  at::Tensor x_, target_;
  std::vector<at::Tensor> parameters_, momentum_;
  std::shared_ptr<std::chrono::steady_clock::time_point> last_gradient_;
};

struct StepSeconds {
  double whole;
  double waited;  // for gradients on their way, with all of this process's there
};
StepSeconds seconds_of_a_step(BenchStep& step, dist::Reducer* reducer = nullptr);
double median(std::vector<double> values);

}  // namespace frn::cli
