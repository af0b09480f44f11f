// Which parameters weight decay touches. The rule goes by what a parameter belongs to, not by its shape or its module's
// name: FRN's eps is one number, a linear layer's bias a vector.
#pragma once

#include <torch/nn/module.h>

#include <string>
#include <utility>
#include <vector>

namespace frn {

struct DecayRule {
  bool norms = false;   // of norms and of activations that learn, frn's and torch::nn's: gamma, beta, tau, kappa, eps
  bool biases = false;  // of convolutions, linear layers and others: by their names, which have "bias" in them
};

struct ParameterGroups {
  using List = std::vector<std::pair<std::string, at::Tensor>>;
  List decayed;
  List not_decayed;
};

// Every parameter of the module once, in the order of its layers. One that layers share has the name of its first
// place, and is not decayed if one of its places says so.
ParameterGroups parameter_groups(const torch::nn::Module& module, const DecayRule& rule = {});

}  // namespace frn
