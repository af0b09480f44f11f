#include "frn/nn/parameter_groups.h"

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/instancenorm.h>
#include <torch/nn/modules/normalization.h>

#include <unordered_map>

#include "frn/nn/norm_act.h"

namespace frn {
namespace {

template <typename... Types>
bool is_any_of(const torch::nn::Module& module) {
  return ((dynamic_cast<const Types*>(&module) != nullptr) || ...);
}

// Norms, and activations that learn: what decays with DecayRule::norms.
bool is_norm_or_activation(const torch::nn::Module& layer) {
  using namespace torch::nn;
  return is_any_of<NormActImpl, BatchNorm1dImpl, BatchNorm2dImpl, BatchNorm3dImpl, InstanceNorm1dImpl,
                   InstanceNorm2dImpl, InstanceNorm3dImpl, GroupNormImpl, LayerNormImpl, PReLUImpl>(layer);
}

// bias_ih_l0 of torch::nn::LSTM and in_proj_bias of MultiheadAttention are biases too.
bool is_bias(const std::string& name) { return ("_" + name + "_").find("_bias_") != std::string::npos; }

struct Parameter {
  std::string name;
  at::Tensor value;
  bool decays;
};

}  // namespace

ParameterGroups parameter_groups(const torch::nn::Module& module, const DecayRule& rule) {
  std::vector<Parameter> all;
  std::unordered_map<const at::TensorImpl*, size_t> places;  // of parameters that layers may share
  for (const auto& layer : module.named_modules()) {
    const bool is_norm = is_norm_or_activation(*layer.value());
    for (const auto& parameter : layer.value()->named_parameters(/*recurse=*/false)) {
      // The gain of standardised weights scales a filter's results, as a norm's weight does.
      const bool scales = is_norm || parameter.key() == "gain";
      const bool decays = scales ? rule.norms : !is_bias(parameter.key()) || rule.biases;
      const auto name = layer.key().empty() ? parameter.key() : layer.key() + "." + parameter.key();
      const auto [place, is_new] = places.emplace(parameter.value().unsafeGetTensorImpl(), all.size());
      if (is_new) {
        all.push_back({name, parameter.value(), decays});
      } else {
        all[place->second].decays = all[place->second].decays && decays;
      }
    }
  }
  ParameterGroups groups;
  for (auto& [name, value, decays] : all) {
    (decays ? groups.decayed : groups.not_decayed).emplace_back(std::move(name), std::move(value));
  }
  return groups;
}

}  // namespace frn
