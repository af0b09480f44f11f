// Lets a caller see what every layer of a model gives, while the model runs: scales, shares of clipped units, the first
// layer whose output went bad. LibTorch's modules have no hooks.
#pragma once

#include <torch/nn/module.h>

#include <functional>

namespace frn {

// Sees the output of every convolution, linear layer and norm that runs on this thread while it lives; the innermost
// watch counts.
class LayerWatch {
 public:
  using See = std::function<void(const torch::nn::Module& layer, const at::Tensor& output)>;

  explicit LayerWatch(See see);
  ~LayerWatch();
  LayerWatch(const LayerWatch&) = delete;
  LayerWatch& operator=(const LayerWatch&) = delete;

  // Whether there is one on this thread.
  static bool watching();

  // What a layer returns through, so that it can be seen.
  static at::Tensor seen(const torch::nn::Module& layer, at::Tensor output);

 private:
  See see_;
  LayerWatch* outer_;
};

}  // namespace frn
