// The module every method of norm_table() makes: one normalisation with its activation, y = norm(x), z = act(y).
#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

#include <iosfwd>
#include <memory>
#include <optional>

#include "frn/nn/norm_act_spec.h"

namespace frn {

// The base of all methods: their common parameters, the activation, copies. x is [N, channels, *] of rank >= 2.
class NormActImpl : public torch::nn::Module {
 public:
  NormActImpl(NormActSpec spec, int64_t channels);

  virtual at::Tensor forward(const at::Tensor& x) = 0;

  const NormActSpec& spec() const { return spec_; }
  int64_t channels() const { return channels_; }

  // What torch::nn::Cloneable gives its children, also as a part of a Sequential or of another Cloneable. The copy
  // keeps the mode (train, eval) and which parameters are frozen.
  std::shared_ptr<Module> clone(const std::optional<torch::Device>& device = std::nullopt) const override;
  // Takes over all that a like layer holds: tensors, mode, settings.
  void copy_from(const NormActImpl& other, const std::optional<torch::Device>& device = std::nullopt);
  void pretty_print(std::ostream& stream) const override;

  // [channels]; undefined where the method or the activation has none. These are their names in the state dict.
  at::Tensor weight;  // gamma, starts at 1
  at::Tensor bias;    // beta, 0
  at::Tensor tau;     // 0
  at::Tensor kappa;   // 0.25, as PyTorch's PReLU

 protected:
  // The activation alone.
  at::Tensor activate(const at::Tensor& y) const;
  // Settings that stand neither in the spec nor in the state dict.
  virtual void copy_settings(const NormActImpl& /*other*/) {}

 private:
  void clone_(Module& other, const std::optional<torch::Device>& device) final;

  NormActSpec spec_;
  int64_t channels_;
};

// A handle to any of them, for use as a member, in a Sequential or alone: NormActSpec::parse("frn+tlu").make(64).
// NOLINTNEXTLINE(readability-identifier-naming)
TORCH_MODULE(NormAct);

// The tensor as an operator's optional argument.
std::optional<at::Tensor> defined_or_none(const at::Tensor& tensor);

}  // namespace frn
