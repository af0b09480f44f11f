// Private to frn: the convolutions and linear layers of our own networks. They are made without filling their weights,
// so what they hold is whatever memory held until initialise() or a file fills them: not for a network of one's own,
// which takes torch::nn's. Torch's operators under torch's names, and able to say what they cost without running.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <array>
#include <memory>

#include "frn/nn/standardised.h"
#include "frn/ops/ops.h"

namespace frn::detail {

struct ConvShape {
  int64_t in;
  int64_t out;
  std::array<int64_t, 2> kernel;  // height, width
  int64_t stride = 1;
  std::array<int64_t, 2> padding{0, 0};
  bool bias = false;
  bool gives_logits = false;  // then its weights are never standardised
};

// A square kernel, padded so that stride 1 keeps the size.
ConvShape same_conv(int64_t in, int64_t out, int64_t kernel, int64_t stride = 1);

class Conv2dImpl : public torch::nn::Module {
 public:
  explicit Conv2dImpl(const ConvShape& shape);
  at::Tensor forward(const at::Tensor& x) const { return forward(x, x.is_meta() ? weight : filters()); }
  // What it convolves with: the weights, standardised where they are to be. For a layer that sees many maps in a step.
  at::Tensor filters() const;
  at::Tensor forward(const at::Tensor& x, const at::Tensor& filters) const;
  // For a norm that runs it on its own result.
  Convolution as_reader(const at::Tensor& filters) const;

  // From now on the weights are standardised where they are used; what is stored, learned and saved stays as it is.
  // Adds the parameter gain where the form has one.
  void standardise(const WeightSpec& spec);

  at::Tensor weight;  // [out, in, kernel height, kernel width]
  at::Tensor bias;    // [out]; undefined without one
  at::Tensor gain;    // [out, 1, 1, 1]; undefined without one

 private:
  ConvShape shape_;
  WeightSpec standard_;
  // The filters of the last call without a graph, which many images of a validation set or a folder share.
  struct Kept;
  std::shared_ptr<Kept> kept_;
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
