// models/ holds the networks of the paper, each built from a NormActSpec, and the table that names them. No data, no
// training.
//
// A model is named as in the table (`resnetv2-50`), takes x [N, input_channels, H, W] and gives logits [N, classes]; a
// detector (`retinanet-r50`) gives logits and codes of boxes for every anchor.
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "frn/detection/anchors.h"
#include "frn/nn/norm_act_spec.h"
#include "frn/spec/weight_spec.h"

namespace frn {

// Of detectors alone.
struct DetectorOptions {
  detection::Style style = detection::Style::kPaper;
  // The image size it is made for: norms of levels whose maps then have 2x2 values or fewer learn eps. None: the
  // model's own.
  std::optional<int64_t> image_size = std::nullopt;
  // Convolutions of backbone and pyramid start as He et al. do (normal, by fan-out), not with the style's own numbers.
  bool he_initialisation = false;

  bool operator==(const DetectorOptions&) const = default;
};

struct ModelOptions {
  NormActSpec norm = NormActSpec::parse("frn+tlu");
  int64_t classes = 1000;
  int64_t input_channels = 3;
  // The share of units dropped before the classifier's layers; none: the model's own.
  std::optional<double> dropout = std::nullopt;
  // Whether a model that has an auxiliary head (inceptionv3) builds it.
  bool auxiliary = true;
  // How its convolutions standardise their weights.
  WeightSpec weights_standardised{};
  DetectorOptions detector{};

  bool operator==(const ModelOptions&) const = default;
};

struct ModelOutput {
  at::Tensor logits;  // [N, classes]; of a detector [N, anchors, classes], anchors as detection::make_anchors has them
  at::Tensor auxiliary{};  // [N, classes], while training a model with an auxiliary head; else undefined
  at::Tensor codes{};      // of a detector: boxes relative to the anchors, [N, anchors, 4]; else undefined
};

class Model;

// What a network says of itself. All but `make` may be left out by a class of one's own.
struct ModelRow {
  std::string_view name = "";  // in messages; empty: the name of its class
  std::string_view description = "";
  int64_t input_size = 0;               // the height and width it is made for
  int64_t smallest_input = 1;           // in eval mode, and in training without an auxiliary head
  int64_t smallest_with_auxiliary = 1;  // in training with one
  double dropout = 0;                   // the model's own share
  double auxiliary_weight = 0;          // of the auxiliary head's loss while training; 0: the model has none
  bool detects = false;                 // boxes, not a class of the whole image
  std::shared_ptr<Model> (*make)(const ModelOptions&) = nullptr;
};

// The base of all networks: their name and options, the check of x, copies. Derive from it to train a network of one's
// own: register its layers in the constructor and write run(). Whoever gives a row with `make` gets clone().
class Model : public torch::nn::Module {
 public:
  // Throws frn::Error when x has another rank, other channels, or is too small; it names the smallest size.
  ModelOutput forward(const at::Tensor& x);

  const ModelRow& row() const { return row_; }
  const ModelOptions& options() const { return options_; }
  // The smallest height and width in the present mode.
  int64_t smallest_input() const;

  // A copy that shares nothing; it keeps the mode (train, eval), types, and which parameters are frozen. Throws
  // frn::Error when the row has no `make`.
  std::shared_ptr<Module> clone(const std::optional<torch::Device>& device = std::nullopt) const override;

 protected:
  explicit Model(ModelOptions options = {}, const ModelRow& row = {}) : options_(std::move(options)), row_(row) {}
  virtual ModelOutput run(const at::Tensor& x) = 0;
  // The weights that training starts from, drawn from torch's default generator.
  virtual void start_weights();

 private:
  friend std::shared_ptr<Model> make_model(std::string_view name, const ModelOptions& options);
  friend std::shared_ptr<Model> make_uninitialised_model(std::string_view name, const ModelOptions& options);
  std::string title() const;
  static std::shared_ptr<Model> build(const ModelRow& row, const ModelOptions& options);

  ModelOptions options_;
  ModelRow row_;
};

std::span<const ModelRow> model_table();
// Throws frn::Error, which names the nearest known name.
const ModelRow& find_model(std::string_view name);

// In float32 on the CPU, in training mode, initialised from torch's default generator: convolutions He normal
// (fan-out), linear layers normal(0, 0.01), biases 0; norms as NormActSpec::make leaves them. Detectors: retinanet.cpp.
std::shared_ptr<Model> make_model(std::string_view name, const ModelOptions& options);
// The same with convolutions and linear layers left as memory was, for counting and for weights that come from a file.
std::shared_ptr<Model> make_uninitialised_model(std::string_view name, const ModelOptions& options);

// The multiply-adds of convolutions and linear layers for one image, without running them.
int64_t multiply_adds(std::string_view name, const ModelOptions& options, int64_t input_size);

}  // namespace frn
