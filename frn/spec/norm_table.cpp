#include "frn/spec/norm_table.h"

#include <array>
#include <string>

#include "frn/core/error.h"
#include "frn/spec/norm_act_spec.h"

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

constexpr OptionRow an_eps(std::string_view key, std::string_view description,
                           std::span<const std::string_view> words = {},
                           std::optional<double> default_value = std::nullopt) {
  return {
      .key = key,
      .description = description,
      .kind = NumberKind::kReal,
      .min = kSmallestEps,
      .max = kLargestEps,
      .default_value = default_value,
      .words = words,
  };
}
constexpr OptionRow kEps =
    an_eps("eps", "added to the mean square: a constant, learned (1e-6 + |eps_l|) or learned_exp (1e-6 + exp(eps_l))",
           kLearnedWords);
constexpr OptionRow kEpsStart =
    an_eps("eps_start", "what a learned eps starts at (default: 1e-4, the paper's)", {}, kLearnedEpsStart);
constexpr OptionRow kBatchEps = an_eps("eps", "added to the variance");
constexpr OptionRow kEpsShape{
    .key = "eps_shape",
    .description = "one learned eps for the layer (scalar, the default) or one per channel",
    .words = kShapeWords,
};
constexpr OptionRow kProxy{
    .key = "proxy",
    .description =
        "true: also normalise what the activation gives, by what it would give for normal numbers "
        "(proxy normalisation); false, the default",
    .words = kTruthWords,
};
constexpr OptionRow kGroups{
    .key = "groups",
    .description = "number of groups, instead of group_size",
    .kind = NumberKind::kInteger,
    .min = 1,
    .max = kLargestGroup,
};
constexpr OptionRow kGroupSize{
    .key = "group_size",
    .description = "channels per group",
    .kind = NumberKind::kInteger,
    .min = 1,
    .max = kLargestGroup,
    .default_value = kChannelsPerGroup,
};
constexpr OptionRow kSync{
    .key = "sync",
    .description = "true: statistics of all devices' images together (SyncBN); false, the default: of each device's",
    .words = kTruthWords,
};

constexpr OptionRow momentum(double default_value) {
  return {
      .key = "momentum",
      .description = "share of the newest batch in the running statistics",
      .kind = NumberKind::kReal,
      .min = 0,
      .max = 1,
      .default_value = default_value,
  };
}
constexpr OptionRow bound(std::string_view key, std::string_view description, double min, double default_value) {
  return {
      .key = key,
      .description = description,
      .kind = NumberKind::kReal,
      .min = min,
      .max = 1e6,
      .default_value = default_value,
  };
}
constexpr OptionRow step(std::string_view key, std::string_view description, double default_value) {
  return {
      .key = key,
      .description = description,
      .kind = NumberKind::kInteger,
      .min = 0,
      .max = kLargestCount,
      .default_value = default_value,
  };
}

constexpr std::array kChannelOptions{kEps, kEpsShape, kEpsStart, kProxy};
constexpr std::array kSizedOptions{kEps, kEpsStart, kGroups, kGroupSize, kProxy};
constexpr std::array kLayerOptions{kEps, kEpsStart, kProxy};
constexpr std::array kBatchOptions{kBatchEps, momentum(0.1), kSync};
// The defaults are those of Ioffe's ImageNet runs ("Batch Renormalization", 2017).
constexpr std::array kRenormOptions{
    kBatchEps,
    momentum(0.01),
    bound("r_max", "bound of the scale correction r once it is fully on", 1, 3),
    bound("d_max", "bound of the shift correction d once it is fully on", 0, 5),
    step("warmup", "steps of plain batch norm before the bounds grow", 5000),
    step("r_end", "step at which r_max is reached", 40000),
    step("d_end", "step at which d_max is reached", 25000),
};

void check_per_sample(const NormActSpec& spec) {
  const auto fail = [&](const char* sentence) { throw Error("norm_act_spec", sentence + (" in " + spec.to_string())); };
  if (spec.has("eps_shape") && spec.eps_form() == EpsForm::kFixed) {
    fail("eps_shape must come with a learned eps, as in (eps=learned,eps_shape=channel), but eps is fixed");
  }
  if (spec.has("eps_start") && spec.eps_form() == EpsForm::kFixed) {
    fail("eps_start must come with a learned eps, as in (eps=learned,eps_start=1), but eps is fixed");
  }
  if (spec.has("groups") && spec.has("group_size")) {
    fail("groups and group_size exclude each other: keep one, but both stand");
  }
}

// The bounds must not end before they start to grow.
void check_batch_renorm(const NormActSpec& spec) {
  const auto whole = [&](std::string_view key) { return static_cast<int64_t>(spec.number(key).value()); };
  for (const auto* key : {"r_end", "d_end"}) {
    if (whole(key) >= whole("warmup")) continue;
    throw Error("norm_act_spec", std::string(key) + " of 'brn' must be at least warmup, " +
                                     std::to_string(whole("warmup")) + ", but is " + std::to_string(whole(key)) +
                                     "; give warmup, r_end and d_end");
  }
}

constexpr std::array kNorms{
    NormRow{.name = "none", .description = "no normalisation", .affine = false},
    NormRow{
        .name = "frn",
        .description = "filter response: x/sqrt(mean(x^2) + eps) per sample and channel (the paper's)",
        .group_rule = GroupRule::kChannel,
        .default_eps = kUncenteredEps,
        .options = kChannelOptions,
        .check = check_per_sample,
    },
    NormRow{
        .name = "gfrn",
        .description = "filter response over groups of 32 channels",
        .group_rule = GroupRule::kSized,
        .default_eps = kUncenteredEps,
        .options = kSizedOptions,
        .check = check_per_sample,
    },
    NormRow{
        .name = "lfrn",
        .description = "filter response over all channels",
        .group_rule = GroupRule::kLayer,
        .default_eps = kUncenteredEps,
        .options = kLayerOptions,
        .check = check_per_sample,
    },
    NormRow{
        .name = "in",
        .description = "instance norm: mean and variance per sample and channel",
        .centered = true,
        .group_rule = GroupRule::kChannel,
        .default_eps = kPyTorchEps,
        .options = kChannelOptions,
        .check = check_per_sample,
    },
    NormRow{
        .name = "gn",
        .description = "group norm: mean and variance per sample over groups of 32 channels",
        .centered = true,
        .group_rule = GroupRule::kSized,
        .default_eps = kPyTorchEps,
        .options = kSizedOptions,
        .check = check_per_sample,
    },
    NormRow{
        .name = "ln",
        .description = "layer norm: mean and variance per sample over all channels",
        .centered = true,
        .group_rule = GroupRule::kLayer,
        .default_eps = kPyTorchEps,
        .options = kLayerOptions,
        .check = check_per_sample,
    },
    NormRow{
        .name = "bn",
        .description = "batch norm: mean and variance per channel over the batch",
        .centered = true,
        .batch_method = true,
        .default_eps = kPyTorchEps,
        .options = kBatchOptions,
    },
    NormRow{
        .name = "brn",
        .description = "batch renormalisation: batch norm corrected towards the running statistics",
        .centered = true,
        .batch_method = true,
        .default_eps = kPyTorchEps,
        .options = kRenormOptions,
        .check = check_batch_renorm,
    },
};

constexpr std::array kActivations{
    ActivationRow{.kind = Activation::kNone, .name = kNoActivation, .description = "identity"},
    ActivationRow{.kind = Activation::kRelu, .name = "relu", .description = "max(y, 0)"},
    ActivationRow{
        .kind = Activation::kTlu,
        .name = "tlu",
        .description = "max(y, tau), tau learned per channel",
        .uses_tau = true,
    },
    ActivationRow{
        .kind = Activation::kPrelu,
        .name = "prelu",
        .description = "max(y, kappa*y), kappa learned per channel",
        .uses_kappa = true,
    },
    ActivationRow{
        .kind = Activation::kAffineTlu,
        .name = "affine_tlu",
        .description = "max(y, kappa*y + tau), both learned per channel",
        .uses_tau = true,
        .uses_kappa = true,
    },
};

constexpr bool stand_in_the_order_of_the_enum() {
  for (size_t i = 0; i < kActivations.size(); ++i) {
    if (kActivations[i].kind != static_cast<Activation>(i)) return false;
  }
  return true;
}
static_assert(stand_in_the_order_of_the_enum());

}  // namespace

std::span<const NormRow> norm_table() { return kNorms; }
std::span<const ActivationRow> activation_table() { return kActivations; }
const ActivationRow& row_of(Activation activation) { return kActivations.at(static_cast<size_t>(activation)); }

}  // namespace frn
