// How the convolutions of a network standardise their weights: `off`, `plain`, `scaled` or `gain`, with an eps of one's
// own as in `plain(eps=1e-8)`. No torch here.
#pragma once

#include <string>
#include <string_view>

namespace frn {

// Each filter w of fan-in n becomes (w - mean(w))/sqrt(var(w) + eps), times
enum class WeightForm {
  kOff,     // (it stays as it is)
  kPlain,   // 1 (Qiao et al. 2019; timm's StdConv2d, BiT)
  kScaled,  // 1/sqrt(n), so that a filter of unit inputs has unit outputs
  kGain,    // gain/sqrt(n), with a gain per filter that is learned and starts at 1 (timm's ScaledStdConv2d, NFNets)
};

struct WeightSpec {
  static constexpr double kEps = 1e-6;  // timm's

  WeightForm form = WeightForm::kOff;
  double eps = kEps;

  // Throws frn::Error, which says what to write instead.
  static WeightSpec parse(std::string_view text);
  // Parses back to an equal one.
  std::string to_string() const;

  bool operator==(const WeightSpec&) const = default;
};

}  // namespace frn
