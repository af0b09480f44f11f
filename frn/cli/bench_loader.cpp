// frn bench loader: images per second and core from files to what a network takes. bench/loader_peers.py prints it
// beside torchvision's.
#include <c10/util/ParallelGuard.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "frn/cli/commands.h"
#include "frn/cli/output.h"
#include "frn/data/dataset.h"
#include "frn/data/pipeline.h"

namespace frn::cli {
namespace {

struct BenchLoaderOptions {
  std::string data;
  int64_t size = 224;
  int64_t images = 200;
  int rounds = 5;
  bool as_json = false;
};

struct BenchLoaderRow {
  std::string name;
  data::Augmentation augmentation;
  bool colour;
  double images_per_second = 0;
};

double seconds_of_a_round(const data::Dataset& dataset, const data::Pipeline& pipeline, int64_t images,
                          std::vector<float>& out) {
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < images; ++i) {
    const int64_t index = i * dataset.size() / images;  // spread over the classes
    pipeline.run(*dataset.open(index), RandomKey(0).with(static_cast<uint64_t>(i)), out);
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void run(const BenchLoaderOptions& options) {
  const c10::ParallelGuard one_core(true);
  const auto dataset = data::open_dataset(data::parse_data_name(options.data), data::Split::kTrain);
  const auto& facts = dataset->facts();
  const int64_t images = std::min(options.images, dataset->size());
  std::vector<float> out(static_cast<size_t>(facts.channels * options.size * options.size));
  std::vector<BenchLoaderRow> rows{{"crop, flip", data::Augmentation::kInception, false},
                                   {"crop, flip, colours", data::Augmentation::kInception, true},
                                   {"whole image", data::Augmentation::kNone, false}};
  for (auto& row : rows) {
    const data::Pipeline pipeline{.augmentation = row.augmentation,
                                  .colour = row.colour && facts.channels == 3,
                                  .size = options.size,
                                  .channels = facts.channels,
                                  .mean = facts.mean,
                                  .deviation = facts.deviation};
    std::vector<double> times;
    seconds_of_a_round(*dataset, pipeline, images, out);  // brings the files into memory
    for (int round = 0; round < options.rounds; ++round) {
      times.push_back(seconds_of_a_round(*dataset, pipeline, images, out));
    }
    std::sort(times.begin(), times.end());
    row.images_per_second = static_cast<double>(images) / times[times.size() / 2];
  }
  if (options.as_json) {
    auto list = Value::empty_list();
    for (const auto& row : rows) list.push_back({{"name", row.name}, {"images_per_second", row.images_per_second}});
    return print_json({{"command", "bench loader"}, {"size", options.size}, {"images", images}, {"rows", list}});
  }
  fmt::print("frn bench loader: {}, {} images from file to {} px floats, one core\n", options.data, images,
             options.size);
  for (const auto& row : rows) fmt::print("{:<24}{:>10.0f} images/s\n", row.name, row.images_per_second);
}

}  // namespace

Command bench_loader_command() {
  auto options = std::make_shared<BenchLoaderOptions>();
  return {.name = "loader",
          .help = "Images per second and processor core, from files to the input of a network",
          .options = {{.name = "--data",
                       .to = &options->data,
                       .help = "Images to read, e.g. imagefolder:DIR",
                       .value = "KIND:DIR",
                       .required = true},
                      {.name = "--size",
                       .to = &options->size,
                       .help = "Height and width of the network's input",
                       .range = Range{1}},
                      {.name = "--images", .to = &options->images, .help = "Images per round", .range = Range{1}},
                      {.name = "--rounds",
                       .to = &options->rounds,
                       .help = "Number of rounds; their median is printed",
                       .range = Range{1, 1000}},
                      {.name = "--json", .to = &options->as_json, .help = "Print JSON"}},
          .run = [options](const Given&) { run(*options); }};
}

}  // namespace frn::cli
