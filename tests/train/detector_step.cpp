// Lets tests/parity/test_retinanet.py run one of our detectors: weights and a batch come from safetensors files, and
// what a step of training and a prediction compute goes into another.
//
// --batch: x [N, C, H, W], boxes [M, 4] (left, top, right, bottom), labels int64 [M], counts int64 [N]: boxes of each
//          image.
// --out:   level.0 .. level.4: the pyramid's maps; logits, codes, anchors; class_loss, box_loss; grad.NAME of every
//          parameter; found.boxes, found.labels, found.scores, found.images of the prediction.
#include <ATen/ops/from_blob.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <map>
#include <string>

#include "frn/core/error.h"
#include "frn/models/model.h"
#include "frn/nn/layer_watch.h"
#include "frn/nn/weights.h"
#include "frn/train/detection.h"

namespace {

struct Options {
  std::string model = "retinanet-r50";
  std::string norm = "bn+relu";
  std::string weights, batch, out;
  int64_t classes = 91;
};

frn::data::Batch batch_of(const frn::NamedTensors& tensors) {
  const auto boxes = tensors.at("boxes").to(at::kDouble).contiguous();
  const auto& labels = tensors.at("labels");
  std::vector<frn::data::Target> targets;
  int64_t next = 0;
  for (int64_t i = 0; i < tensors.at("counts").size(0); ++i) {
    auto& target = targets.emplace_back();
    for (int64_t k = 0; k < tensors.at("counts")[i].item<int64_t>(); ++k, ++next) {
      const double* const box = boxes.const_data_ptr<double>() + 4 * next;
      target.boxes.push_back({box[0], box[1], box[2], box[3], labels[next].item<int64_t>()});
    }
  }
  return frn::data::make_batch(tensors.at("x"), std::move(targets));
}

// The convolutions whose outputs torchvision's pyramid gives, by level.
std::map<const torch::nn::Module*, int> pyramid_of(const frn::Model& model) {
  std::map<const torch::nn::Module*, int> out;
  for (const auto& layer : model.named_modules()) {
    for (int level = 0; level < 3; ++level) {
      if (layer.key() == "backbone.fpn.layer_blocks." + std::to_string(level) + ".0") out[layer.value().get()] = level;
    }
    if (layer.key() == "backbone.fpn.extra_blocks.p6") out[layer.value().get()] = 3;
    if (layer.key() == "backbone.fpn.extra_blocks.p7") out[layer.value().get()] = 4;
  }
  return out;
}

at::Tensor copied(std::vector<float>& numbers, const std::vector<int64_t>& sizes) {
  return at::from_blob(numbers.data(), sizes, at::kFloat).clone();
}

void add_found(const frn::train::Detection& task, const frn::train::Outputs& outputs, const frn::data::Batch& batch,
               frn::NamedTensors& results) {
  std::vector<float> boxes;
  std::vector<float> scores;
  std::vector<int64_t> labels;
  std::vector<int64_t> images;
  for (int64_t i = 0; i < batch.size(); ++i) {
    for (const auto& [box, score] : task.found(outputs, batch, i)) {
      for (const double side : {box.left, box.top, box.right, box.bottom}) boxes.push_back(static_cast<float>(side));
      scores.push_back(static_cast<float>(score));
      labels.push_back(box.label);
      images.push_back(i);
    }
  }
  const auto count = static_cast<int64_t>(scores.size());
  results["found.boxes"] = copied(boxes, {count, 4});
  results["found.scores"] = copied(scores, {count});
  results["found.labels"] = at::tensor(labels, at::kLong);
  results["found.images"] = at::tensor(images, at::kLong);
}

frn::NamedTensors run_model(frn::Model& model, const frn::data::Batch& batch) {
  using frn::detection::Style;
  const frn::train::Detection task({.style = Style::kTorchvision,
                                    .normaliser = frn::train::LossNormaliser::kImage,
                                    .detect = frn::detection::detect_options_of(Style::kTorchvision)});
  frn::NamedTensors results;
  const auto pyramid = pyramid_of(model);
  frn::ModelOutput output;
  {
    const frn::LayerWatch watch([&](const torch::nn::Module& layer, const at::Tensor& map) {
      const auto found = pyramid.find(&layer);
      if (found != pyramid.end()) results["level." + std::to_string(found->second)] = map.detach().clone();
    });
    output = model.forward(batch.images);
  }
  results["logits"] = output.logits.detach();
  results["codes"] = output.codes.detach();
  auto anchors = frn::detection::make_anchors(Style::kTorchvision, batch.images.size(2), batch.images.size(3));
  results["anchors"] =
      at::from_blob(anchors.boxes.data(), {static_cast<int64_t>(anchors.boxes.size()), 4}, at::kFloat).clone();
  const auto outputs = frn::train::to_outputs(output);
  const auto losses = task.losses(outputs, batch, {.training = true, .devices = 1});
  for (const auto& loss : losses) results[loss.name] = loss.value.detach();
  (losses[0].value + losses[1].value).backward();
  for (const auto& parameter : model.named_parameters()) results["grad." + parameter.key()] = parameter->grad();
  add_found(task, outputs, batch, results);
  return results;
}

int run(int argc, char** argv) {
  CLI::App program("One of our detectors on a given batch", "detector_step");
  Options options;
  program.add_option("--model", options.model);
  program.add_option("--norm", options.norm);
  program.add_option("--classes", options.classes);
  program.add_option("--weights", options.weights)->required()->check(CLI::ExistingFile);
  program.add_option("--batch", options.batch)->required()->check(CLI::ExistingFile);
  program.add_option("--out", options.out)->required();
  CLI11_PARSE(program, argc, argv);
  const auto model =
      frn::make_uninitialised_model(options.model, {.norm = frn::NormActSpec::parse(options.norm),
                                                    .classes = options.classes,
                                                    .detector = {.style = frn::detection::Style::kTorchvision}});
  frn::load_state(*model, frn::read_weights(options.weights));
  model->train();
  frn::write_weights(options.out, run_model(*model, batch_of(frn::read_weights(options.batch))));
  return 0;
}

int complain(const char* what) {
  std::fprintf(stderr, "detector_step: %s\n", what);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const c10::Error& error) {
    return complain(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return complain(error.what());
  }
}
