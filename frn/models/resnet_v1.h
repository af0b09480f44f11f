// Private to models/: the layers of a ResNet as first published, for the classifier and for detectors.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "frn/models/networks.h"
#include "frn/models/parts.h"

namespace frn::models {

class ResNetV1Block;

class ResNetV1Layers {
 public:
  // Registers conv1, norm1, layer1 .. layer4 in the owner: torchvision's names, with norm for bn.
  ResNetV1Layers(torch::nn::Module& owner, const ResNetShape& shape, const NormActSpec& norm, int64_t input_channels);

  // The maps of the four stages, C2 to C5, of stride 4 to 32.
  std::array<at::Tensor, 4> maps(const at::Tensor& x);
  // Of each of them.
  const std::array<int64_t, 4>& channels() const { return channels_; }

 private:
  Conv2d conv1_{nullptr};
  NormAct norm1_{nullptr};
  std::array<std::vector<std::shared_ptr<ResNetV1Block>>, 4> stages_;
  std::array<int64_t, 4> channels_{};
};

}  // namespace frn::models
