// frn export: a run's network for others, as an ONNX file or as a folder to share.
#include <fmt/format.h>

#include <filesystem>

#include "frn/cli/commands.h"
#include "frn/core/error.h"
#include "frn/core/whole_file.h"
#include "frn/detection/box_code.h"
#include "frn/onnx/export.h"
#include "frn/train/hub_folder.h"
#include "frn/train/network.h"
#include "frn/version.h"

namespace frn::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHub = "hub:";
constexpr std::string_view kOnnxEnding = ".onnx";

struct ExportOptions {
  std::string run;
  std::string to;
  std::string licence;
  std::string weights = "auto";
};

train::Weights weights_named(const std::string& name) {
  return name == "plain"      ? train::Weights::kPlain
         : name == "averaged" ? train::Weights::kAveraged
                              : train::Weights::kAuto;
}

// Boxes of the first cell of each level, and how far the next row and column are.
Value anchors_value(detection::Style style, int64_t size) {
  const auto anchors = detection::make_anchors(style, size, size);
  const auto per_cell = detection::anchors_per_cell(style);
  auto levels = Value::empty_list();
  size_t first = 0;
  for (int level = 0; level < detection::kLevels; ++level) {
    const int64_t side = detection::level_side(size, level);
    const auto* const boxes = &anchors.boxes.at(first);
    auto cell = Value::empty_list();
    for (int64_t i = 0; i < per_cell; ++i) {
      const auto& box = boxes[i];
      cell.push_back(Value::list_of(std::vector<double>{box.left, box.top, box.right, box.bottom}));
    }
    const double step = side > 1 ? boxes[per_cell].left - boxes[0].left : 0;
    levels.push_back({{"rows", side}, {"columns", side}, {"step", step}, {"first_cell", std::move(cell)}});
    first += static_cast<size_t>(anchors.per_level.at(static_cast<size_t>(level)));
  }
  return {{"order", "level, row, column, box of the cell"},
          {"boxes",
           "left, top, right, bottom in pixels; that of row r and column c is step*c further right and step*r lower"},
          {"levels", std::move(levels)}};
}

// What one must know to feed the network and to read its results; lists are JSON.
std::map<std::string, std::string> metadata_of(const train::TrainedModel& trained, int64_t size) {
  const auto& facts = trained.facts;
  const auto channels = [&](const std::array<float, 3>& values) {
    return to_json(Value::list_of(std::vector<double>(values.begin(), values.begin() + facts.channels)));
  };
  std::map<std::string, std::string> out{
      {"frn.version", FRN_VERSION},
      {"frn.model", trained.config.model},
      {"frn.norm", trained.config.norm},
      {"frn.step", std::to_string(trained.step)},
      {"classes", to_json(Value::list_of(trained.classes))},
      {"input_size", to_json(Value::list_of(std::vector<int64_t>{facts.channels, size, size}))},
      {"input", "(value/255 - mean)/std of each channel, red first, resized to input_size"},
      {"mean", channels(facts.mean)},
      {"std", channels(facts.deviation)},
  };
  if (!trained.model->row().detects) return out;
  const auto style = trained.config.style;
  const auto code = detection::weights_of(style);
  out["anchors"] = to_json(anchors_value(style, size));
  out["box_code"] = to_json({{"middle", static_cast<double>(code.middle)}, {"sides", static_cast<double>(code.sides)}});
  out["codes"] = "(x, y)/middle*side of the anchor + its middle; exp((width, height)/sides) times the anchor's sides";
  return out;
}

void write_onnx_file(const train::TrainedModel& trained, const fs::path& path) {
  const auto size = trained.config.image_size.value_or(trained.facts.image_size);
  const bool detects = trained.model->row().detects;
  const auto network = trained.model;
  const auto report = onnx::write_onnx(
      path, *network, [&](const at::Tensor& x) { return train::to_outputs(network->forward(x)); },
      {.name = trained.config.model,
       .sample = {trained.facts.channels, size, size},
       .output_names = detects ? std::vector<std::string>{"logits", "codes"} : std::vector<std::string>{"logits"},
       .metadata = metadata_of(trained, size)});
  fmt::print("wrote {}: {} nodes, {:.2f} M parameters, images [batch, {}, {}, {}]\n", path.string(), report.nodes,
             static_cast<double>(report.parameters) / 1e6, trained.facts.channels, size, size);
}

Value results_of(const train::RunFolder& folder) {
  try {
    if (!folder.holds_run()) return train::hub_results(folder.path);
    const auto text = contents_of(folder.metrics());
    return text.empty() ? Value(nullptr) : parse_json(text);
  } catch (const ValueError&) {
    return nullptr;  // the card then says that nothing was measured
  }
}

void run(const ExportOptions& options) {
  const bool to_hub = options.to.starts_with(kHub) && options.to.size() > kHub.size();
  if (!to_hub && !options.to.ends_with(kOnnxEnding)) {
    throw UsageError("[export] --to must be hub:DIR or a file that ends in .onnx but is '" + options.to + "'");
  }
  if (!to_hub && !options.licence.empty()) {
    throw UsageError("[export] --licence is for the card of a hub folder, but --to names a file; leave it out");
  }
  const train::RunFolder folder{options.run};
  const auto trained = train::open_trained(folder, weights_named(options.weights));
  for (const auto& sentence : trained.damaged) fmt::print(stderr, "frn: {}\n", sentence);
  if (!to_hub) return write_onnx_file(trained, options.to);
  const fs::path target(options.to.substr(kHub.size()));
  train::write_hub_folder(trained, results_of(folder), options.licence, target);
  fmt::print("wrote config.json, model.safetensors and README.md in {}\n", target.string());
}

}  // namespace

Command export_command() {
  auto options = std::make_shared<ExportOptions>();
  return {
      .name = "export",
      .help = "Write a trained network as an ONNX file, or as a folder to share",
      .options = {{.name = "--run",
                   .to = &options->run,
                   .help = "Folder of the run, which frn train --out made, or one that --to hub:DIR wrote",
                   .value = "DIR",
                   .required = true},
                  {.name = "--to",
                   .to = &options->to,
                   .help = "FILE.onnx for ONNX Runtime and other engines; hub:DIR for a new folder with config.json, "
                           "model.safetensors and README.md, as on Hugging Face",
                   .value = "WHERE",
                   .required = true},
                  {.name = "--licence",
                   .to = &options->licence,
                   .help = "With hub:DIR: the licence of the weights for the model card, by its SPDX name",
                   .value = "SPDX",
                   .default_text = "the card says that none is named"},
                  {.name = "--weights",
                   .to = &options->weights,
                   .help = "Weights of the checkpoint; auto: the averaged ones if the run kept an average",
                   .choices = {"auto", "plain", "averaged"}}},
      .run = [options](const Given&) { run(*options); },
      .ending =
          "The ONNX file takes any number of images of the size that the network was\n"
          "trained on. Its metadata names classes, mean, std and, for detectors,\n"
          "anchors; choosing boxes (NMS) is left to the caller.\n\n"
          "Examples:\n"
          "  frn export --run runs/a --to model.onnx\n"
          "  frn export --run runs/a --to hub:share/a --licence Apache-2.0\n"
          "  frn predict --run share/a photo.jpg"};
}

}  // namespace frn::cli
