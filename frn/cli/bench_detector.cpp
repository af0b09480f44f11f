// frn bench detector: a detector's training step, and finding the boxes of an image. bench/detector_peers.py prints it
// beside torchvision's.
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "frn/cli/allocator.h"
#include "frn/cli/bench_seconds.h"
#include "frn/cli/bench_step.h"
#include "frn/cli/commands.h"
#include "frn/cli/output.h"
#include "frn/cli/threads.h"
#include "frn/core/error.h"
#include "frn/core/random.h"
#include "frn/models/model.h"
#include "frn/nn/layers.h"
#include "frn/nn/weights.h"
#include "frn/train/detection.h"
#include "frn/train/own_random_numbers.h"

namespace frn::cli {
namespace {

// So many pairs of anchor and class are above the least score in an image: what a trained detector gives.
constexpr int64_t kPairs = 1000;
constexpr int64_t kObjects = 8;  // in an image
constexpr double kLeastScore = 0.05;

struct BenchDetectorOptions {
  std::string model = "retinanet-r50";
  std::string norm = "bn(eps=1e-5,momentum=0.9)+relu";  // which knows the images' statistics after one step
  std::string style = "torchvision";
  std::string layout = "channels-last";
  std::string memory = "auto";
  int64_t size = 512;
  int64_t batch = 2;
  int64_t classes = 80;
  int threads = default_threads();
  int rounds = 5;
  std::string file{};
  bool as_json = false;
};

detection::Style style_of(const BenchDetectorOptions& options) {
  return options.style == "paper" ? detection::Style::kPaper : detection::Style::kTorchvision;
}

at::MemoryFormat format_of(const BenchDetectorOptions& options) {
  return options.layout == "channels-last" ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
}

std::shared_ptr<Model> make_detector(const BenchDetectorOptions& options) {
  const train::OwnRandomNumbers random(0, at::kCPU);
  auto model = make_model(options.model, {.norm = NormActSpec::parse(options.norm),
                                          .classes = options.classes,
                                          .detector = {.style = style_of(options), .image_size = options.size}});
  if (!model->row().detects) {
    throw Error("bench detector",
                options.model + " is no detector; `frn info models` lists them, such as retinanet-r50");
  }
  set_memory_format(*model, format_of(options));
  arrange_memory(*model, options.memory);
  return model;
}

// Noise, with boxes of 16 pixels up to half the image.
data::Batch make_images(const BenchDetectorOptions& options) {
  const train::OwnRandomNumbers torchs(1, at::kCPU);
  Random random(RandomKey(1));
  const auto size = static_cast<double>(options.size);
  std::vector<data::Target> targets(static_cast<size_t>(options.batch));
  for (auto& target : targets) {
    for (int64_t i = 0; i < kObjects; ++i) {
      const double width = random.uniform(16, size / 2);
      const double height = random.uniform(16, size / 2);
      const double left = random.uniform(0, size - width);
      const double top = random.uniform(0, size - height);
      target.boxes.push_back({left, top, left + width, top + height, random.below(options.classes)});
    }
  }
  return data::make_batch(at::randn({options.batch, 3, options.size, options.size}).contiguous(format_of(options)),
                          std::move(targets));
}

class DetectorSubject {
 public:
  explicit DetectorSubject(const BenchDetectorOptions& options)
      : model_(make_detector(options)),
        batch_(make_images(options)),
        task_(std::make_shared<train::Detection>(train::DetectionOptions{
            .style = style_of(options), .detect = detection::detect_options_of(style_of(options))})),
        step_(model_, batch_, task_) {
    train();  // warms caches and the allocator, and makes the optimiser's memory
    raise_scores();
  }

  void train() {
    model_->train();
    step_.run();
  }

  // The detections of all images.
  int64_t detect() {
    const at::NoGradGuard no_grad;
    model_->eval();
    const auto outputs = train::to_outputs(model_->forward(batch_.images));
    int64_t found = 0;
    for (int64_t i = 0; i < batch_.size(); ++i) {
      found += static_cast<int64_t>(task_->found(outputs, batch_, i).size());
    }
    return found;
  }

  // For a peer: the same weights, images and boxes.
  void write(const std::string& path) const {
    auto tensors = state_of(*model_);
    tensors["bench.images"] = batch_.images;
    auto boxes = at::empty({batch_.size(), kObjects, 5});
    for (int64_t i = 0; i < batch_.size(); ++i) {
      for (int64_t k = 0; k < kObjects; ++k) {
        const auto& box = batch_.targets[static_cast<size_t>(i)].boxes[static_cast<size_t>(k)];
        const double numbers[] = {box.left, box.top, box.right, box.bottom, static_cast<double>(box.label)};
        for (int64_t j = 0; j < 5; ++j) boxes[i][k][j] = numbers[j];
      }
    }
    tensors["bench.boxes"] = boxes;
    write_weights(path, tensors);
  }

 private:
  // A network that has not learned gives no score above the least one. Its last bias is moved until as many pairs have
  // one as in a trained network.
  void raise_scores() {
    const at::NoGradGuard no_grad;
    model_->eval();
    const auto logits = model_->forward(batch_.images).logits.flatten();
    const int64_t pairs = std::min(kPairs * batch_.size(), logits.numel() - 1);
    const double last = std::get<0>(logits.topk(pairs + 1))[pairs].item<double>();
    model_->named_parameters()["head.classification_head.cls_logits.bias"].add_(
        std::log(kLeastScore / (1 - kLeastScore)) - last);
  }

  std::shared_ptr<Model> model_;
  data::Batch batch_;
  std::shared_ptr<const train::Detection> task_;
  BenchStep step_;
};

void run(const BenchDetectorOptions& options) {
  set_threads(options.threads);
  DetectorSubject subject(options);
  if (!options.file.empty()) subject.write(options.file);
  std::vector<double> training, detecting;
  int64_t found = subject.detect();
  subject.train();  // warms caches and the allocator
  const double peak = peak_megabytes([&] { subject.train(); });
  for (int round = 0; round < options.rounds; ++round) {
    training.push_back(seconds_of([&] { subject.train(); }));
    detecting.push_back(seconds_of([&] { found = subject.detect(); }));
  }
  const auto images = static_cast<double>(options.batch);
  if (options.as_json) {
    return print_json({{"command", "bench detector"},
                       {"model", options.model},
                       {"norm", options.norm},
                       {"style", options.style},
                       {"layout", options.layout},
                       {"size", options.size},
                       {"batch_per_device", options.batch},
                       {"threads", options.threads},
                       {"detections", found},
                       {"memory", options.memory},
                       {"peak_megabytes", peak},
                       {"training_seconds", median(training)},
                       {"detecting_seconds", median(detecting)},
                       {"training_rounds", Value::list_of(training)},
                       {"detecting_rounds", Value::list_of(detecting)}});
  }
  fmt::print("frn bench detector: {}, {}, style {}, {} px, {} images per step, {} classes, {}, {} thread{}, {}\n",
             options.model, options.norm, options.style, options.size, options.batch, options.classes, options.layout,
             options.threads, options.threads == 1 ? "" : "s", allocator_name());
  fmt::print("training      {:>8.2f} images/s, peak of a step {:.0f} MB\n", images / median(training), peak);
  fmt::print("finding boxes {:>8.2f} images/s, {} boxes in {} image{}\n", images / median(detecting), found,
             options.batch, options.batch == 1 ? "" : "s");
}

}  // namespace

BenchStep detector_step(const StepOptions& step) {
  const BenchDetectorOptions options{.model = step.model,
                                     .norm = step.norm,
                                     .style = "paper",
                                     .layout = step.layout,
                                     .memory = step.memory,
                                     .size = step.size,
                                     .batch = step.batch_per_device,
                                     .classes = step.classes};
  return {make_detector(options), make_images(options),
          std::make_shared<train::Detection>(train::DetectionOptions{
              .style = style_of(options), .detect = detection::detect_options_of(style_of(options))})};
}

Command bench_detector_command() {
  auto options = std::make_shared<BenchDetectorOptions>();
  return {
      .name = "detector",
      .help = "Training steps of a detector, and finding the boxes of images",
      .options =
          {{.name = "--model", .to = &options->model, .help = "The detector; `frn info models` lists them"},
           {.name = "--norm", .to = &options->norm, .help = "Norm and activation of all its layers"},
           {.name = "--style",
            .to = &options->style,
            .help = "Whose anchors, heads and post-processing",
            .choices = {"paper", "torchvision"}},
           {.name = "--memory",
            .to = &options->memory,
            .help = "What is kept for the gradients, as in frn train",
            .choices = {"auto", "least", "fast"}},
           {.name = "--layout",
            .to = &options->layout,
            .help = "Memory layout",
            .choices = {"contiguous", "channels-last"}},
           {.name = "--size", .to = &options->size, .help = "Height and width of the images", .range = Range{64, 8192}},
           {.name = "--batch-per-device", .to = &options->batch, .help = "Images per step", .range = Range{1, 1024}},
           {.name = "--classes", .to = &options->classes, .help = "Number of classes", .range = Range{1, 1e4}},
           {.name = "--threads",
            .to = &options->threads,
            .help = "Processor threads",
            .default_text = "all processors",
            .range = Range{1, 1024}},
           {.name = "--rounds",
            .to = &options->rounds,
            .help = "Number of rounds; their median is printed",
            .range = Range{1, 1000}},
           {.name = "--write",
            .to = &options->file,
            .help = "Safetensors file for the weights, images and boxes",
            .value = "FILE",
            .default_text = "none"},
           {.name = "--json", .to = &options->as_json, .help = "Print JSON"}},
      .run = [options](const Given&) { run(*options); }};
}

}  // namespace frn::cli
