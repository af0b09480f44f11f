// frn convert: weights from and to torchvision and timm, and a BN network's weights for a network with another norm.
#include <fmt/format.h>

#include "frn/cli/commands.h"
#include "frn/core/error.h"
#include "frn/models/foreign_weights.h"

namespace frn::cli {
namespace {

struct Options {
  std::string from;
  std::string to;
  std::string model;
  std::string norm;
  bool partial = false;
  std::string in;
  std::string out;
};

void check(const Options& options) {
  const int sides = (options.from.empty() ? 0 : 1) + (options.to.empty() ? 0 : 1) + (options.model.empty() ? 0 : 1);
  if (sides != 1) throw Error("convert", "one of --from, --to and --model must be given; see frn convert --help");
  if (!options.to.empty() && !options.norm.empty()) {
    throw Error("convert", "--norm starts norms afresh and goes with --from or --model, not with --to");
  }
  if (!options.model.empty() && options.norm.empty()) {
    throw Error("convert", "--model must come with --norm, the norm of the network to start");
  }
}

void run(const Options& options) {
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
  if (norm) {
    tensors = with_fresh_norms(model, *norm, tensors);
    metadata["frn.norm"] = norm->to_string();
  }
  write_weights(options.out, tensors, metadata);
  if (const auto left = report.to_string(); !left.empty()) fmt::print("left out: {}\n", left);
  fmt::print("wrote {} tensors of {} to {}\n", tensors.size(), options.to.empty() ? model : options.to, options.out);
}

}  // namespace

void add_convert(CLI::App& program) {
  auto options = std::make_shared<Options>();
  auto* command = program.add_subcommand("convert", "Weights (safetensors) from and to torchvision and timm");
  std::string known;
  for (const auto& row : foreign_models()) {
    known += fmt::format("\n  {}:{} is {}", row.library, row.name, row.model);
  }
  command->footer("Known:" + known +
                  "\n\nA BN network's convolutions for training with FRN:\n"
                  "  frn convert --from torchvision:resnet50 --norm frn+tlu resnet50.safetensors start.safetensors");
  command->add_option("--from", options->from, "The library and model that IN comes from, e.g. torchvision:resnet50");
  command->add_option("--to", options->to, "The library and model that OUT is for");
  command->add_option("--model", options->model, "With --norm: IN has our names already, and is of this model");
  command->add_option("--norm", options->norm,
                      "Keep convolutions and linear layers, start the norms afresh as these, e.g. frn+tlu");
  command->add_flag("--partial", options->partial, "Convert what fits and say what did not");
  command->add_option("IN", options->in, "A safetensors file")->required();
  command->add_option("OUT", options->out, "The safetensors file to write")->required();
  command->callback([options] { run(*options); });
}

}  // namespace frn::cli
