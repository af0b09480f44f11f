// frn convert: weights from and to torchvision and timm, and a BN network's weights for a network with another norm.
#include <fmt/format.h>

#include <algorithm>

#include "frn/cli/commands.h"
#include "frn/models/foreign_weights.h"

namespace frn::cli {
namespace {

struct ConvertOptions {
  std::string from;
  std::string to;
  std::string model;
  std::string norm;
  bool partial = false;
  std::string in;
  std::string out;
};

// That only one of them is given is in the table of options.
void check(const ConvertOptions& options) {
  if (!options.from.empty() || !options.to.empty() || !options.model.empty()) return;
  throw UsageError("[convert] one of --from, --to and --model must be given; frn convert --help says more");
}

void run(const ConvertOptions& options) {
  check(options);
  const auto mode = options.partial ? LoadMode::kPartial : LoadMode::kStrict;
  // Names first: a wrong one should not wait for a large file.
  const bool renames = options.model.empty();
  const auto* foreign = renames ? &find_foreign_model(options.from + options.to) : nullptr;
  const std::string model(renames ? foreign->model : find_model(options.model).name);
  std::optional<NormActSpec> norm;
  if (!options.norm.empty()) norm = NormActSpec::parse(options.norm);

  auto tensors = read_weights(options.in);
  NameReport report;
  if (!options.from.empty()) tensors = from_foreign(*foreign, tensors, mode, report);
  if (!options.to.empty()) tensors = to_foreign(*foreign, tensors, mode, report);
  std::map<std::string, std::string> metadata{{"format", "pt"}};  // what Python's readers look for
  if (options.to.empty()) metadata["frn.model"] = model;
  // timm's networks may have been made with other norms.
  const bool batch_norm = std::any_of(tensors.begin(), tensors.end(),
                                      [](const auto& tensor) { return tensor.first.ends_with(".running_mean"); });
  const bool as_listed = foreign != nullptr && batch_norm == NormActSpec::parse(foreign->norm).norm().batch_method;
  if (!options.from.empty() && as_listed) metadata["frn.norm"] = foreign->norm;
  if (!options.from.empty() && foreign->weights_standardised != "off") {
    metadata["frn.weights_standardised"] = foreign->weights_standardised;
  }
  if (norm) {
    tensors = with_fresh_norms(model, *norm, tensors);
    metadata["frn.norm"] = norm->to_string();
  }
  write_weights(options.out, tensors, metadata);
  if (const auto left = report.to_string(); !left.empty()) fmt::print("left out: {}\n", left);
  fmt::print("wrote {} tensors of {} to {}\n", tensors.size(), options.to.empty() ? model : options.to, options.out);
  if (as_listed && !norm) fmt::print("{}:{} normalises as {}\n", foreign->library, foreign->name, foreign->norm);
  if (foreign != nullptr && foreign->weights_standardised != "off") {
    fmt::print("its weights are standardised: --weights-standardised '{}'\n", foreign->weights_standardised);
  }
}

}  // namespace

Command convert_command() {
  auto options = std::make_shared<ConvertOptions>();
  std::string known;
  for (const auto& row : foreign_models()) {
    known += fmt::format("\n  {}:{} is {}", row.library, row.name, row.model);
  }
  return {.name = "convert",
          .help = "Convert weights (safetensors) from and to torchvision and timm",
          .options = {{.name = "IN", .to = &options->in, .help = "The safetensors file to read", .required = true},
                      {.name = "OUT", .to = &options->out, .help = "The safetensors file to write", .required = true},
                      {.name = "--from",
                       .to = &options->from,
                       .help = "Library and model that IN comes from, e.g. torchvision:resnet50",
                       .value = "LIBRARY:MODEL",
                       .excludes = {"--to", "--model"}},
                      {.name = "--to",
                       .to = &options->to,
                       .help = "Library and model that OUT is for",
                       .value = "LIBRARY:MODEL",
                       .excludes = {"--from", "--model", "--norm"}},
                      {.name = "--model",
                       .to = &options->model,
                       .help = "IN is of this model of ours and has our names already",
                       .needs = {"--norm"},
                       .excludes = {"--from", "--to"}},
                      {.name = "--norm",
                       .to = &options->norm,
                       .help = "Keep convolutions and linear layers, and start the norms afresh as these, e.g. frn+tlu",
                       .excludes = {"--to"}},
                      {.name = "--partial",
                       .to = &options->partial,
                       .help = "Convert what fits and report what does not; without it, that is an error"}},
          .run = [options](const Given&) { run(*options); },
          .ending = "Known models of other libraries:" + known +
                    "\n\nExample: the convolutions of a BN network as the start of training with FRN\n"
                    "  frn convert --from torchvision:resnet50 --norm frn+tlu \\\n"
                    "      resnet50.safetensors start.safetensors"};
}

}  // namespace frn::cli
