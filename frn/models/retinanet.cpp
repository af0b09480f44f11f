// RetinaNet (Lin et al., "Focal loss for dense object detection", 2017) in two styles: the paper's, as TensorFlow's
// Object Detection API builds it, and torchvision's. A ResNet's maps C3 to C5 become a pyramid P3 to P7, on which two
// heads look for classes and boxes. Names are torchvision's, with norm for bn; norms that it has not are under `norm`.
#include <ATen/ops/cat.h>
#include <ATen/ops/upsample_nearest2d.h>

#include <cmath>

#include "frn/models/resnet_v1.h"

namespace frn::models {
namespace {

using detection::kLevels;
using detection::Style;

constexpr int64_t kBackboneLevels = 3;          // P3 to P5 come from C3 to C5, P6 and P7 from P5
constexpr int64_t kMostValuesThatLearnEps = 2;  // of a side; a map of 2x2 values or fewer

constexpr double kBackboneDeviation = 0.03;
constexpr double kHeadDeviation = 0.01;
constexpr double kPaperClassBias = -4.6;
constexpr double kPrior = 0.01;  // torchvision's: the score of an untrained network

// In the paper's style batch norm keeps its averages long; what the spec says itself stands.
NormActSpec of_style(const NormActSpec& norm, Style style) {
  if (style != Style::kPaper || norm.norm().name != "bn") return norm;
  auto out = norm;
  if (!norm.has("eps")) out = out.with({{"eps", 1e-3}});
  if (!norm.has("momentum")) out = out.with({{"momentum", 0.003}});
  return out;
}

Conv2d biased_conv(int64_t in, int64_t out, int64_t kernel, int64_t stride = 1) {
  auto shape = same_conv(in, out, kernel, stride);
  shape.bias = true;
  return Conv2d(shape);
}

// What the parts of a network share.
struct Plan {
  NormActSpec norm;
  Style style;
  int64_t image_size;
  int64_t width;
  int64_t head_layers;
  int64_t classes;

  bool paper() const { return style == Style::kPaper; }
  // Of a level's maps.
  NormActSpec norm_of(int level) const {
    const bool small = detection::level_side(image_size, level) <= kMostValuesThatLearnEps;
    return small ? for_single_values(norm) : norm;
  }
};

using Maps = std::array<at::Tensor, kLevels>;

class Pyramid : public torch::nn::Module {
 public:
  Pyramid(const Plan& plan, const std::array<int64_t, 4>& channels) : plan_(plan) {
    auto inner = register_module("inner_blocks", std::make_shared<Holder>());
    auto layers = register_module("layer_blocks", std::make_shared<Holder>());
    auto extra = register_module("extra_blocks", std::make_shared<Holder>());
    for (size_t i = 0; i < kBackboneLevels; ++i) {
      lateral_[i] = numbered(*inner, i)->register_module("0", biased_conv(channels[i + 1], plan.width, 1));
      if (plan.paper() && i + 1 == kBackboneLevels) continue;  // P5 is the lateral as it is
      smooth_[i] = register_conv(*numbered(*layers, i), "0", plan.width, 1);
      if (plan.paper()) norms_[i] = register_norm(*numbered(*layers, i), "norm", static_cast<int>(i));
    }
    for (size_t i = kBackboneLevels; i < kLevels; ++i) {
      const auto name = "p" + std::to_string(i + 3);
      smooth_[i] = register_conv(*extra, name, plan.width, 2);
      if (plan.paper()) norms_[i] = register_norm(*extra, name + "_norm", static_cast<int>(i));
    }
  }

  Maps forward(const std::array<at::Tensor, 4>& backbone) {
    Maps out;
    at::Tensor from_above;
    for (size_t i = kBackboneLevels; i-- > 0;) {
      auto map = lateral_[i]->forward(backbone[i + 1]);
      if (from_above.defined()) map = added_to(map, at::upsample_nearest2d(from_above, {map.size(2), map.size(3)}));
      from_above = map;
      out[i] = finished(map, i);
    }
    for (size_t i = kBackboneLevels; i < kLevels; ++i) {
      // Torchvision has a ReLU before P7's convolution, and none after either.
      const auto& below = out[i - 1];
      out[i] = finished(plan_.paper() || i == kBackboneLevels ? below : below.relu(), i);
    }
    return out;
  }

 private:
  static std::shared_ptr<Holder> numbered(Holder& parent, size_t i) {
    const auto name = std::to_string(i);
    if (parent.named_children().contains(name)) return parent.named_children()[name];
    return parent.register_module(name, std::make_shared<Holder>());
  }

  // With a bias where no norm follows.
  Conv2d register_conv(Holder& parent, const std::string& name, int64_t width, int64_t stride) {
    return parent.register_module(
        name, plan_.paper() ? Conv2d(same_conv(width, width, 3, stride)) : biased_conv(width, width, 3, stride));
  }

  NormAct register_norm(Holder& parent, const std::string& name, int level) {
    return parent.register_module(name, plan_.norm_of(level).make(plan_.width));
  }

  at::Tensor finished(at::Tensor map, size_t level) {
    if (smooth_[level]) map = smooth_[level]->forward(map);
    return norms_[level] ? norms_[level]->forward(map) : map;
  }

  Plan plan_;
  std::array<Conv2d, kBackboneLevels> lateral_{Conv2d{nullptr}, Conv2d{nullptr}, Conv2d{nullptr}};
  std::array<Conv2d, kLevels> smooth_{Conv2d{nullptr}, Conv2d{nullptr}, Conv2d{nullptr}, Conv2d{nullptr},
                                      Conv2d{nullptr}};
  std::array<NormAct, kLevels> norms_{NormAct{nullptr}, NormAct{nullptr}, NormAct{nullptr}, NormAct{nullptr},
                                      NormAct{nullptr}};
};

// Its convolutions see all levels; in the paper's style every level has norms of its own, since statistics differ from
// level to level.
class Head : public torch::nn::Module {
 public:
  // `numbers` for each anchor.
  Head(const Plan& plan, const std::string& last_name, int64_t numbers) : numbers_(numbers) {
    auto convs = register_module("conv", std::make_shared<Holder>());
    auto norms = register_module("norm", std::make_shared<Holder>());
    for (int64_t i = 0; i < plan.head_layers; ++i) {
      auto layer = convs->register_module(std::to_string(i), std::make_shared<Holder>());
      convs_.emplace_back(layer->register_module(
          "0", plan.paper() ? Conv2d(same_conv(plan.width, plan.width, 3)) : biased_conv(plan.width, plan.width, 3)));
    }
    for (int level = 0; level < kLevels; ++level) {
      auto of_level = norms->register_module(std::to_string(level), std::make_shared<Holder>());
      const auto spec = plan.paper() ? plan.norm_of(level) : activation_alone(plan.norm);
      for (int64_t i = 0; i < plan.head_layers; ++i) {
        norms_[static_cast<size_t>(level)].emplace_back(
            of_level->register_module(std::to_string(i), spec.make(plan.width)));
      }
    }
    auto last = same_conv(plan.width, detection::anchors_per_cell(plan.style) * numbers, 3);
    last.bias = true;
    last.gives_logits = true;
    last_ = register_module(last_name, Conv2d(last));
  }

  // [N, anchors, numbers]
  at::Tensor forward(const Maps& maps) {
    std::vector<at::Tensor> filters;  // the same for all levels
    for (const auto& conv : convs_) filters.push_back(conv->filters());
    const auto last_filters = last_->filters();
    std::vector<at::Tensor> out;
    for (size_t level = 0; level < kLevels; ++level) {
      auto y = convs_[0]->forward(maps[level], filters[0]);
      for (size_t i = 1; i < convs_.size(); ++i) y = conv_of_own(norms_[level][i - 1], convs_[i], filters[i], y);
      y = conv_of_own(norms_[level].back(), last_, last_filters, y);
      out.push_back(y.permute({0, 2, 3, 1}).reshape({y.size(0), -1, numbers_}));
    }
    return at::cat(out, 1);
  }

  void start_weights(double last_bias) {
    for (auto& conv : convs_) start(*conv);
    start(*last_);
    last_->bias.fill_(last_bias);
  }

 private:
  static void start(detail::Conv2dImpl& conv) {
    conv.weight.normal_(0, kHeadDeviation);
    if (conv.bias.defined()) conv.bias.zero_();
  }

  int64_t numbers_;
  std::vector<Conv2d> convs_;
  std::array<std::vector<NormAct>, kLevels> norms_;
  Conv2d last_{nullptr};
};

// As torch.nn.init.trunc_normal_ with bounds of two deviations, which TensorFlow's initialiser has.
void truncated_normal(const at::Tensor& weight, double deviation) {
  const double outside = std::erfc(std::sqrt(2.0));  // of a normal number to be beyond two deviations
  weight.uniform_(-1 + outside, 1 - outside).erfinv_().mul_(deviation * std::sqrt(2.0));
}

class RetinaNet : public Model {
 public:
  RetinaNet(const RetinaNetShape& shape, const ModelOptions& options)
      : Model(options),
        plan_{.norm = of_style(options.norm, options.detector.style),
              .style = options.detector.style,
              .image_size = options.detector.image_size.value_or(0),
              .width = filters(options.norm, shape.width),
              .head_layers = shape.head_layers,
              .classes = options.classes},
        backbone_(register_module("backbone", std::make_shared<Holder>())),
        body_(*backbone_->register_module("body", std::make_shared<Holder>()), shape.backbone, plan_.norm,
              options.input_channels) {
    pyramid_ = backbone_->register_module("fpn", std::make_shared<Pyramid>(plan_, body_.channels()));
    auto head = register_module("head", std::make_shared<Holder>());
    classes_ =
        head->register_module("classification_head", std::make_shared<Head>(plan_, "cls_logits", options.classes));
    boxes_ = head->register_module("regression_head", std::make_shared<Head>(plan_, "bbox_reg", 4));
  }

 protected:
  ModelOutput run(const at::Tensor& x) override {
    const auto maps = pyramid_->forward(body_.maps(x));
    return {.logits = classes_->forward(maps), .codes = boxes_->forward(maps)};
  }

  void start_weights() override {
    const torch::NoGradGuard no_grad;
    Model::start_weights();
    if (plan_.paper() && !options().detector.he_initialisation) {
      backbone_->apply([](torch::nn::Module& layer) {
        if (auto* conv = dynamic_cast<detail::Conv2dImpl*>(&layer)) truncated_normal(conv->weight, kBackboneDeviation);
      });
    }
    classes_->start_weights(plan_.paper() ? kPaperClassBias : -std::log((1 - kPrior) / kPrior));
    boxes_->start_weights(0);
  }

 private:
  Plan plan_;
  std::shared_ptr<Holder> backbone_;
  ResNetV1Layers body_;
  std::shared_ptr<Pyramid> pyramid_;
  std::shared_ptr<Head> classes_, boxes_;
};

}  // namespace

std::shared_ptr<Model> make_retinanet(const RetinaNetShape& shape, const ModelOptions& options) {
  return std::make_shared<RetinaNet>(shape, options);
}

}  // namespace frn::models
