#include "frn/nn/parameter_groups.h"

#include "frn/nn/norm_act.h"

namespace frn {

ParameterGroups parameter_groups(const torch::nn::Module& module, const DecayRule& rule) {
  ParameterGroups groups;
  for (const auto& layer : module.named_modules()) {
    const bool is_norm = dynamic_cast<const NormActImpl*>(layer.value().get()) != nullptr;
    for (const auto& parameter : layer.value()->named_parameters(/*recurse=*/false)) {
      const bool decays = is_norm ? rule.norms : parameter.key() != "bias" || rule.biases;
      const auto name = layer.key().empty() ? parameter.key() : layer.key() + "." + parameter.key();
      (decays ? groups.decayed : groups.not_decayed).emplace_back(name, parameter.value());
    }
  }
  return groups;
}

}  // namespace frn
