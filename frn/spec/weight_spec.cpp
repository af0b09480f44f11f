#include "frn/spec/weight_spec.h"

#include <array>
#include <charconv>
#include <system_error>
#include <vector>

#include "frn/core/error.h"
#include "frn/core/text.h"

namespace frn {
namespace {

constexpr std::array<std::string_view, 4> kForms{"off", "plain", "scaled", "gain"};  // in the order of the enum
constexpr std::string_view kEpsOpens = "(eps=";
constexpr double kSmallestWeightEps = 1e-30;
constexpr double kLargestWeightEps = 1;

[[noreturn]] void refuse(std::string_view text, std::string_view what) {
  throw Error("weights_standardised", std::string(what) + " but is '" + std::string(text) + "'");
}

}  // namespace

WeightSpec WeightSpec::parse(std::string_view text) {
  const auto name = text.substr(0, text.find('('));
  WeightSpec spec;
  bool known = false;
  for (size_t i = 0; i < kForms.size(); ++i) {
    if (kForms[i] != name) continue;
    spec.form = static_cast<WeightForm>(i);
    known = true;
  }
  if (!known) {
    refuse(text, "it must be one of " + join(kForms) +
                     ", with an eps where another than 1e-6 is wanted, as in plain(eps=1e-8),");
  }
  if (name.size() == text.size()) return spec;
  const auto rest = text.substr(name.size());
  const bool closed = rest.starts_with(kEpsOpens) && rest.ends_with(')') && spec.form != WeightForm::kOff;
  const auto digits = closed ? rest.substr(kEpsOpens.size(), rest.size() - kEpsOpens.size() - 1) : std::string_view();
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), spec.eps);
  if (!closed || error != std::errc() || end != digits.data() + digits.size() ||
      !(spec.eps >= kSmallestWeightEps && spec.eps <= kLargestWeightEps)) {
    refuse(text, "only an eps from 1e-30 to 1 may follow the form, as in plain(eps=1e-8), and nothing follows off,");
  }
  return spec;
}

std::string WeightSpec::to_string() const {
  std::string out(kForms.at(static_cast<size_t>(form)));
  if (form == WeightForm::kOff || eps == kEps) return out;
  std::array<char, 32> buffer;
  const auto* const end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), eps).ptr;
  return out.append(kEpsOpens).append(std::string_view(buffer.data(), end)).append(")");
}

}  // namespace frn
