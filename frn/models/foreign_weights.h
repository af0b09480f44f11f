// Weights of other libraries under our names, and ours under theirs. Only names, and the shape of timm's last layer,
// differ; numbers are never touched, so that gradients or momenta of the same names go through as well.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "frn/models/model.h"
#include "frn/nn/weights.h"

namespace frn {

struct ForeignModel {
  std::string_view library;  // torchvision or timm
  std::string_view name;     // resnet50
  std::string_view model;    // resnetv1-50
  std::string_view norm;     // as the library's network normalises: eps is in no weight
  std::string_view weights_standardised = "off";
};

std::span<const ForeignModel> foreign_models();
// `torchvision:resnet50`. Throws frn::Error, which lists the known ones.
const ForeignModel& find_foreign_model(std::string_view text);

// What names do not fit: tensors without a place in the model, and places without a tensor.
struct NameReport {
  std::vector<std::string> unexpected;
  std::vector<std::string> missing;
  std::string to_string() const;  // empty when all fit
};

// Strict: throws frn::Error that lists every name that does not fit. Partial: leaves them out and reports them.
NamedTensors from_foreign(const ForeignModel& foreign, const NamedTensors& theirs, LoadMode mode, NameReport& report);
NamedTensors to_foreign(const ForeignModel& foreign, const NamedTensors& ours, LoadMode mode, NameReport& report);

// The whole state of model `name` with another norm: convolutions and linear layers from `tensors` (ours by name, for
// example a BN network's), norms and activations as they start training. The number of classes and of input channels
// are those of the tensors. Throws frn::Error that lists what is missing or has another shape.
NamedTensors with_fresh_norms(std::string_view name, const NormActSpec& norm, const NamedTensors& tensors);

}  // namespace frn
