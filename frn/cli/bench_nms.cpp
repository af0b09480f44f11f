// frn bench nms: from the scores of every anchor and class to the 100 detections of an image. bench/nms_peers.py prints
// it beside torchvision's.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "frn/cli/bench_seconds.h"
#include "frn/cli/commands.h"
#include "frn/cli/output.h"
#include "frn/core/random.h"
#include "frn/core/safetensors.h"
#include "frn/metrics/boxes.h"
#include "frn/metrics/nms.h"

namespace frn::cli {
namespace {

struct BenchNmsOptions {
  int64_t size = 1024;
  int64_t classes = 80;
  int rounds = 9;
  std::string file;
  bool as_json = false;
};

struct Image {
  std::vector<float> boxes;   // [anchors, 4]
  std::vector<float> scores;  // [anchors, classes]
};

float sigmoid(double x) { return static_cast<float>(1 / (1 + std::exp(-x))); }

// One of the six anchors of a cell, moved a little as by a box head.
void add_box(double x, double y, double side, double ratio, Random& random, std::vector<float>& out) {
  const double width = side * std::sqrt(ratio) * random.uniform(0.45, 0.55);
  const double height = side / std::sqrt(ratio) * random.uniform(0.45, 0.55);
  for (const double edge : {x - width, y - height, x + width, y + height}) out.push_back(static_cast<float>(edge));
}

// The anchors of a RetinaNet on the levels P3 to P7.
std::vector<float> make_boxes(int64_t size, Random& random) {
  std::vector<float> out;
  for (int64_t stride = 8; stride <= 128; stride *= 2) {
    const auto step = static_cast<double>(stride);
    for (int64_t top = 0; top < size; top += stride) {
      for (int64_t left = 0; left < size; left += stride) {
        const double x = static_cast<double>(left) + step * random.uniform();
        const double y = static_cast<double>(top) + step * random.uniform();
        for (const double ratio : {1.0, 2.0, 0.5}) {
          add_box(x, y, 4 * step, ratio, random, out);
          add_box(x, y, 4 * std::sqrt(2.0) * step, ratio, random, out);
        }
      }
    }
  }
  return out;
}

Rectangle rectangle(const std::vector<float>& boxes, size_t index) {
  const float* const box = boxes.data() + 4 * index;
  return {box[0], box[1], box[2], box[3]};
}

// As a trained detector gives them: nearly all about 0.01 (a logit of -4.6 and noise), and high ones at those boxes
// that overlap with one of 20 objects.
Image make_image(const BenchNmsOptions& options) {
  constexpr int64_t kObjects = 20;
  Random random(RandomKey(0));
  Image out{make_boxes(options.size, random), {}};
  const auto classes = static_cast<size_t>(options.classes);
  const size_t count = out.boxes.size() / 4;
  out.scores.resize(count * classes);
  const auto noise = [&] { return random.uniform() + random.uniform() + random.uniform() + random.uniform() - 2; };
  for (auto& score : out.scores) score = sigmoid(-4.6 + noise());
  for (int64_t object = 0; object < kObjects; ++object) {
    const auto place = rectangle(out.boxes, static_cast<size_t>(random.below(static_cast<int64_t>(count))));
    const auto category = static_cast<size_t>(random.below(options.classes));
    for (size_t i = 0; i < count; ++i) {
      const double overlap = iou(place, rectangle(out.boxes, i));
      if (overlap > 0.4) out.scores[i * classes + category] = sigmoid(8 * overlap - 5 + noise());
    }
  }
  return out;
}

void write_image(const Image& image, int64_t classes, const std::string& path) {
  using safetensors::Dtype;
  const auto count = static_cast<int64_t>(image.boxes.size() / 4);
  safetensors::write(path, {{"boxes", {Dtype::kF32, {count, 4}, std::as_bytes(std::span(image.boxes))}},
                            {"scores", {Dtype::kF32, {count, classes}, std::as_bytes(std::span(image.scores))}}});
}

struct BenchNmsRow {
  float score_threshold;
  size_t pairs = 0;
  std::vector<Detected> detections{};
  std::vector<double> seconds{};
};

void measure(BenchNmsRow& row, const Image& image, int64_t classes) {
  row.seconds.push_back(seconds_of([&] {
    row.detections = best_detections(image.boxes, image.scores, classes, {row.score_threshold, 0.5, 100});
  }));
}

Value to_value(const BenchNmsRow& row) {
  auto detections = Value::empty_list();
  for (const auto& found : row.detections) {
    detections.push_back(Value::list_of(std::vector<int64_t>{found.box, found.category}));
  }
  return {{"score_threshold", row.score_threshold},
          {"pairs", row.pairs},
          {"seconds", median(row.seconds)},
          {"detections", detections}};
}

void run(const BenchNmsOptions& options) {
  const auto image = make_image(options);
  if (!options.file.empty()) write_image(image, options.classes, options.file);
  std::vector<BenchNmsRow> rows{{0.05F}, {1e-8F}};
  for (auto& row : rows) {
    row.pairs = static_cast<size_t>(
        std::ranges::count_if(image.scores, [&](float score) { return score > row.score_threshold; }));
  }
  for (int round = 0; round < options.rounds; ++round) {
    for (auto& row : rows) measure(row, image, options.classes);
  }
  if (options.as_json) {
    auto list = Value::empty_list();
    for (const auto& row : rows) list.push_back(to_value(row));
    return print_json({{"command", "bench nms"}, {"anchors", image.boxes.size() / 4}, {"rows", list}});
  }
  fmt::print("frn bench nms: {} anchors x {} classes, one thread, median of {} rounds\n", image.boxes.size() / 4,
             options.classes, options.rounds);
  for (const auto& row : rows) {
    fmt::print("scores above {:<8}{:>10} pairs -> {:>3} detections {:>9.2f} ms\n", row.score_threshold, row.pairs,
               row.detections.size(), median(row.seconds) * 1e3);
  }
}

}  // namespace

Command bench_nms_command() {
  auto options = std::make_shared<BenchNmsOptions>();
  return {
      .name = "nms",
      .help = "From the scores of all anchors and classes to an image's 100 detections",
      .options =
          {{.name = "--size", .to = &options->size, .help = "Height and width of the image", .range = Range{8, 8192}},
           {.name = "--classes", .to = &options->classes, .help = "Number of classes", .range = Range{1, 1e4}},
           {.name = "--rounds",
            .to = &options->rounds,
            .help = "Number of rounds; their median is printed",
            .range = Range{1, 1000}},
           {.name = "--write",
            .to = &options->file,
            .help = "Safetensors file for the boxes and scores",
            .value = "FILE",
            .default_text = "none"},
           {.name = "--json", .to = &options->as_json, .help = "Print JSON"}},
      .run = [options](const Given&) { run(*options); }};
}

}  // namespace frn::cli
