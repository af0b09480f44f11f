// The table of networks, and what they have in common.
#include "frn/models/model.h"

#include <sstream>
#include <vector>

#include "frn/core/error.h"
#include "frn/core/text.h"
#include "frn/models/networks.h"
#include "frn/models/parts.h"
#include "frn/nn/layers.h"

namespace frn {
namespace {

using models::make_inception_v3;
using models::make_resnet_v1;
using models::make_resnet_v2;
using models::make_retinanet;
using models::make_vgg_a;
using models::ResNetShape;
using models::RetinaNetShape;
using models::VggShape;
using Make = std::shared_ptr<Model> (*)(const ModelOptions&);

constexpr int64_t kWidth = 64;
constexpr ResNetShape basic(std::array<int64_t, 4> blocks) {
  return {.bottleneck = false, .blocks = blocks, .width = kWidth, .large_images = true};
}
constexpr ResNetShape bottleneck(std::array<int64_t, 4> blocks) {
  return {.bottleneck = true, .blocks = blocks, .width = kWidth, .large_images = true};
}
constexpr ResNetShape of_bit(ResNetShape shape) {
  shape.pools_zeros = true;
  return shape;
}
// 6n+2 layers for images of 32 px ("Deep residual learning", section 4.2).
constexpr ResNetShape small(int64_t n) {
  return {.bottleneck = false, .blocks = {n, n, n, 0}, .width = 16, .large_images = false};
}

template <ResNetShape kShape>
constexpr Make kV1 = [](const ModelOptions& options) { return make_resnet_v1(kShape, options); };
template <ResNetShape kShape>
constexpr Make kV2 = [](const ModelOptions& options) { return make_resnet_v2(kShape, options); };

// A row of a network that takes any size: padding keeps at least one value per map.
constexpr ModelRow resnet(std::string_view name, std::string_view description, int64_t input_size, Make make) {
  return {.name = name, .description = description, .input_size = input_size, .make = make};
}

template <VggShape kShape>
constexpr Make kVgg = [](const ModelOptions& options) { return make_vgg_a(kShape, options); };

// Five poolings halve the size, and leave at least 1.
constexpr ModelRow vgg(std::string_view name, std::string_view description, int64_t input_size, Make make) {
  return {
      .name = name,
      .description = description,
      .input_size = input_size,
      .smallest_input = 32,
      .smallest_with_auxiliary = 32,
      .dropout = 0.5,
      .make = make,
  };
}

template <RetinaNetShape kShape>
constexpr Make kRetinaNet = [](const ModelOptions& options) { return make_retinanet(kShape, options); };

// The coarsest map, of stride 128, has one value at the smallest size.
constexpr ModelRow retinanet(std::string_view name, std::string_view description, int64_t input_size, Make make) {
  return {.name = name,
          .description = description,
          .input_size = input_size,
          .smallest_input = 128,
          .smallest_with_auxiliary = 128,
          .detects = true,
          .make = make};
}

constexpr int64_t kImageNet = 224;
constexpr int64_t kCoco = 1024;  // section 4.2
constexpr std::string_view kRetinaNetText = "RetinaNet: detector with a pyramid of 256 channels";
constexpr int64_t kCifar = 32;
constexpr std::string_view kV2Text = "pre-activation ResNet, identity shortcuts";
constexpr std::string_view kSmallText = "pre-activation ResNet for small images: 3x3 stem, 16/32/64 filters";
constexpr std::string_view kV1Text = "ResNet as first published, for detection";

// Inception: 75 leaves 1x1 at the end; the auxiliary head needs 17x17 maps, which 299 gives.
constexpr double kInceptionDropout = 0.5;  // as torchvision's; 0.2 at the end in Szegedy et al.'s own code
constexpr double kAuxiliaryWeight = 0.4;

const std::array kModels{
    resnet("resnetv2-18", kV2Text, kImageNet, kV2<basic({2, 2, 2, 2})>),
    resnet("resnetv2-34", kV2Text, kImageNet, kV2<basic({3, 4, 6, 3})>),
    resnet("resnetv2-50", kV2Text, kImageNet, kV2<bottleneck({3, 4, 6, 3})>),
    resnet("resnetv2-101", kV2Text, kImageNet, kV2<bottleneck({3, 4, 23, 3})>),
    resnet("resnetv2-152", kV2Text, kImageNet, kV2<bottleneck({3, 8, 36, 3})>),
    resnet("resnetv2-50-bit", "resnetv2-50 with the stem of Big Transfer: zeros around the map that it pools",
           kImageNet, kV2<of_bit(bottleneck({3, 4, 6, 3}))>),
    resnet("resnetv2-8", kSmallText, kCifar, kV2<small(1)>),
    resnet("resnetv2-20", kSmallText, kCifar, kV2<small(3)>),
    resnet("resnetv2-32", kSmallText, kCifar, kV2<small(5)>),
    resnet("resnetv2-56", kSmallText, kCifar, kV2<small(9)>),
    resnet("resnetv1-18", kV1Text, kImageNet, kV1<basic({2, 2, 2, 2})>),
    resnet("resnetv1-34", kV1Text, kImageNet, kV1<basic({3, 4, 6, 3})>),
    resnet("resnetv1-50", kV1Text, kImageNet, kV1<bottleneck({3, 4, 6, 3})>),
    resnet("resnetv1-101", kV1Text, kImageNet, kV1<bottleneck({3, 4, 23, 3})>),
    ModelRow{
        .name = "inceptionv3",
        .description = "InceptionV3 with an auxiliary head while training",
        .input_size = 299,
        .smallest_input = 75,
        .smallest_with_auxiliary = 299,
        .dropout = kInceptionDropout,
        .auxiliary_weight = kAuxiliaryWeight,
        .make = make_inception_v3,
    },
    vgg("vgg-a", "VGG with 11 layers, a norm after every layer, the hidden linear ones included", kImageNet,
        kVgg<VggShape{.pooled = 7, .hidden = 4096, .norm_after_linear = true}>),
    vgg("vgg-a-small", "vgg-a for small images: linear layers of 512", kCifar,
        kVgg<VggShape{.pooled = 1, .hidden = 512, .norm_after_linear = true}>),
    vgg("vgg11", "VGG with 11 layers, norms after convolutions alone (torchvision's vgg11_bn)", kImageNet,
        kVgg<VggShape{.pooled = 7, .hidden = 4096, .norm_after_linear = false}>),
    retinanet("retinanet-r8", "RetinaNet for small sets: narrow backbone, pyramid of 64 channels, short heads", 256,
              kRetinaNet<RetinaNetShape{
                  .backbone = {.bottleneck = false, .blocks = {1, 1, 1, 1}, .width = 32, .large_images = true},
                  .width = 64,
                  .head_layers = 2}>),
    retinanet("retinanet-r18", kRetinaNetText, kCoco, kRetinaNet<RetinaNetShape{.backbone = basic({2, 2, 2, 2})}>),
    retinanet("retinanet-r50", kRetinaNetText, kCoco, kRetinaNet<RetinaNetShape{.backbone = bottleneck({3, 4, 6, 3})}>),
    retinanet("retinanet-r101", kRetinaNetText, kCoco,
              kRetinaNet<RetinaNetShape{.backbone = bottleneck({3, 4, 23, 3})}>),
};

void check_options(std::string_view name, const ModelOptions& options) {
  const auto at_least_1 = [&](const char* what, int64_t value) {
    if (value < 1) throw Error(name, std::string(what) + " must be at least 1 but are " + std::to_string(value));
  };
  at_least_1("classes", options.classes);
  at_least_1("input channels", options.input_channels);
  if (options.detector.image_size) at_least_1("detector.image_size", *options.detector.image_size);
  if (options.dropout && !(*options.dropout >= 0 && *options.dropout < 1)) {
    throw Error(name, "dropout must be from 0 to below 1 but is " + std::to_string(*options.dropout));
  }
}

}  // namespace

std::span<const ModelRow> model_table() { return kModels; }

const ModelRow& find_model(std::string_view name) {
  std::vector<std::string_view> names;
  for (const auto& row : kModels) {
    if (row.name == name) return row;
    names.push_back(row.name);
  }
  throw Error("model", "the name must be one of " + join(names) + " but is '" + std::string(name) + "'" +
                           suggestion(name, names));
}

int64_t Model::smallest_input() const {
  const bool with_head = options_.auxiliary && is_training() && row_.auxiliary_weight > 0;
  return with_head ? row_.smallest_with_auxiliary : row_.smallest_input;
}

void Model::start_weights() { initialise(*this); }

std::string Model::title() const { return row_.name.empty() ? name() : std::string(row_.name); }

ModelOutput Model::forward(const at::Tensor& x) {
  if (x.dim() != 4 || x.size(1) != options_.input_channels) {
    throw Error(title(), "x must have shape [N, " + std::to_string(options_.input_channels) +
                             ", H, W] (input channels of the model) but has " + shape_text(x.sizes()));
  }
  const int64_t smallest = smallest_input();
  if (x.size(2) < smallest || x.size(3) < smallest) {
    const bool head_asks = smallest > row_.smallest_input;
    throw Error(title(), "height and width must be at least " + std::to_string(smallest) +
                             (head_asks ? " while training with the auxiliary head (" +
                                              std::to_string(row_.smallest_input) + " without it)"
                                        : "") +
                             " but x has shape " + shape_text(x.sizes()));
  }
  return run(x);
}

std::shared_ptr<Model> Model::build(const ModelRow& row, const ModelOptions& options) {
  auto model = row.make(options);
  model->row_ = row;
  standardise_weights(*model, options.weights_standardised);
  return model;
}

// Tensors are replaced inside the registered ones, so that the members of the layers keep pointing at them.
std::shared_ptr<torch::nn::Module> Model::clone(const std::optional<torch::Device>& device) const {
  if (row_.make == nullptr) {
    throw Error(title(),
                "a copy needs to know how the model is made, but its row has no make: "
                "give Model's constructor a row that has one, or write a clone() of its own");
  }
  const torch::NoGradGuard no_grad;
  const auto copied = [&](const at::Tensor& tensor) {
    return device && tensor.device() != *device ? tensor.to(*device) : tensor.clone();
  };
  auto copy = build(row_, options_);
  auto parameters = copy->named_parameters();
  for (const auto& source : named_parameters()) {
    parameters[source.key()].set_data(copied(*source));
    parameters[source.key()].set_requires_grad(source->requires_grad());
  }
  auto buffers = copy->named_buffers();
  for (const auto& source : named_buffers()) buffers[source.key()].set_data(copied(*source));
  copy->train(is_training());
  // Without the model itself, which may stand on the stack.
  const auto layers = copy->named_modules("", /*include_self=*/false);
  for (const auto& source : named_modules("", /*include_self=*/false)) {
    const auto& target = layers[source.key()];
    target->train(source.value()->is_training());
    const auto* norm = dynamic_cast<const NormActImpl*>(source.value().get());
    if (norm != nullptr) dynamic_cast<NormActImpl&>(*target).copy_from(*norm, device);
  }
  return copy;
}

std::shared_ptr<Model> make_uninitialised_model(std::string_view name, const ModelOptions& options) {
  const auto& row = find_model(name);
  check_options(name, options);
  auto resolved = options;
  resolved.dropout = options.dropout.value_or(row.dropout);
  if (row.detects) resolved.detector.image_size = options.detector.image_size.value_or(row.input_size);
  return Model::build(row, resolved);
}

std::shared_ptr<Model> make_model(std::string_view name, const ModelOptions& options) {
  auto model = make_uninitialised_model(name, options);
  model->start_weights();
  return model;
}

int64_t multiply_adds(std::string_view name, const ModelOptions& options, int64_t input_size) {
  const torch::NoGradGuard no_grad;
  const auto model = make_uninitialised_model(name, options);
  model->eval();
  const MultiplyAddCounter counter;
  model->forward(at::empty({1, options.input_channels, input_size, input_size}, at::device(at::kMeta)));
  return counter.count();
}

}  // namespace frn
