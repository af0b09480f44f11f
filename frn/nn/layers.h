// What is done to all convolutions and linear layers of a model at once.
#pragma once

#include <torch/nn/module.h>

#include "frn/spec/weight_spec.h"

namespace frn {

// Fills the convolutions of frn's networks with He's normal numbers (fan-out), their linear layers with normal(0,
// 0.01), biases with 0, from torch's default generator. Norms, and layers of torch::nn, keep the numbers they were made
// with.
void initialise(torch::nn::Module& module);

// From now on the convolutions of frn's networks standardise their weights where they use them, all but those that give
// a detector's results. Once for a network; WeightForm::kGain gives each a parameter `gain`.
void standardise_weights(torch::nn::Module& module, const WeightSpec& spec);

// Lays the weights of 2d convolutions, torch::nn's included, out as channels-last (or contiguous again), for inputs of
// that layout.
void set_memory_format(torch::nn::Module& module, at::MemoryFormat format);

// Counts the multiply-adds of frn's convolutions and linear layers that run on meta tensors while it lives, and the
// numbers that they give, on this thread.
class MultiplyAddCounter {
 public:
  MultiplyAddCounter();
  ~MultiplyAddCounter();
  MultiplyAddCounter(const MultiplyAddCounter&) = delete;
  MultiplyAddCounter& operator=(const MultiplyAddCounter&) = delete;

  int64_t count() const { return count_; }
  int64_t results() const { return results_; }
  static void add(int64_t multiply_adds, int64_t results);

 private:
  int64_t count_ = 0;
  int64_t results_ = 0;
  MultiplyAddCounter* outer_;
};

}  // namespace frn
