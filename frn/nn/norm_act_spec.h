// nn/ holds the layers: modules over the fused operators and over batch statistics, and the one table that names them.
// No models, no data, no training.
//
// A layer is named `norm[(key=value,...)]+activation`: `frn+tlu`, `gn(groups=32)+relu`, `frn(eps=learned)+tlu`. The
// rows of norm_table() drive parsing, `frn info norms`, tests and docs; a new method is one module file and one row. No
// torch here.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace frn {

class NormAct;  // the module, in frn/nn/norm_act.h
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
  NumberKind kind;  // the numbers it takes, from min to max; kNone: words alone
  double min;
  double max;
  std::optional<double> default_value;      // none: without it the row's default_eps or another option decides
  std::span<const std::string_view> words;  // what may stand instead of a number
};

struct NormRow {
  std::string_view name;
  std::string_view description;
  bool centered;  // subtracts the mean
  GroupRule group_rule;
  bool batch_method;   // statistics over the batch, so results depend on batch_per_device
  double default_eps;  // 0: the method has none
  std::span<const OptionRow> options;
  void (*check)(const NormActSpec&);  // what options ask of each other; may be null
  NormAct (*make)(const NormActSpec&, int64_t channels);
};

struct ActivationRow {
  std::string_view name;
  std::string_view description;
  bool uses_tau;
  bool uses_kappa;
};

// All methods and all activations. The names of the latter are those of frn::activation_names().
std::span<const NormRow> norm_table();
std::span<const ActivationRow> activation_table();

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

// A method with its options and an activation: a value that can be compared, printed and made into a module.
class NormActSpec {
 public:
  // Throws frn::Error, which says what to write instead.
  static NormActSpec parse(std::string_view text);

  // The options as written, in the table's order; parses back to an equal spec.
  std::string to_string() const;

  const NormRow& norm() const { return *norm_; }
  const ActivationRow& activation() const { return *activation_; }

  // Whether the option is written out.
  bool has(std::string_view key) const;
  // The option's number: as written, else its default; none when it is a word or neither is there.
  std::optional<double> number(std::string_view key) const;
  // The option's word, empty when it is a number or not written.
  std::string_view word(std::string_view key) const;

  EpsForm eps_form() const;
  // The fixed value; kLearnedEpsStart + kEpsFloor, where training starts, when eps is learned.
  double eps() const;
  bool eps_per_channel() const;

  // Groups of a layer of so many channels, for per-sample methods. Throws frn::Error when they do not divide.
  int64_t groups(int64_t channels) const;
  // A layer's channels must be a multiple of this: the group size, or the number of groups; 1 for the other methods.
  int64_t channel_multiple() const;

  NormActSpec with_activation(std::string_view name) const;
  // The same with eps=learned. Throws frn::Error for methods whose eps cannot be learned.
  NormActSpec with_learned_eps() const;
  // The same with this eps.
  NormActSpec with_eps(double eps) const;

  // The module for x [N, channels, *], in float32 on the CPU. make_without_act: for use before a residual addition.
  NormAct make(int64_t channels) const;
  NormAct make_without_act(int64_t channels) const;

  bool operator==(const NormActSpec&) const = default;

 private:
  struct Option {
    const OptionRow* row;
    double number;
    std::string_view word;  // of row->words; empty: the number counts
    bool operator==(const Option&) const = default;
  };

  NormActSpec() = default;
  const Option* find(std::string_view key) const;
  void add_option(std::string_view text);
  NormActSpec with_option(std::string_view key, const std::string& text) const;

  const NormRow* norm_ = nullptr;
  const ActivationRow* activation_ = nullptr;
  std::vector<Option> options_;  // in the table's order
};

}  // namespace frn
