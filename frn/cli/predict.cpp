// frn predict: the classes of image files.
#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <torch/types.h>

#include "frn/cli/commands.h"
#include "frn/cli/exit.h"
#include "frn/cli/output.h"
#include "frn/core/error.h"
#include "frn/data/bytes.h"
#include "frn/data/decode.h"
#include "frn/train/run_folder.h"

namespace frn::cli {
namespace {

constexpr uint64_t kLongestFile = uint64_t{1} << 30;

struct Options {
  std::string run;
  std::vector<std::string> images;
  int64_t top = 5;
  bool as_json = false;
};

// Of a batch of one image.
train::Description describe(const train::TrainedModel& trained, data::Batch batch, int64_t most) {
  const torch::NoGradGuard no_grad;
  const auto format = trained.config.channels_last() ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  const train::Network network(trained.model);
  batch.images = batch.images.contiguous(format);
  return trained.task->describe(network.forward(batch.images, trained.config.bfloat16()), batch, 0, most);
}

void run(const Options& options) {
  const auto trained = train::open_trained({options.run});
  for (const auto& sentence : trained.damaged) fmt::print(stderr, "frn: {}\n", sentence);
  const auto pipeline = train::evaluation_pipeline(trained.config, trained.facts);
  auto image = at::empty({1, pipeline.channels, pipeline.size, pipeline.size});
  const std::span<float> out(image.mutable_data_ptr<float>(), static_cast<size_t>(image.numel()));
  auto batch = data::make_batch(image, std::vector<data::Target>(1));
  auto list = Value::empty_list();
  int failures = 0;
  for (const auto& path : options.images) {
    try {
      const auto source = data::open_image(data::read_file(path, "predict", kLongestFile), path);
      batch.geometries = {pipeline.run(*source, RandomKey(0), out)};
    } catch (const Error& error) {
      fmt::print(stderr, "frn: {}\n", error.what());
      ++failures;
      continue;
    }
    const auto found = describe(trained, batch, options.top);
    if (!options.as_json) fmt::print("{}\n{}", path, found.text);
    Value entry{{"image", path}};
    for (const auto& [key, value] : found.entries.as_table()) entry[key] = value;
    list.push_back(std::move(entry));
  }
  if (options.as_json) print_json(list);
  if (failures > 0) throw Exit{kExitError};
}

}  // namespace

Command predict_command() {
  auto options = std::make_shared<Options>();
  return {.name = "predict",
          .help = "Name the classes of image files",
          .options = {{.name = "IMAGE", .to = &options->images, .help = "JPEG or PNG files", .required = true},
                      {.name = "--run",
                       .to = &options->run,
                       .help = "Folder of the run, which frn train --out made",
                       .value = "DIR",
                       .required = true},
                      {.name = "--top",
                       .to = &options->top,
                       .help = "Number of classes to name, most probable first",
                       .range = Range{1}},
                      {.name = "--json", .to = &options->as_json, .help = "Print JSON"}},
          .run = [options](const Given&) { run(*options); }};
}

}  // namespace frn::cli
