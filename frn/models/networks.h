// The constructors behind the rows of model_table(), one source file each.
#pragma once

#include <array>

#include "frn/models/model.h"

namespace frn::models {

struct ResNetShape {
  bool bottleneck;                // three convolutions per block, the last four times as wide; else two
  std::array<int64_t, 4> blocks;  // of each stage; 0 ends the list
  int64_t width;                  // filters of the first stage, doubled in each later one
  bool large_images;              // a 7x7 stem with stride 2 and a pooling layer; else a 3x3 stem
  bool pools_zeros = false;       // the stem's pooling sees zeros around the map, as BiT's; else nothing
};

std::shared_ptr<Model> make_resnet_v1(const ResNetShape& shape, const ModelOptions& options);
std::shared_ptr<Model> make_resnet_v2(const ResNetShape& shape, const ModelOptions& options);
std::shared_ptr<Model> make_inception_v3(const ModelOptions& options);

struct VggShape {
  int64_t pooled;          // the maps are averaged to this height and width before the linear layers
  int64_t hidden;          // width of the two hidden linear layers
  bool norm_after_linear;  // as in section 4.3 of the paper; else the convolutions alone are normalised, as in
                           // torchvision
};
std::shared_ptr<Model> make_vgg_a(const VggShape& shape, const ModelOptions& options);

struct RetinaNetShape {
  ResNetShape backbone;
  int64_t width = 256;      // channels of the pyramid and the heads
  int64_t head_layers = 4;  // convolutions of each head before the last one
};
std::shared_ptr<Model> make_retinanet(const RetinaNetShape& shape, const ModelOptions& options);

}  // namespace frn::models
