// spec/ holds what a layer can be: the table of normalisations with their options, the table of activations, and the
// names that stand for a choice among them (norm_act_spec.h). No torch: the operators' library, the modules, the
// command line and the fuzzer all read it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace frn {

class NormActSpec;

// Which channels of a sample share their statistics.
enum class GroupRule {
  kNone,     // not a per-sample method
  kChannel,  // each channel for itself
  kSized,    // groups of `group_size` channels, or `groups` groups
  kLayer,    // all together
};

enum class NumberKind { kNone, kReal, kInteger };

struct OptionRow {
  std::string_view key;
  std::string_view description;
  NumberKind kind = NumberKind::kNone;  // the numbers it takes, from min to max; kNone: words alone
  double min = 0;
  double max = 0;
  // None: without it the row's default_eps or another option decides.
  std::optional<double> default_value = std::nullopt;
  std::span<const std::string_view> words = {};  // what may stand instead of a number
};

struct NormRow {
  std::string_view name;
  std::string_view description;
  bool affine = true;     // has weight and bias
  bool centered = false;  // subtracts the mean
  GroupRule group_rule = GroupRule::kNone;
  bool batch_method = false;  // statistics over the batch, so results depend on batch_per_device
  double default_eps = 0;     // 0: the method has none
  std::span<const OptionRow> options = {};
  void (*check)(const NormActSpec&) = nullptr;  // what options ask of each other
};

// z = max(y, kappa*y + tau), with parts left out.
enum class Activation { kNone, kRelu, kTlu, kPrelu, kAffineTlu };

struct ActivationRow {
  Activation kind;
  std::string_view name;
  std::string_view description;
  bool uses_tau = false;
  bool uses_kappa = false;
};

// All methods, and all activations in the order of the enum.
std::span<const NormRow> norm_table();
std::span<const ActivationRow> activation_table();
const ActivationRow& row_of(Activation activation);

// How eps comes from the parameter eps_l (section 3.3 of the paper).
enum class EpsForm {
  kFixed,
  kLearned,             // kEpsFloor + |eps_l|
  kLearnedExponential,  // kEpsFloor + exp(eps_l)
};
inline constexpr double kEpsFloor = 1e-6;         // section 3.3
inline constexpr double kLearnedEpsStart = 1e-4;  // section 3.3: what the learned part of eps starts at, in both forms
inline constexpr int64_t kChannelsPerGroup = 32;  // section 4.1: "a group size of 32"
inline constexpr std::string_view kNoActivation = "none";

}  // namespace frn
