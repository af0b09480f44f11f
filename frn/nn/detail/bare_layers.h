// Private to frn: the convolutions and linear layers of our own networks. They are made without filling their weights,
// so what they hold is whatever memory held until initialise() or a file fills them: not for a network of one's own,
// which takes torch::nn's. Torch's operators under torch's names, and able to say what they cost without running.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <array>

namespace frn::detail {

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

}  // namespace frn::detail
