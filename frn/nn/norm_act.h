// The module every method of norm_table() makes: one normalisation with its activation, y = norm(x), z = act(y).
#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

#include <concepts>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "frn/nn/norm_act_spec.h"
#include "frn/ops/ops.h"

namespace frn {

// The base of all methods: their common parameters, the check of x, the activation, copies. A method writes run().
class NormActImpl : public torch::nn::Module {
 public:
  NormActImpl(NormActSpec spec, int64_t channels);

  // x is [N, channels, *] of rank >= 2; any shape where the layer has no parameters. Throws frn::Error otherwise. Of a
  // meta tensor comes the shape alone. A LayerWatch sees the result.
  at::Tensor forward(const at::Tensor& x);
  // The same, and may write into x: for an x that nobody else reads, not even a gradient.
  at::Tensor forward_own(const at::Tensor& x);

  // act(forward(x) + shortcut), the end of a residual block, for a layer without an activation and an `act` without a
  // norm. Norms of single samples do it in one pass over memory, and keep neither the sum nor what they give. The same
  // bits in float32; 16-bit results are rounded once.
  at::Tensor forward_added(const at::Tensor& x, const at::Tensor& shortcut, NormActImpl& act);
  // Whether it would be one pass for such an x and a shortcut like it. Meta tensors and watches go through the layers
  // one by one.
  bool adds_in_one_pass(const at::Tensor& x, const NormActImpl& act) const;

  // What each of the convolutions makes of forward(x). Where the layer is set to computing again, z is not kept for
  // their gradients: memory of x's size, for a pass over x. The bits are the same.
  std::vector<at::Tensor> forward_into(const at::Tensor& x, const std::vector<Convolution>& readers);
  // Not in the state dict.
  void set_computes_again(bool computes_again) { computes_again_ = computes_again; }
  bool computes_again() const { return computes_again_ && can_compute_again(); }

  // What z is where the activation clips y: tau, or what it becomes where activations are normalised too; undefined for
  // 0.
  virtual at::Tensor threshold() const { return tau; }

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
  // z of an x that was checked and has values.
  virtual at::Tensor run(const at::Tensor& x) = 0;
  // The same for forward_own.
  virtual at::Tensor run_own(const at::Tensor& x) { return run(x); }
  // The same for forward_added in one pass, of a method that says so.
  virtual bool can_add() const { return false; }
  virtual at::Tensor run_added(const at::Tensor& /*x*/, const at::Tensor& /*shortcut*/, const NormActImpl& /*act*/) {
    return {};
  }
  // The same for forward_into, without keeping z, of a method that says so.
  virtual bool can_compute_again() const { return false; }
  virtual std::vector<at::Tensor> run_into(const at::Tensor& /*x*/, const std::vector<Convolution>& /*readers*/) {
    return {};
  }
  // The activation alone, with parameters of one's own or of this layer.
  static at::Tensor activated(const at::Tensor& y, const at::Tensor& tau, const at::Tensor& kappa,
                              std::string_view activation);
  at::Tensor activate(const at::Tensor& y) const;
  // The same in y's own memory where the activation can, for a y that nobody else has and no gradient needs.
  at::Tensor activate_own(const at::Tensor& y) const;
  // Settings that stand neither in the spec nor in the state dict.
  virtual void copy_settings(const NormActImpl& /*other*/) {}

 private:
  void check(const at::Tensor& x) const;
  void clone_(Module& other, const std::optional<torch::Device>& device) final;

  NormActSpec spec_;
  int64_t channels_;
  bool computes_again_ = !spec_.norm().batch_method;
};

// A handle to any of them, as TORCH_MODULE makes them: for use as a member, in a Sequential or alone,
// NormAct("frn+tlu", 64). The types of frn/nn/norms.h become one where one is asked for.
class NormAct : public torch::nn::ModuleHolder<NormActImpl> {
  using Holder = torch::nn::ModuleHolder<NormActImpl>;

 public:
  using Impl = NormActImpl;
  // NOLINTBEGIN(google-explicit-constructor)
  NormAct(std::nullptr_t) : Holder(nullptr) {}
  NormAct(std::shared_ptr<NormActImpl> module) : Holder(std::move(module)) {}
  template <std::derived_from<NormActImpl> Method>
  NormAct(const torch::nn::ModuleHolder<Method>& layer) : Holder(std::shared_ptr<NormActImpl>(layer.ptr())) {}
  // NOLINTEND(google-explicit-constructor)
  NormAct(const NormActSpec& spec, int64_t channels) : NormAct(spec.make(channels)) {}
  NormAct(std::string_view spec, int64_t channels) : NormAct(NormActSpec::parse(spec), channels) {}
};

// Which layers compute their results again for the gradients of the convolutions that read them. kCheap: norms of
// single samples, for which it costs one or two per cent of a step; batch norm's statistics make it five to ten.
enum class ComputeAgain { kCheap, kAll, kNone };
// Sets it for all layers of a model.
void set_computes_again(torch::nn::Module& model, ComputeAgain which);

// The tensor as an operator's optional argument.
std::optional<at::Tensor> defined_or_none(const at::Tensor& tensor);

}  // namespace frn
