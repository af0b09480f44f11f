// Every method as a type of its own, written as torch::nn's layers are:
//
//   frn::FRN layer(frn::FRNOptions(64).eps(1e-6));
//   frn::GN(frn::GNOptions(64).groups(32).activation(frn::Activation::kPrelu))
//
// Each is NormActSpec::of(...).make(channels), but an option that the method does not have does not compile. What is
// not set is the table's default; the activation starts as the paper's, TLU for the filter responses and else ReLU.
#pragma once

#include <torch/arg.h>

#include <memory>
#include <optional>

#include "frn/nn/batch_norm.h"
#include "frn/nn/batch_renorm.h"
#include "frn/nn/norm_act.h"
#include "frn/nn/per_sample_norm.h"

namespace frn {
namespace detail {

// What tells the methods with the same options apart: the row of norm_table(), and the activation to start with.
struct Method {
  char name[8];
  Activation activation;
};
inline constexpr Method kFrn{"frn", Activation::kTlu};
inline constexpr Method kGfrn{"gfrn", Activation::kTlu};
inline constexpr Method kLfrn{"lfrn", Activation::kTlu};
inline constexpr Method kIn{"in", Activation::kRelu};
inline constexpr Method kGn{"gn", Activation::kRelu};
inline constexpr Method kLn{"ln", Activation::kRelu};

}  // namespace detail

// Constructors are implicit as torch::nn's are, so that FRN(64) is FRN(FRNOptions(64)). spec() throws frn::Error for
// values that the option does not take. NOLINTBEGIN(google-explicit-constructor)

// Statistics of each channel. eps is a constant, or learned where eps_form says so; not both.
template <detail::Method kMethod>
struct ChannelNormOptions {
  ChannelNormOptions(int64_t channels) : channels_(channels) {}
  NormActSpec spec() const;

  TORCH_ARG(int64_t, channels);
  TORCH_ARG(std::optional<double>, eps);
  TORCH_ARG(EpsForm, eps_form) = EpsForm::kFixed;
  TORCH_ARG(std::optional<double>, eps_start);
  TORCH_ARG(bool, eps_per_channel) = false;
  TORCH_ARG(bool, proxy) = false;
  TORCH_ARG(Activation, activation) = kMethod.activation;
};

// Statistics of groups of channels: so many groups, or groups of so many channels (32 unless set); not both.
template <detail::Method kMethod>
struct GroupNormOptions {
  GroupNormOptions(int64_t channels) : channels_(channels) {}
  NormActSpec spec() const;

  TORCH_ARG(int64_t, channels);
  TORCH_ARG(std::optional<int64_t>, groups);
  TORCH_ARG(std::optional<int64_t>, group_size);
  TORCH_ARG(std::optional<double>, eps);
  TORCH_ARG(EpsForm, eps_form) = EpsForm::kFixed;
  TORCH_ARG(std::optional<double>, eps_start);
  TORCH_ARG(bool, proxy) = false;
  TORCH_ARG(Activation, activation) = kMethod.activation;
};

// Statistics of all channels.
template <detail::Method kMethod>
struct LayerNormOptions {
  LayerNormOptions(int64_t channels) : channels_(channels) {}
  NormActSpec spec() const;

  TORCH_ARG(int64_t, channels);
  TORCH_ARG(std::optional<double>, eps);
  TORCH_ARG(EpsForm, eps_form) = EpsForm::kFixed;
  TORCH_ARG(std::optional<double>, eps_start);
  TORCH_ARG(bool, proxy) = false;
  TORCH_ARG(Activation, activation) = kMethod.activation;
};

struct BNOptions {
  BNOptions(int64_t channels) : channels_(channels) {}
  NormActSpec spec() const;

  TORCH_ARG(int64_t, channels);
  TORCH_ARG(std::optional<double>, eps);
  TORCH_ARG(std::optional<double>, momentum);
  TORCH_ARG(bool, sync) = false;
  TORCH_ARG(Activation, activation) = Activation::kRelu;
};

struct BRNOptions {
  BRNOptions(int64_t channels) : channels_(channels) {}
  NormActSpec spec() const;

  TORCH_ARG(int64_t, channels);
  TORCH_ARG(std::optional<double>, eps);
  TORCH_ARG(std::optional<double>, momentum);
  TORCH_ARG(std::optional<double>, r_max);
  TORCH_ARG(std::optional<double>, d_max);
  TORCH_ARG(std::optional<int64_t>, warmup);
  TORCH_ARG(std::optional<int64_t>, r_end);
  TORCH_ARG(std::optional<int64_t>, d_end);
  TORCH_ARG(Activation, activation) = Activation::kRelu;
};

// A handle, as TORCH_MODULE makes them: for use as a member, in a Sequential or alone. It becomes a NormAct where one
// is asked for.
template <typename Options, typename Implementation>
class NormLayer : public torch::nn::ModuleHolder<Implementation> {
  using Holder = torch::nn::ModuleHolder<Implementation>;

 public:
  using Impl = Implementation;
  NormLayer(const Options& options)
      : Holder(std::dynamic_pointer_cast<Impl>(options.spec().make(options.channels()).ptr())) {}
  NormLayer(std::nullptr_t) : Holder(nullptr) {}
  NormLayer(std::shared_ptr<Impl> module) : Holder(std::move(module)) {}
};
// NOLINTEND(google-explicit-constructor)

using FRNOptions = ChannelNormOptions<detail::kFrn>;
using GFRNOptions = GroupNormOptions<detail::kGfrn>;
using LFRNOptions = LayerNormOptions<detail::kLfrn>;
using INOptions = ChannelNormOptions<detail::kIn>;
using GNOptions = GroupNormOptions<detail::kGn>;
using LNOptions = LayerNormOptions<detail::kLn>;

using FRN = NormLayer<FRNOptions, PerSampleNormImpl>;
using GFRN = NormLayer<GFRNOptions, PerSampleNormImpl>;
using LFRN = NormLayer<LFRNOptions, PerSampleNormImpl>;
using IN = NormLayer<INOptions, PerSampleNormImpl>;
using GN = NormLayer<GNOptions, PerSampleNormImpl>;
using LN = NormLayer<LNOptions, PerSampleNormImpl>;
using BN = NormLayer<BNOptions, BatchNormImpl>;
using BRN = NormLayer<BRNOptions, BatchRenormImpl>;

}  // namespace frn
