// frn info models | model NAME: the networks, what they cost, and what each parameter is.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "frn/cli/commands.h"
#include "frn/cli/info_memory.h"
#include "frn/cli/output.h"
#include "frn/core/error.h"
#include "frn/core/text.h"
#include "frn/models/model.h"
#include "frn/nn/norm_act.h"
#include "frn/nn/parameter_groups.h"

namespace frn::cli {
namespace {

constexpr Range kSizes{1, 65536};  // multiply-adds of larger images are more than an int64 counts

struct InfoModelsOptions {
  std::string norm = "frn+tlu";
  std::string weights_standardised = "off";
  std::string name;
  int64_t classes = 1000;
  int64_t input_channels = 3;
  int64_t size = 0;
  bool parameters = false;
  DecayRule decay;
  bool as_json = false;
  bool memory = false;
  int64_t batch_per_device = 2;
  std::string limit;

  ModelOptions model() const {
    return {.norm = NormActSpec::parse(norm),
            .classes = classes,
            .input_channels = input_channels,
            .weights_standardised = WeightSpec::parse(weights_standardised)};
  }
};

int64_t count_parameters(const torch::nn::Module& model) {
  int64_t count = 0;
  for (const auto& parameter : model.parameters()) count += parameter.numel();
  return count;
}

// Empty unless the norm makes the network wider than its paper says.
std::string rounding_note(const NormActSpec& norm) {
  const int64_t multiple = norm.channel_multiple();
  if (multiple == 1) return "";
  return fmt::format("Under {} filter counts are rounded up to multiples of {}, as in the paper.", norm.to_string(),
                     multiple);
}

Value describe(const ModelRow& row, const InfoModelsOptions& options) {
  const auto model_options = options.model();
  const auto model = make_uninitialised_model(row.name, model_options);
  const int64_t size = options.size > 0 ? options.size : row.input_size;
  return {{"name", row.name},
          {"description", row.description},
          {"norm", model_options.norm.to_string()},
          {"weights_standardised", model_options.weights_standardised.to_string()},
          {"parameters", count_parameters(*model)},
          {"multiply_adds", multiply_adds(row.name, model_options, size)},
          {"input_size", size},
          {"smallest_input", row.smallest_input},
          {"smallest_input_with_auxiliary_head", row.smallest_with_auxiliary},
          {"auxiliary_weight", row.auxiliary_weight},
          {"dropout", row.dropout}};
}

std::string millions_or_billions(double count) {
  return count < 1e9 ? fmt::format("{:.1f} M", count / 1e6) : fmt::format("{:.2f} G", count / 1e9);
}

void print_models(const InfoModelsOptions& options) {
  const auto note = rounding_note(NormActSpec::parse(options.norm));
  auto all = Value::empty_list();
  for (const auto& row : model_table()) all.push_back(describe(row, options));
  if (options.as_json) {
    return print_json({{"models", all}, {"note", note}});
  }
  fmt::print("With {} and {} classes:\n", options.norm, options.classes);
  fmt::print("{:<16}{:>12}{:>15}{:>9}{:>10}  {}\n", "model", "parameters", "multiply-adds", "input", "smallest", "");
  for (const auto& one : all.as_list()) {
    fmt::print("{:<16}{:>12}{:>15}{:>9}{:>10}  {}\n", one["name"].as_text(),
               fmt::format("{:.2f} M", one["parameters"].as_number() / 1e6),
               millions_or_billions(one["multiply_adds"].as_number()), one["input_size"].as_whole(),
               one["smallest_input"].as_whole(), one["description"].as_text());
  }
  if (!note.empty()) fmt::print("{}\n", note);
}

Value parameters_value(const ParameterGroups::List& list) {
  auto out = Value::empty_list();
  for (const auto& [name, tensor] : list) out.push_back({{"name", name}, {"shape", Value::list_of(tensor.sizes())}});
  return out;
}

void print_group(const char* title, const ParameterGroups::List& list) {
  int64_t values = 0;
  for (const auto& [name, tensor] : list) values += tensor.numel();
  fmt::print("\n{}: {} tensors, {} values\n", title, list.size(), values);
  for (const auto& [name, tensor] : list) fmt::print("  {:<48}{}\n", name, shape_text(tensor.sizes()));
}

Value memory_of(const ModelRow& row, const InfoModelsOptions& options, int64_t parameters) {
  const StepOptions step{.model = std::string(row.name),
                         .norm = options.norm,
                         .weights_standardised = options.weights_standardised,
                         .layout = "channels-last",
                         .batch_per_device = options.batch_per_device,
                         .size = options.size > 0 ? options.size : row.input_size,
                         .classes = options.classes};
  if (options.input_channels != 3) {
    throw Error("info model", "--memory measures images of 3 channels but --input-channels is " +
                                  std::to_string(options.input_channels));
  }
  const auto limit = options.limit.empty() ? std::nullopt : std::optional(parse_bytes(options.limit));
  return measure_memory(step,
                        {.detects = row.detects,
                         .smallest_size = row.smallest_with_auxiliary,
                         .weight_bytes = parameters * static_cast<int64_t>(sizeof(float))},
                        limit);
}

void print_model(const InfoModelsOptions& options) {
  const auto& row = find_model(options.name);
  auto about = describe(row, options);
  const auto model = make_uninitialised_model(row.name, options.model());
  if (options.memory) about["memory"] = memory_of(row, options, about["parameters"].as_whole());
  const auto groups = parameter_groups(*model, options.decay);
  const auto note = rounding_note(NormActSpec::parse(options.norm));
  if (options.as_json) {
    about["note"] = note;
    about["decayed"] = parameters_value(groups.decayed);
    about["not_decayed"] = parameters_value(groups.not_decayed);
    print_json(about);
    return;
  }
  fmt::print("{}: {}\n", row.name, row.description);
  fmt::print("norm            {}\n", about["norm"].as_text());
  fmt::print("standardised    {}\n", about["weights_standardised"].as_text());
  fmt::print("parameters      {}\n", about["parameters"].as_whole());
  fmt::print("multiply-adds   {} for one image of {} px\n", about["multiply_adds"].as_whole(),
             about["input_size"].as_whole());
  fmt::print("smallest input  {} px", row.smallest_input);
  if (row.auxiliary_weight > 0) fmt::print(", {} while training with the auxiliary head", row.smallest_with_auxiliary);
  fmt::print("\n");
  if (row.auxiliary_weight > 0) fmt::print("auxiliary head  its loss counts {} while training\n", row.auxiliary_weight);
  if (row.dropout > 0) fmt::print("dropout         {}\n", row.dropout);
  fmt::print("weight decay    {} tensors, not {}\n", groups.decayed.size(), groups.not_decayed.size());
  if (!note.empty()) fmt::print("{}\n", note);
  if (options.memory) print_memory(about["memory"]);
  if (!options.parameters) return;
  print_group("decayed", groups.decayed);
  print_group("not decayed", groups.not_decayed);
}

std::vector<Option> common_options(InfoModelsOptions& options) {
  return {{.name = "--norm",
           .to = &options.norm,
           .help = "Normalisation and activation, e.g. gn+relu; `frn info norms` lists them"},
          {.name = "--weights-standardised",
           .to = &options.weights_standardised,
           .help = "How convolutions standardise their weights: off, plain, scaled or gain",
           .value = "FORM"},
          {.name = "--classes", .to = &options.classes, .help = "Number of classes", .range = Range{1, 1'000'000}},
          {.name = "--input-channels",
           .to = &options.input_channels,
           .help = "Channels of the images",
           .range = Range{1, 4096}},
          {.name = "--size",
           .to = &options.size,
           .help = "Height and width of the image that multiply-adds are counted for",
           .default_text = "the model's own",
           .range = kSizes},
          {.name = "--json", .to = &options.as_json, .help = "Print JSON"}};
}

Command models_command() {
  auto options = std::make_shared<InfoModelsOptions>();
  return {.name = "models",
          .help = "The networks with parameters, multiply-adds and input size",
          .options = common_options(*options),
          .run = [options](const Given&) { print_models(*options); }};
}

Command model_command() {
  auto options = std::make_shared<InfoModelsOptions>();
  Command out{.name = "model",
              .help = "One network, and with --parameters which of them weight decay changes",
              .options = {{.name = "NAME",
                           .to = &options->name,
                           .help = "The network; `frn info models` lists them",
                           .required = true}},
              .run = [options](const Given&) { print_model(*options); }};
  for (auto& option : common_options(*options)) out.options.push_back(std::move(option));
  out.options.push_back({.name = "--parameters",
                         .to = &options->parameters,
                         .help = "List every parameter, those with weight decay and those without"});
  out.options.push_back({.name = "--memory",
                         .to = &options->memory,
                         .help = "Measure what a training step takes: runs some steps on noise of --size pixels"});
  out.options.push_back({.name = "--batch-per-device",
                         .to = &options->batch_per_device,
                         .help = "With --memory: images per step",
                         .range = Range{1},
                         .needs = {"--memory"}});
  out.options.push_back({.name = "--image-size",
                         .to = &options->size,
                         .help = "Another name for --size, as in frn train",
                         .default_text = "the model's own",
                         .range = kSizes,
                         .excludes = {"--size"}});
  out.options.push_back(
      {.name = "--limit",
       .to = &options->limit,
       .help = "With --memory: also the largest batch and the largest image within so much, such as 8GB",
       .value = "BYTES",
       .needs = {"--memory"}});
  out.options.push_back({.name = "--decay-norms",
                         .to = &options->decay.norms,
                         .help = "Count the parameters of norms and activations among those with weight decay"});
  out.options.push_back(
      {.name = "--decay-biases", .to = &options->decay.biases, .help = "Count biases among those with weight decay"});
  return out;
}

}  // namespace

std::vector<Command> info_model_commands() { return {models_command(), model_command()}; }

}  // namespace frn::cli
