// Convolutions and linear layers of the models: torch's operators under torch's names, but made without filling their
// weights (a model's are filled once, by initialise() or from a file), and able to say what they cost without running.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <array>

namespace frn {

struct ConvShape {
  int64_t in;
  int64_t out;
  std::array<int64_t, 2> kernel;  // height, width
  int64_t stride = 1;
  std::array<int64_t, 2> padding{0, 0};
  bool bias = false;
};

// A square kernel, padded so that stride 1 keeps the size.
ConvShape same_conv(int64_t in, int64_t out, int64_t kernel, int64_t stride = 1);

class Conv2dImpl : public torch::nn::Module {
 public:
  explicit Conv2dImpl(const ConvShape& shape);
  at::Tensor forward(const at::Tensor& x) const;

  at::Tensor weight;  // [out, in, kernel height, kernel width]
  at::Tensor bias;    // [out]; undefined without one

 private:
  ConvShape shape_;
};
// NOLINTNEXTLINE(readability-identifier-naming)
TORCH_MODULE(Conv2d);

class LinearImpl : public torch::nn::Module {
 public:
  LinearImpl(int64_t in, int64_t out);
  at::Tensor forward(const at::Tensor& x) const;

  at::Tensor weight;  // [out, in]
  at::Tensor bias;    // [out]
};
// NOLINTNEXTLINE(readability-identifier-naming)
TORCH_MODULE(Linear);

// Fills convolutions with He's normal numbers (fan-out), linear layers with normal(0, 0.01), biases with 0, from
// torch's default generator. Norms keep the numbers they were made with.
void initialise(torch::nn::Module& module);

// Lays the weights of convolutions out as channels-last (or contiguous again), for inputs of that layout.
void set_memory_format(torch::nn::Module& module, at::MemoryFormat format);

// Counts the multiply-adds of convolutions and linear layers that run on meta tensors while it lives, on this thread.
class MultiplyAddCounter {
 public:
  MultiplyAddCounter();
  ~MultiplyAddCounter();
  MultiplyAddCounter(const MultiplyAddCounter&) = delete;
  MultiplyAddCounter& operator=(const MultiplyAddCounter&) = delete;

  int64_t count() const { return count_; }
  static void add(int64_t multiply_adds);

 private:
  int64_t count_ = 0;
  MultiplyAddCounter* outer_;
};

}  // namespace frn
