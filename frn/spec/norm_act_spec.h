// A layer is named `norm[(key=value,...)]+activation`: `frn+tlu`, `gn(groups=32)+relu`, `frn(eps=learned)+tlu`; or
// built from values, NormActSpec::of("frn", Activation::kTlu, {{"eps", 1e-7}}). The rows of norm_table() say what there
// is. No torch here.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frn/spec/norm_table.h"

namespace frn {

class NormAct;  // the module, in frn/nn/norm_act.h

// What an option is set to: a number, or one of its words. Implicit, so that {"eps", 1e-7} reads as it should.
class OptionValue {
 public:
  // NOLINTBEGIN(google-explicit-constructor)
  template <typename Number>
  requires(std::integral<Number> || std::floating_point<Number>) OptionValue(Number number)
      : number_(static_cast<double>(number)) {}
  OptionValue(bool flag) : word_(flag ? "true" : "false") {}
  OptionValue(std::string_view word) : word_(word) {}
  OptionValue(const char* word) : word_(word) {}
  // NOLINTEND(google-explicit-constructor)

  // None when it is a number.
  std::optional<std::string_view> word() const { return word_; }
  double number() const { return number_; }

 private:
  double number_ = 0;
  std::optional<std::string_view> word_;
};

struct NamedOption {
  std::string_view key;
  OptionValue value;
};

// A method with its options and an activation: a value that can be compared, printed and made into a module.
class NormActSpec {
 public:
  // Throws frn::Error, which says what to write instead.
  static NormActSpec parse(std::string_view text);
  // The same from values: numbers keep all their bits. `norm` is a name of norm_table().
  static NormActSpec of(std::string_view norm, Activation activation, const std::vector<NamedOption>& options = {});

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
  // The fixed value; eps_start() + kEpsFloor, where training starts, when eps is learned.
  double eps() const;
  double eps_start() const;
  bool eps_per_channel() const;
  // Whether the layer also normalises its activations. Without an activation there is nothing to normalise.
  bool proxy() const;

  // Groups of a layer of so many channels, for per-sample methods. Throws frn::Error when they do not divide.
  int64_t groups(int64_t channels) const;
  // A layer's channels must be a multiple of this: the group size, or the number of groups; 1 for the other methods.
  int64_t channel_multiple() const;

  NormActSpec with_activation(std::string_view name) const;
  NormActSpec with_activation(Activation activation) const;
  // The same with these options set anew. All at once, since some ask something of each other.
  NormActSpec with(const std::vector<NamedOption>& options) const;
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
  const OptionRow& option_row(std::string_view key) const;
  void add_option(std::string_view text);
  void add_option(const NamedOption& option);
  void sort_and_check();

  const NormRow* norm_ = nullptr;
  const ActivationRow* activation_ = nullptr;
  std::vector<Option> options_;  // in the table's order
};

}  // namespace frn
