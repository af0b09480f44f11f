#include "frn/nn/norms.h"

#include "frn/core/error.h"

namespace frn {
namespace {

// The options that were set.
class Written {
 public:
  template <typename T>
  Written& add(std::string_view key, const std::optional<T>& value) {
    if (value) options_.push_back({key, *value});
    return *this;
  }
  Written& add_eps(const std::optional<double>& eps, EpsForm form, const std::optional<double>& start) {
    add("eps_start", start);
    if (form == EpsForm::kFixed) return add("eps", eps);
    if (eps) throw Error("norm_act_spec", "eps is a constant or learned: set eps or eps_form, but both are set");
    options_.push_back({"eps", form == EpsForm::kLearned ? "learned" : "learned_exp"});
    return *this;
  }
  Written& add_if(bool condition, const NamedOption& option) {
    if (condition) options_.push_back(option);
    return *this;
  }
  const std::vector<NamedOption>& options() const { return options_; }

 private:
  std::vector<NamedOption> options_;
};

}  // namespace

template <detail::Method kMethod>
NormActSpec ChannelNormOptions<kMethod>::spec() const {
  const auto written = Written()
                           .add_eps(eps_, eps_form_, eps_start_)
                           .add_if(eps_per_channel_, {"eps_shape", "channel"})
                           .add_if(proxy_, {"proxy", true});
  return NormActSpec::of(kMethod.name, activation_, written.options());
}

template <detail::Method kMethod>
NormActSpec GroupNormOptions<kMethod>::spec() const {
  const auto written = Written()
                           .add_eps(eps_, eps_form_, eps_start_)
                           .add("groups", groups_)
                           .add("group_size", group_size_)
                           .add_if(proxy_, {"proxy", true});
  return NormActSpec::of(kMethod.name, activation_, written.options());
}

template <detail::Method kMethod>
NormActSpec LayerNormOptions<kMethod>::spec() const {
  const auto written = Written().add_eps(eps_, eps_form_, eps_start_).add_if(proxy_, {"proxy", true});
  return NormActSpec::of(kMethod.name, activation_, written.options());
}

NormActSpec BNOptions::spec() const {
  const auto written = Written().add("eps", eps_).add("momentum", momentum_).add_if(sync_, {"sync", true});
  return NormActSpec::of("bn", activation_, written.options());
}

NormActSpec BRNOptions::spec() const {
  auto written = Written().add("eps", eps_).add("momentum", momentum_).add("r_max", r_max_).add("d_max", d_max_);
  written.add("warmup", warmup_).add("r_end", r_end_).add("d_end", d_end_);
  return NormActSpec::of("brn", activation_, written.options());
}

template struct ChannelNormOptions<detail::kFrn>;
template struct ChannelNormOptions<detail::kIn>;
template struct GroupNormOptions<detail::kGfrn>;
template struct GroupNormOptions<detail::kGn>;
template struct LayerNormOptions<detail::kLfrn>;
template struct LayerNormOptions<detail::kLn>;

}  // namespace frn
