// A model as the loop sees it: any torch::nn module, its parameters, and what it gives for a batch.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <functional>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "frn/models/model.h"

namespace frn::train {

// What a model gives; a task knows which is which. A classifier gives its logits, and those of an auxiliary head after
// them where it has one; a detector gives logits and codes of boxes.
using Outputs = std::vector<at::Tensor>;

inline Outputs to_outputs(at::Tensor tensor) { return {std::move(tensor)}; }
inline Outputs to_outputs(Outputs tensors) { return tensors; }
template <class... T>
Outputs to_outputs(const std::tuple<T...>& tensors) {
  return std::apply([](const auto&... tensor) { return Outputs{tensor...}; }, tensors);
}
inline Outputs to_outputs(const ModelOutput& output) {
  Outputs out{output.logits};
  if (output.auxiliary.defined()) out.push_back(output.auxiliary);
  if (output.codes.defined()) out.push_back(output.codes);
  return out;
}

// Shares the module.
class Network {
 public:
  using Forward = std::function<Outputs(const at::Tensor&)>;

  Network(std::shared_ptr<torch::nn::Module> module, Forward forward)
      : module_(std::move(module)), forward_(std::move(forward)) {}

  // Of any module with forward(tensor) that gives a tensor, several (std::vector or std::tuple), or a ModelOutput.
  // Implicit, as AnyModule's: wherever a Network is asked for, the module itself can stand.
  template <class M>
  Network(const std::shared_ptr<M>& module)  // NOLINT(google-explicit-constructor)
      : module_(module), forward_([module](const at::Tensor& x) { return to_outputs(module->forward(x)); }) {}
  template <class Impl>
  Network(const torch::nn::ModuleHolder<Impl>& holder)  // NOLINT(google-explicit-constructor)
      : Network(holder.ptr()) {}

  torch::nn::Module& module() const { return *module_; }
  // Of its first parameter.
  at::Device device() const;
  // On the device of its weights, with products and convolutions in bfloat16 when asked for (autocast).
  Outputs forward(const at::Tensor& input, bool bfloat16 = false) const;

 private:
  std::shared_ptr<torch::nn::Module> module_;
  Forward forward_;
};

}  // namespace frn::train
