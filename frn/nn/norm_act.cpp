// Which class a method has, and what all of them have in common.
#include "frn/nn/norm_act.h"

#include <ATen/ops/conv2d.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/relu.h>

#include <array>
#include <ostream>
#include <utility>

#include "frn/core/error.h"
#include "frn/core/text.h"
#include "frn/nn/batch_norm.h"
#include "frn/nn/batch_renorm.h"
#include "frn/nn/layer_watch.h"
#include "frn/nn/per_sample_norm.h"
#include "frn/ops/ops.h"

namespace frn {
namespace {

// The activation without a normalisation.
class NoNormImpl : public NormActImpl {
 public:
  using NormActImpl::NormActImpl;

 protected:
  at::Tensor run(const at::Tensor& x) override { return activate(x); }
  at::Tensor run_own(const at::Tensor& x) override { return activate_own(x); }
};

template <typename Impl>
NormAct make_module(const NormActSpec& spec, int64_t channels) {
  return NormAct(std::make_shared<Impl>(spec, channels));
}

struct ModuleRow {
  std::string_view norm;
  NormAct (*make)(const NormActSpec&, int64_t channels);
};

// The methods that are not PerSampleNorm, each with its class.
constexpr std::array kModules{
    ModuleRow{.norm = "none", .make = make_module<NoNormImpl>},
    ModuleRow{.norm = "bn", .make = make_module<BatchNormImpl>},
    ModuleRow{.norm = "brn", .make = make_module<BatchRenormImpl>},
};

}  // namespace

NormAct NormActSpec::make(int64_t channels) const {
  if (channels < 1) {
    throw Error(to_string(), "a layer must have at least 1 channel but is asked for " + std::to_string(channels));
  }
  if (norm_->group_rule != GroupRule::kNone) return make_module<PerSampleNormImpl>(*this, channels);
  for (const auto& row : kModules) {
    if (row.norm == norm_->name) return row.make(*this, channels);
  }
  throw Error(to_string(), "the method has no module: name its class in kModules (frn/nn/norm_act.cpp)");
}

NormAct NormActSpec::make_without_act(int64_t channels) const { return with_activation(kNoActivation).make(channels); }

NormActImpl::NormActImpl(NormActSpec spec, int64_t channels)
    : Module("frn::NormAct"), spec_(std::move(spec)), channels_(channels) {
  if (spec_.norm().affine) {
    weight = register_parameter("weight", torch::ones({channels}));
    bias = register_parameter("bias", torch::zeros({channels}));
  }
  if (spec_.activation().uses_tau) tau = register_parameter("tau", torch::zeros({channels}));
  if (spec_.activation().uses_kappa) kappa = register_parameter("kappa", torch::full({channels}, 0.25));
}

void NormActImpl::check(const at::Tensor& x) const {
  const bool any_shape = !weight.defined() && !tau.defined() && !kappa.defined();
  if (any_shape || (x.dim() >= 2 && x.size(1) == channels_)) return;
  throw Error(spec_.norm().name, "x must have shape [N, " + std::to_string(channels_) +
                                     ", *] (channels of the layer) but has " + shape_text(x.sizes()));
}

at::Tensor NormActImpl::forward(const at::Tensor& x) {
  check(x);
  // Also where the parameters are real: LibTorch's modules cannot move to the meta device, and not all of its operators
  // know it outside Python.
  if (x.is_meta()) return at::empty_like(x);
  return LayerWatch::seen(*this, run(x));
}

at::Tensor NormActImpl::forward_own(const at::Tensor& x) {
  check(x);
  if (x.is_meta()) return x;
  return LayerWatch::seen(*this, run_own(x));
}

at::Tensor NormActImpl::forward_added(const at::Tensor& x, const at::Tensor& shortcut, NormActImpl& act) {
  check(x);
  act.check(shortcut);
  const bool same_type = x.scalar_type() == shortcut.scalar_type();
  if (adds_in_one_pass(x, act) && same_type) return run_added(x, shortcut, act);
  const auto y = forward(x);
  return act.forward_own(same_type && !y.is_same(x) ? y.add_(shortcut) : y + shortcut);
}

bool NormActImpl::adds_in_one_pass(const at::Tensor& x, const NormActImpl& act) const {
  return can_add() && spec_.activation().name == kNoActivation && act.spec_.norm().name == "none" &&
         act.spec_.activation().name != kNoActivation && x.numel() > 0 && !x.is_meta() && !LayerWatch::watching();
}

std::vector<at::Tensor> NormActImpl::forward_into(const at::Tensor& x, const std::vector<Convolution>& readers) {
  check(x);
  // A watch wants to see z.
  if (computes_again() && at::GradMode::is_enabled() && x.numel() > 0 && !LayerWatch::watching()) {
    return run_into(x, readers);
  }
  const auto z = forward(x);
  std::vector<at::Tensor> out;
  for (const auto& one : readers) {
    out.push_back(at::conv2d(z, one.filters, one.bias, one.stride, one.padding, one.dilation, one.groups));
  }
  return out;
}

at::Tensor NormActImpl::activate(const at::Tensor& y) const {
  return activated(y, tau, kappa, spec_.activation().name);
}

at::Tensor NormActImpl::activated(const at::Tensor& y, const at::Tensor& tau, const at::Tensor& kappa,
                                  std::string_view activation) {
  if (activation == kNoActivation) return y;
  // Keeps its result, which the next layer keeps anyway, where act() would keep y. At y = 0 the gradient is PyTorch's
  // 0.
  if (activation == "relu") return at::relu(y);
  return act(y, defined_or_none(tau), defined_or_none(kappa), activation);
}

at::Tensor NormActImpl::activate_own(const at::Tensor& y) const {
  return spec_.activation().name == "relu" && y.numel() > 0 ? y.relu_() : activate(y);
}

void NormActImpl::pretty_print(std::ostream& stream) const {
  stream << name() << "(" << spec_.to_string() << ", " << channels_ << ")";
}

// Tensors are replaced inside the registered ones, so that the members keep pointing at them.
void NormActImpl::copy_from(const NormActImpl& other, const std::optional<torch::Device>& device) {
  torch::NoGradGuard no_grad;
  const auto copied = [&](const at::Tensor& tensor) {
    return device && tensor.device() != *device ? tensor.to(*device) : tensor.clone();
  };
  auto parameters = named_parameters(/*recurse=*/false);
  for (const auto& parameter : other.named_parameters(/*recurse=*/false)) {
    parameters[parameter.key()].set_data(copied(parameter.value()));
    parameters[parameter.key()].set_requires_grad(parameter.value().requires_grad());
  }
  auto buffers = named_buffers(/*recurse=*/false);
  for (const auto& buffer : other.named_buffers(/*recurse=*/false)) {
    buffers[buffer.key()].set_data(copied(buffer.value()));
  }
  train(other.is_training());
  computes_again_ = other.computes_again_;
  copy_settings(other);
}

std::shared_ptr<torch::nn::Module> NormActImpl::clone(const std::optional<torch::Device>& device) const {
  auto copy = spec_.make(channels_).ptr();
  copy->copy_from(*this, device);
  return copy;
}

void NormActImpl::clone_(Module& other, const std::optional<torch::Device>& device) {
  const auto* source = dynamic_cast<const NormActImpl*>(&other);
  if (source == nullptr || source->channels_ != channels_ || !(source->spec_ == spec_)) {
    throw Error("clone", "a " + spec_.to_string() + " layer of " + std::to_string(channels_) +
                             " channels must be copied from one like it but the module comes from " + other.name() +
                             "; make the same layers in reset() as in the constructor");
  }
  copy_from(*source, device);
}

void set_computes_again(torch::nn::Module& model, ComputeAgain which) {
  model.apply([which](torch::nn::Module& module) {
    auto* const layer = dynamic_cast<NormActImpl*>(&module);
    if (layer == nullptr) return;
    layer->set_computes_again(which == ComputeAgain::kAll ||
                              (which == ComputeAgain::kCheap && !layer->spec().norm().batch_method));
  });
}

std::optional<at::Tensor> defined_or_none(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

}  // namespace frn
