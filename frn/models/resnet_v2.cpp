// ResNet with pre-activation and identity shortcuts (He et al., "Identity mappings in deep residual networks", 2016).
// Names are those of timm's resnetv2 models. The stride sits in the 3x3 convolution, and a block that changes the shape
// projects its activated input, both as there.
#include "frn/models/networks.h"
#include "frn/models/parts.h"

namespace frn::models {
namespace {

class PreActBlock : public torch::nn::Module {
 public:
  PreActBlock(const NormActSpec& norm, int64_t in, int64_t out, int64_t stride, bool bottleneck)
      : norm1_(register_module("norm1", norm.make(in))) {
    const int64_t middle = bottleneck ? filters(norm, out / 4) : out;
    if (bottleneck) {
      conv1_ = register_module("conv1", Conv2d(same_conv(in, middle, 1)));
      norm2_ = register_module("norm2", norm.make(middle));
      conv2_ = register_module("conv2", Conv2d(same_conv(middle, middle, 3, stride)));
      norm3_ = register_module("norm3", norm.make(middle));
      conv3_ = register_module("conv3", Conv2d(same_conv(middle, out, 1)));
    } else {
      conv1_ = register_module("conv1", Conv2d(same_conv(in, out, 3, stride)));
      norm2_ = register_module("norm2", norm.make(out));
      conv2_ = register_module("conv2", Conv2d(same_conv(out, out, 3)));
    }
    if (in == out && stride == 1) return;
    auto downsample = register_module("downsample", std::make_shared<Holder>());
    projection_ = downsample->register_module("conv", Conv2d(same_conv(in, out, 1, stride)));
  }

  at::Tensor forward(const at::Tensor& x) {
    auto shortcut = x;
    at::Tensor y;
    if (projection_) {
      std::tie(shortcut, y) = convs_of(norm1_, projection_, conv1_, x);
    } else {
      y = conv_of(norm1_, conv1_, x);
    }
    y = conv_of(norm2_, conv2_, y);
    if (conv3_) y = conv_of(norm3_, conv3_, y);
    return y.add_(shortcut);  // no convolution keeps its result for backward
  }

 private:
  NormAct norm1_{nullptr}, norm2_{nullptr}, norm3_{nullptr};
  Conv2d conv1_{nullptr}, conv2_{nullptr}, conv3_{nullptr}, projection_{nullptr};
};

class ResNetV2 : public Model {
 public:
  ResNetV2(const ResNetShape& shape, const ModelOptions& options)
      : Model(options), large_images_(shape.large_images), pools_zeros_(shape.pools_zeros) {
    const auto& norm = options.norm;
    int64_t channels = filters(norm, shape.width);
    auto stem = register_module("stem", std::make_shared<Holder>());
    stem_ = stem->register_module("conv", Conv2d(large_images_ ? same_conv(options.input_channels, channels, 7, 2)
                                                               : same_conv(options.input_channels, channels, 3)));
    auto stages = register_module("stages", std::make_shared<Holder>());
    for (size_t s = 0; s < shape.blocks.size() && shape.blocks[s] > 0; ++s) {
      const int64_t out = filters(norm, (shape.width << s) * (shape.bottleneck ? 4 : 1));
      auto stage = stages->register_module(std::to_string(s), std::make_shared<Holder>());
      auto blocks = stage->register_module("blocks", std::make_shared<Holder>());
      for (int64_t b = 0; b < shape.blocks[s]; ++b) {
        const int64_t stride = s > 0 && b == 0 ? 2 : 1;
        auto block = std::make_shared<PreActBlock>(norm, channels, out, stride, shape.bottleneck);
        blocks_.push_back(blocks->register_module(std::to_string(b), std::move(block)));
        channels = out;
      }
    }
    norm_ = register_module("norm", norm.make(channels));
    auto head = register_module("head", std::make_shared<Holder>());
    fc_ = head->register_module("fc", Linear(channels, options.classes));
  }

 protected:
  ModelOutput run(const at::Tensor& x) override {
    auto y = stem_->forward(x);
    if (pools_zeros_) y = at::constant_pad_nd(y, {1, 1, 1, 1}, 0);
    const int64_t padding = pools_zeros_ ? 0 : 1;
    if (large_images_) y = at::max_pool2d(y, {3, 3}, {2, 2}, {padding, padding});
    for (auto& block : blocks_) y = block->forward(y);
    return {fc_->forward(average_over_map(norm_->forward(y))), {}};
  }

 private:
  bool large_images_;
  bool pools_zeros_;
  Conv2d stem_{nullptr};
  std::vector<std::shared_ptr<PreActBlock>> blocks_;
  NormAct norm_{nullptr};
  Linear fc_{nullptr};
};

}  // namespace

std::shared_ptr<Model> make_resnet_v2(const ResNetShape& shape, const ModelOptions& options) {
  return std::make_shared<ResNetV2>(shape, options);
}

}  // namespace frn::models
