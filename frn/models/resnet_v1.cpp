// ResNet as first published (He et al., "Deep residual learning for image recognition", 2015), the backbone of
// detectors. Names are torchvision's, with norm for bn. The norm before the residual addition has no activation; the
// one after it has learned parameters of its own, where the activation learns any.
#include "frn/models/resnet_v1.h"

namespace frn::models {

class ResNetV1Block : public torch::nn::Module {
 public:
  ResNetV1Block(const NormActSpec& norm, int64_t in, int64_t out, int64_t stride, bool bottleneck) {
    const int64_t middle = bottleneck ? filters(norm, out / 4) : out;
    if (bottleneck) {
      add_layer(norm, same_conv(in, middle, 1));
      add_layer(norm, same_conv(middle, middle, 3, stride));
      add_layer(norm.with_activation(kNoActivation), same_conv(middle, out, 1));
    } else {
      add_layer(norm, same_conv(in, out, 3, stride));
      add_layer(norm.with_activation(kNoActivation), same_conv(out, out, 3));
    }
    act_ = register_module("act", activation_alone(norm).make(out));
    if (in == out && stride == 1) return;
    downsample_ =
        register_module("downsample", ConvNormAct(norm.with_activation(kNoActivation), same_conv(in, out, 1, stride)));
  }

  at::Tensor forward(const at::Tensor& x) {
    auto y = layers_[0].first->forward(x);
    for (size_t i = 1; i < layers_.size(); ++i) y = conv_of(layers_[i - 1].second, layers_[i].first, y);
    auto& norm = layers_.back().second;
    const auto shortcut = [&] { return downsample_ ? downsample_->forward(x) : x; };
    if (norm->adds_in_one_pass(y, *act_)) return norm->forward_added(y, shortcut(), *act_);
    y = norm->forward(y);
    return act_->forward_own(added_to(y, shortcut()));
  }

 private:
  void add_layer(const NormActSpec& norm, const ConvShape& shape) {
    const auto number = std::to_string(layers_.size() + 1);
    auto conv = register_module("conv" + number, Conv2d(shape));
    layers_.emplace_back(conv, register_module("norm" + number, norm.make(shape.out)));
  }

  std::vector<std::pair<Conv2d, NormAct>> layers_;
  NormAct act_{nullptr};
  ConvNormAct downsample_{nullptr};
};

ResNetV1Layers::ResNetV1Layers(torch::nn::Module& owner, const ResNetShape& shape, const NormActSpec& norm,
                               int64_t input_channels) {
  int64_t channels = filters(norm, shape.width);
  conv1_ = owner.register_module("conv1", Conv2d(same_conv(input_channels, channels, 7, 2)));
  norm1_ = owner.register_module("norm1", norm.make(channels));
  for (size_t s = 0; s < shape.blocks.size(); ++s) {
    const int64_t out = filters(norm, (shape.width << s) * (shape.bottleneck ? 4 : 1));
    auto layer = owner.register_module("layer" + std::to_string(s + 1), std::make_shared<Holder>());
    for (int64_t b = 0; b < shape.blocks[s]; ++b) {
      const int64_t stride = s > 0 && b == 0 ? 2 : 1;
      auto block = std::make_shared<ResNetV1Block>(norm, channels, out, stride, shape.bottleneck);
      stages_[s].push_back(layer->register_module(std::to_string(b), std::move(block)));
      channels = out;
    }
    channels_[s] = channels;
  }
}

std::array<at::Tensor, 4> ResNetV1Layers::maps(const at::Tensor& x) {
  std::array<at::Tensor, 4> out;
  auto y = at::max_pool2d(norm1_->forward(conv1_->forward(x)), {3, 3}, {2, 2}, {1, 1});
  for (size_t s = 0; s < stages_.size(); ++s) {
    for (auto& block : stages_[s]) y = block->forward(y);
    out[s] = y;
  }
  return out;
}

namespace {

class ResNetV1 : public Model {
 public:
  ResNetV1(const ResNetShape& shape, const ModelOptions& options)
      : Model(options), layers_(*this, shape, options.norm, options.input_channels) {
    fc_ = register_module("fc", Linear(layers_.channels().back(), options.classes));
  }

 protected:
  ModelOutput run(const at::Tensor& x) override {
    return {.logits = fc_->forward(average_over_map(layers_.maps(x).back()))};
  }

 private:
  ResNetV1Layers layers_;
  Linear fc_{nullptr};
};

}  // namespace

std::shared_ptr<Model> make_resnet_v1(const ResNetShape& shape, const ModelOptions& options) {
  return std::make_shared<ResNetV1>(shape, options);
}

}  // namespace frn::models
