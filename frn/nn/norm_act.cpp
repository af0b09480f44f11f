// The table of methods, and what their modules have in common.
#include "frn/nn/norm_act.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/relu.h>

#include <array>
#include <ostream>
#include <utility>

#include "frn/core/error.h"
#include "frn/nn/batch_norm.h"
#include "frn/nn/batch_renorm.h"
#include "frn/nn/layer_watch.h"
#include "frn/nn/per_sample_norm.h"
#include "frn/ops/ops.h"

namespace frn {
namespace {

constexpr double kUncenteredEps = 1e-6;  // section 3.3
constexpr double kPyTorchEps = 1e-5;
constexpr double kSmallestEps = 1e-30;  // 1/sqrt(eps) and its square stay finite in float32
constexpr double kLargestEps = 1e6;
constexpr double kLargestCount = 1e12;
constexpr double kLargestGroup = 1 << 20;

constexpr std::array<std::string_view, 2> kLearnedWords{"learned", "learned_exp"};
constexpr std::array<std::string_view, 2> kShapeWords{"scalar", "channel"};
constexpr std::array<std::string_view, 2> kTruthWords{"true", "false"};

constexpr OptionRow real(std::string_view key, std::string_view description, double min, double max,
                         std::optional<double> default_value) {
  return {key, description, NumberKind::kReal, min, max, default_value, {}};
}
constexpr OptionRow whole(std::string_view key, std::string_view description, double min, double max,
                          std::optional<double> default_value) {
  return {key, description, NumberKind::kInteger, min, max, default_value, {}};
}

constexpr OptionRow kEps{
    "eps",
    "added to the mean square: a constant, learned (1e-6 + |eps_l|) or learned_exp (1e-6 + exp(eps_l))",
    NumberKind::kReal,
    kSmallestEps,
    kLargestEps,
    std::nullopt,
    kLearnedWords};
constexpr OptionRow kEpsShape{"eps_shape",
                              "one learned eps for the layer (scalar, the default) or one per channel",
                              NumberKind::kNone,
                              0,
                              0,
                              std::nullopt,
                              kShapeWords};
constexpr OptionRow kGroups =
    whole("groups", "number of groups, instead of group_size", 1, kLargestGroup, std::nullopt);
constexpr OptionRow kGroupSize = whole("group_size", "channels per group", 1, kLargestGroup, kChannelsPerGroup);
constexpr OptionRow kBatchEps = real("eps", "added to the variance", kSmallestEps, kLargestEps, std::nullopt);

constexpr OptionRow momentum(double default_value) {
  return real("momentum", "share of the newest batch in the running statistics", 0, 1, default_value);
}

constexpr std::array kChannelOptions{kEps, kEpsShape};
constexpr std::array kSizedOptions{kEps, kGroups, kGroupSize};
constexpr std::array kLayerOptions{kEps};
constexpr OptionRow kSync{
    "sync",
    "true: statistics of all devices' images together (SyncBN); false, the default: of each device's",
    NumberKind::kNone,
    0,
    0,
    std::nullopt,
    kTruthWords};
constexpr std::array kBatchOptions{kBatchEps, momentum(0.1), kSync};
// The defaults are those of Ioffe's ImageNet runs ("Batch Renormalization", 2017).
constexpr std::array kRenormOptions{
    kBatchEps,
    momentum(0.01),
    real("r_max", "bound of the scale correction r once it is fully on", 1, 1e6, 3),
    real("d_max", "bound of the shift correction d once it is fully on", 0, 1e6, 5),
    whole("warmup", "steps of plain batch norm before the bounds grow", 0, kLargestCount, 5000),
    whole("r_end", "step at which r_max is reached", 0, kLargestCount, 40000),
    whole("d_end", "step at which d_max is reached", 0, kLargestCount, 25000),
};

// The activation without a normalisation.
class NoNormImpl : public NormActImpl {
 public:
  using NormActImpl::NormActImpl;
  at::Tensor forward(const at::Tensor& x) override { return LayerWatch::seen(*this, activate(x)); }
};

template <typename Impl>
NormAct make_module(const NormActSpec& spec, int64_t channels) {
  const std::shared_ptr<NormActImpl> module = std::make_shared<Impl>(spec, channels);
  return NormAct(module);
}

constexpr auto kPerSample = make_module<PerSampleNormImpl>;

// Name, description, centered, groups, batch method, default eps, options, their check, module.
constexpr std::array kNorms{
    NormRow{"none", "no normalisation", false, GroupRule::kNone, false, 0, {}, nullptr, make_module<NoNormImpl>},
    NormRow{"frn", "filter response: x/sqrt(mean(x^2) + eps) per sample and channel (the paper's)", false,
            GroupRule::kChannel, false, kUncenteredEps, kChannelOptions, check_per_sample, kPerSample},
    NormRow{"gfrn", "filter response over groups of 32 channels", false, GroupRule::kSized, false, kUncenteredEps,
            kSizedOptions, check_per_sample, kPerSample},
    NormRow{"lfrn", "filter response over all channels", false, GroupRule::kLayer, false, kUncenteredEps, kLayerOptions,
            check_per_sample, kPerSample},
    NormRow{"in", "instance norm: mean and variance per sample and channel", true, GroupRule::kChannel, false,
            kPyTorchEps, kChannelOptions, check_per_sample, kPerSample},
    NormRow{"gn", "group norm: mean and variance per sample over groups of 32 channels", true, GroupRule::kSized, false,
            kPyTorchEps, kSizedOptions, check_per_sample, kPerSample},
    NormRow{"ln", "layer norm: mean and variance per sample over all channels", true, GroupRule::kLayer, false,
            kPyTorchEps, kLayerOptions, check_per_sample, kPerSample},
    NormRow{"bn", "batch norm: mean and variance per channel over the batch", true, GroupRule::kNone, true, kPyTorchEps,
            kBatchOptions, nullptr, make_module<BatchNormImpl>},
    NormRow{"brn", "batch renormalisation: batch norm corrected towards the running statistics", true, GroupRule::kNone,
            true, kPyTorchEps, kRenormOptions, check_batch_renorm, make_module<BatchRenormImpl>},
};

}  // namespace

std::span<const NormRow> norm_table() { return kNorms; }

NormAct NormActSpec::make(int64_t channels) const {
  if (channels < 1) {
    throw Error(to_string(), "a layer must have at least 1 channel but is asked for " + std::to_string(channels));
  }
  return norm_->make(*this, channels);
}

NormAct NormActSpec::make_without_act(int64_t channels) const { return with_activation(kNoActivation).make(channels); }

NormActImpl::NormActImpl(NormActSpec spec, int64_t channels)
    : Module("frn::NormAct"), spec_(std::move(spec)), channels_(channels) {
  const bool affine = spec_.norm().default_eps > 0;  // a method without eps does not normalise
  if (affine) {
    weight = register_parameter("weight", torch::ones({channels}));
    bias = register_parameter("bias", torch::zeros({channels}));
  }
  if (spec_.activation().uses_tau) tau = register_parameter("tau", torch::zeros({channels}));
  if (spec_.activation().uses_kappa) kappa = register_parameter("kappa", torch::full({channels}, 0.25));
}

at::Tensor NormActImpl::activate(const at::Tensor& y) const {
  if (spec_.activation().name == kNoActivation) return y;
  // Shapes alone, also for real parameters: LibTorch's modules cannot move to the meta device.
  if (y.is_meta()) return at::empty_like(y);
  // Keeps its result, which the next layer keeps anyway, where act() would keep y. At y = 0 the gradient is PyTorch's
  // 0.
  if (spec_.activation().name == "relu") return at::relu(y);
  return act(y, defined_or_none(tau), defined_or_none(kappa), spec_.activation().name);
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

std::optional<at::Tensor> defined_or_none(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

}  // namespace frn
