// InceptionV3 (Szegedy et al., "Rethinking the Inception architecture", 2015) with its auxiliary head. Names are
// torchvision's, with norm for bn. The head's second convolution leaves maps of one value, which its norm must survive.
#include <ATen/ops/cat.h>

#include "frn/models/networks.h"
#include "frn/models/parts.h"

namespace frn::models {
namespace {

ConvShape conv(int64_t in, int64_t out, int64_t height, int64_t width) {
  return {.in = in, .out = out, .kernel = {height, width}, .padding = {height / 2, width / 2}};
}
ConvShape unpadded(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  return {.in = in, .out = out, .kernel = {kernel, kernel}, .stride = stride};
}

// A mixed block: named branches whose results stand side by side. Filter counts are rounded to what the norm takes.
class Mixed : public torch::nn::Module {
 public:
  explicit Mixed(NormActSpec norm, int64_t in) : norm_(std::move(norm)), in_(in) {}
  virtual at::Tensor forward(const at::Tensor& x) = 0;
  int64_t out() const { return out_; }

 protected:
  using Chain = std::vector<ConvNormAct>;
  // A convolution registered under `name`; its filters are rounded.
  ConvNormAct layer(const std::string& name, ConvShape shape) {
    shape.out = filters(norm_, shape.out);
    return register_module(name, ConvNormAct(norm_, shape));
  }
  // name_1, name_2, ...: each takes what the one before gives.
  Chain chain(const std::string& name, std::vector<ConvShape> shapes, bool numbered = true) {
    Chain layers;
    int64_t channels = in_;
    for (auto& shape : shapes) {
      shape.in = channels;
      layers.push_back(layer(numbered ? name + "_" + std::to_string(layers.size() + 1) : name, shape));
      channels = filters(norm_, shape.out);
    }
    last_ = channels;
    return layers;
  }
  // The same as a branch of its own, whose channels are part of the result.
  Chain branch(const std::string& name, std::vector<ConvShape> shapes, bool numbered = true) {
    auto layers = chain(name, std::move(shapes), numbered);
    out_ += last_;
    return layers;
  }
  static at::Tensor run(Chain& layers, at::Tensor x) {
    for (auto& one : layers) x = one->forward(x);
    return x;
  }
  static at::Tensor averaged(const at::Tensor& x) { return at::avg_pool2d(x, {3, 3}, {1, 1}, {1, 1}); }
  static at::Tensor halved(const at::Tensor& x) { return at::max_pool2d(x, {3, 3}, {2, 2}); }

  NormActSpec norm_;
  int64_t in_;
  int64_t out_ = 0;
  int64_t last_ = 0;
};

// 35x35 maps.
class MixedA : public Mixed {
 public:
  MixedA(const NormActSpec& norm, int64_t in, int64_t pool_filters)
      : Mixed(norm, in),
        one_(branch("branch1x1", {conv(0, 64, 1, 1)}, false)),
        five_(branch("branch5x5", {conv(0, 48, 1, 1), conv(0, 64, 5, 5)})),
        three_(branch("branch3x3dbl", {conv(0, 64, 1, 1), conv(0, 96, 3, 3), conv(0, 96, 3, 3)})),
        pool_(branch("branch_pool", {conv(0, pool_filters, 1, 1)}, false)) {}
  at::Tensor forward(const at::Tensor& x) override {
    return at::cat({run(one_, x), run(five_, x), run(three_, x), run(pool_, averaged(x))}, 1);
  }

 private:
  Chain one_, five_, three_, pool_;
};

// From 35x35 to 17x17.
class MixedB : public Mixed {
 public:
  MixedB(const NormActSpec& norm, int64_t in)
      : Mixed(norm, in),
        three_(branch("branch3x3", {unpadded(0, 384, 3, 2)}, false)),
        double_(branch("branch3x3dbl", {conv(0, 64, 1, 1), conv(0, 96, 3, 3), unpadded(0, 96, 3, 2)})) {
    out_ += in;
  }
  at::Tensor forward(const at::Tensor& x) override { return at::cat({run(three_, x), run(double_, x), halved(x)}, 1); }

 private:
  Chain three_, double_;
};

// 17x17 maps, with 7x7 convolutions factored into 1x7 and 7x1.
class MixedC : public Mixed {
 public:
  MixedC(const NormActSpec& norm, int64_t in, int64_t c7)
      : Mixed(norm, in),
        one_(branch("branch1x1", {conv(0, 192, 1, 1)}, false)),
        seven_(branch("branch7x7", {conv(0, c7, 1, 1), conv(0, c7, 1, 7), conv(0, 192, 7, 1)})),
        double_(branch("branch7x7dbl", {conv(0, c7, 1, 1), conv(0, c7, 7, 1), conv(0, c7, 1, 7), conv(0, c7, 7, 1),
                                        conv(0, 192, 1, 7)})),
        pool_(branch("branch_pool", {conv(0, 192, 1, 1)}, false)) {}
  at::Tensor forward(const at::Tensor& x) override {
    return at::cat({run(one_, x), run(seven_, x), run(double_, x), run(pool_, averaged(x))}, 1);
  }

 private:
  Chain one_, seven_, double_, pool_;
};

// From 17x17 to 8x8.
class MixedD : public Mixed {
 public:
  MixedD(const NormActSpec& norm, int64_t in)
      : Mixed(norm, in),
        three_(branch("branch3x3", {conv(0, 192, 1, 1), unpadded(0, 320, 3, 2)})),
        seven_(branch("branch7x7x3",
                      {conv(0, 192, 1, 1), conv(0, 192, 1, 7), conv(0, 192, 7, 1), unpadded(0, 192, 3, 2)})) {
    out_ += in;
  }
  at::Tensor forward(const at::Tensor& x) override { return at::cat({run(three_, x), run(seven_, x), halved(x)}, 1); }

 private:
  Chain three_, seven_;
};

// 8x8 maps; the 3x3 convolutions fan out into 1x3 beside 3x1.
class MixedE : public Mixed {
 public:
  MixedE(const NormActSpec& norm, int64_t in)
      : Mixed(norm, in),
        one_(branch("branch1x1", {conv(0, 320, 1, 1)}, false)),
        three_(chain("branch3x3", {conv(0, 384, 1, 1)})),
        three_wide_(fan_out("branch3x3_2a", 1, 3)),
        three_tall_(fan_out("branch3x3_2b", 3, 1)),
        double_(chain("branch3x3dbl", {conv(0, 448, 1, 1), conv(0, 384, 3, 3)})),
        double_wide_(fan_out("branch3x3dbl_3a", 1, 3)),
        double_tall_(fan_out("branch3x3dbl_3b", 3, 1)),
        pool_(branch("branch_pool", {conv(0, 192, 1, 1)}, false)) {}
  at::Tensor forward(const at::Tensor& x) override {
    const auto three = run(three_, x);
    const auto both = run(double_, x);
    return at::cat({run(one_, x), three_wide_->forward(three), three_tall_->forward(three), double_wide_->forward(both),
                    double_tall_->forward(both), run(pool_, averaged(x))},
                   1);
  }

 private:
  // Of the chain made last.
  ConvNormAct fan_out(const std::string& name, int64_t height, int64_t width) {
    out_ += filters(norm_, 384);
    return layer(name, conv(last_, 384, height, width));
  }
  Chain one_, three_;
  ConvNormAct three_wide_, three_tall_;
  Chain double_;
  ConvNormAct double_wide_, double_tall_;
  Chain pool_;
};

class AuxiliaryHead : public torch::nn::Module {
 public:
  AuxiliaryHead(const NormActSpec& norm, int64_t in, int64_t classes)
      : conv0_(register_module("conv0", ConvNormAct(norm, conv(in, filters(norm, 128), 1, 1)))),
        conv1_(register_module(
            "conv1", ConvNormAct(for_single_values(norm), unpadded(filters(norm, 128), filters(norm, 768), 5, 1)))),
        fc_(register_module("fc", Linear(filters(norm, 768), classes))) {}
  at::Tensor forward(const at::Tensor& x) {
    const auto pooled = at::avg_pool2d(x, {5, 5}, {3, 3});
    return fc_->forward(average_over_map(conv1_->forward(conv0_->forward(pooled))));
  }

 private:
  ConvNormAct conv0_, conv1_;
  Linear fc_;
};

class InceptionV3 : public Model {
 public:
  explicit InceptionV3(const ModelOptions& options) : Model(options), dropout_(options.dropout.value()) {
    int64_t channels = options.input_channels;
    add_stem("Conv2d_1a_3x3", unpadded(channels, 32, 3, 2), channels);
    add_stem("Conv2d_2a_3x3", unpadded(channels, 32, 3, 1), channels);
    add_stem("Conv2d_2b_3x3", conv(channels, 64, 3, 3), channels);
    add_stem("Conv2d_3b_1x1", conv(channels, 80, 1, 1), channels);
    add_stem("Conv2d_4a_3x3", unpadded(channels, 192, 3, 1), channels);
    add_mixed<MixedA>("Mixed_5b", channels, 32);
    add_mixed<MixedA>("Mixed_5c", channels, 64);
    add_mixed<MixedA>("Mixed_5d", channels, 64);
    add_mixed<MixedB>("Mixed_6a", channels);
    add_mixed<MixedC>("Mixed_6b", channels, 128);
    add_mixed<MixedC>("Mixed_6c", channels, 160);
    add_mixed<MixedC>("Mixed_6d", channels, 160);
    add_mixed<MixedC>("Mixed_6e", channels, 192);
    before_auxiliary_ = mixed_.size();
    if (options.auxiliary) {
      auxiliary_ =
          register_module("AuxLogits", std::make_shared<AuxiliaryHead>(options.norm, channels, options.classes));
    }
    add_mixed<MixedD>("Mixed_7a", channels);
    add_mixed<MixedE>("Mixed_7b", channels);
    add_mixed<MixedE>("Mixed_7c", channels);
    fc_ = register_module("fc", Linear(channels, options.classes));
  }

 protected:
  ModelOutput run(const at::Tensor& x) override {
    constexpr size_t kBeforeFirstPool = 3;
    auto y = x;
    for (size_t i = 0; i < stem_.size(); ++i) {
      if (i == kBeforeFirstPool) y = at::max_pool2d(y, {3, 3}, {2, 2});
      y = stem_[i]->forward(y);
    }
    y = at::max_pool2d(y, {3, 3}, {2, 2});
    ModelOutput out;
    for (size_t i = 0; i < mixed_.size(); ++i) {
      if (i == before_auxiliary_ && auxiliary_ && is_training()) out.auxiliary = auxiliary_->forward(y);
      y = mixed_[i]->forward(y);
    }
    out.logits = fc_->forward(drop_units(average_over_map(y), dropout_, is_training()));
    return out;
  }

 private:
  void add_stem(const std::string& name, ConvShape shape, int64_t& channels) {
    shape.out = filters(options().norm, shape.out);
    stem_.emplace_back(register_module(name, ConvNormAct(options().norm, shape)));
    channels = shape.out;
  }
  template <class Block, class... More>
  void add_mixed(const std::string& name, int64_t& channels, More... more) {
    auto block = register_module(name, std::make_shared<Block>(options().norm, channels, more...));
    channels = block->out();
    mixed_.push_back(std::move(block));
  }

  double dropout_;
  std::vector<ConvNormAct> stem_;
  std::vector<std::shared_ptr<Mixed>> mixed_;
  size_t before_auxiliary_ = 0;
  std::shared_ptr<AuxiliaryHead> auxiliary_;
  Linear fc_{nullptr};
};

}  // namespace

std::shared_ptr<Model> make_inception_v3(const ModelOptions& options) { return std::make_shared<InceptionV3>(options); }

}  // namespace frn::models
