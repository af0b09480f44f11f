// VGG-A, 11 layers (Simonyan and Zisserman, "Very deep convolutional networks", 2014, table 1), with a norm after every
// layer but the last, the linear ones included: the hardest case for FRN, whose maps are single values there
// (section 4.1 of the paper).
#include "frn/models/networks.h"
#include "frn/models/parts.h"

namespace frn::models {
namespace {

constexpr std::array<int64_t, 8> kFilters{64, 128, 256, 256, 512, 512, 512, 512};
constexpr std::array<bool, 8> kPoolAfter{true, true, false, true, false, true, false, true};

// A linear layer with its norm and activation, under the names `fc` and `norm`.
class LinearNormAct : public torch::nn::Module {
 public:
  LinearNormAct(const NormActSpec& norm, int64_t in, int64_t out)
      : fc_(register_module("fc", Linear(in, out))), norm_(register_module("norm", norm.make(out))) {}
  at::Tensor forward(const at::Tensor& x) { return norm_->forward(fc_->forward(x)); }

 private:
  Linear fc_;
  NormAct norm_;
};

class VggA : public Model {
 public:
  VggA(const VggShape& shape, const ModelOptions& options)
      : Model(options), pooled_(shape.pooled), dropout_(options.dropout.value()) {
    const auto& norm = options.norm;
    int64_t channels = options.input_channels;
    auto features = register_module("features", std::make_shared<Holder>());
    for (size_t i = 0; i < kFilters.size(); ++i) {
      auto conv = same_conv(channels, filters(norm, kFilters[i]), 3);
      conv.bias = true;
      convolutions_.emplace_back(features->register_module(std::to_string(i), ConvNormAct(norm, conv)));
      channels = conv.out;
    }
    const auto linear_norm = shape.norm_after_linear ? for_single_values(norm) : activation_alone(norm);
    const int64_t hidden = filters(linear_norm, shape.hidden);
    auto classifier = register_module("classifier", std::make_shared<Holder>());
    for (const int64_t in : {channels * pooled_ * pooled_, hidden}) {
      const auto name = std::to_string(hidden_.size());
      hidden_.push_back(classifier->register_module(name, std::make_shared<LinearNormAct>(linear_norm, in, hidden)));
    }
    auto last = classifier->register_module(std::to_string(hidden_.size()), std::make_shared<Holder>());
    fc_ = last->register_module("fc", Linear(hidden, options.classes));
  }

 protected:
  ModelOutput run(const at::Tensor& x) override {
    auto y = convolutions_[0]->conv()->forward(x);
    for (size_t i = 0; i < convolutions_.size(); ++i) {
      const bool last = i + 1 == convolutions_.size();
      if (!last && !kPoolAfter[i]) {
        y = conv_of(convolutions_[i]->norm(), convolutions_[i + 1]->conv(), y);
        continue;
      }
      y = convolutions_[i]->norm()->forward(y);
      if (kPoolAfter[i]) y = at::max_pool2d(y, {2, 2}, {2, 2});
      if (!last) y = convolutions_[i + 1]->conv()->forward(y);
    }
    y = average_to(y, pooled_).flatten(1);
    for (auto& layer : hidden_) y = drop_units(layer->forward(y), dropout_, is_training());
    return {fc_->forward(y), {}};
  }

 private:
  int64_t pooled_;
  double dropout_;
  std::vector<ConvNormAct> convolutions_;
  std::vector<std::shared_ptr<LinearNormAct>> hidden_;
  Linear fc_{nullptr};
};

}  // namespace

std::shared_ptr<Model> make_vgg_a(const VggShape& shape, const ModelOptions& options) {
  return std::make_shared<VggA>(shape, options);
}

}  // namespace frn::models
