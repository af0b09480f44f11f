// frn info models | model NAME: the networks, what they cost, and what each parameter is.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "frn/cli/commands.h"
#include "frn/core/text.h"
#include "frn/models/model.h"
#include "frn/nn/norm_act.h"
#include "frn/nn/parameter_groups.h"

namespace frn::cli {
namespace {

using nlohmann::json;

struct Options {
  std::string norm = "frn+tlu";
  std::string name;
  int64_t classes = 1000;
  int64_t input_channels = 3;
  int64_t size = 0;
  bool parameters = false;
  DecayRule decay;
  bool as_json = false;

  ModelOptions model() const {
    return {.norm = NormActSpec::parse(norm), .classes = classes, .input_channels = input_channels};
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

json describe(const ModelRow& row, const Options& options) {
  const auto model_options = options.model();
  const auto model = make_uninitialised_model(row.name, model_options);
  const int64_t size = options.size > 0 ? options.size : row.input_size;
  return {{"name", row.name},
          {"description", row.description},
          {"norm", model_options.norm.to_string()},
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

void print_models(const Options& options) {
  const auto note = rounding_note(NormActSpec::parse(options.norm));
  json all = json::array();
  for (const auto& row : model_table()) all.push_back(describe(row, options));
  if (options.as_json) {
    std::cout << json{{"models", all}, {"note", note}}.dump(2) << "\n";
    return;
  }
  fmt::print("With {} and {} classes:\n", options.norm, options.classes);
  fmt::print("{:<14}{:>12}{:>15}{:>9}{:>10}  {}\n", "model", "parameters", "multiply-adds", "input", "smallest", "");
  for (const auto& one : all) {
    fmt::print("{:<14}{:>12}{:>15}{:>9}{:>10}  {}\n", one["name"].get<std::string>(),
               fmt::format("{:.2f} M", one["parameters"].get<double>() / 1e6),
               millions_or_billions(one["multiply_adds"].get<double>()), one["input_size"].get<int64_t>(),
               one["smallest_input"].get<int64_t>(), one["description"].get<std::string>());
  }
  if (!note.empty()) fmt::print("{}\n", note);
}

json parameters_json(const ParameterGroups::List& list) {
  json out = json::array();
  for (const auto& [name, tensor] : list) out.push_back({{"name", name}, {"shape", tensor.sizes().vec()}});
  return out;
}

void print_group(const char* title, const ParameterGroups::List& list) {
  int64_t values = 0;
  for (const auto& [name, tensor] : list) values += tensor.numel();
  fmt::print("\n{}: {} tensors, {} values\n", title, list.size(), values);
  for (const auto& [name, tensor] : list) fmt::print("  {:<48}{}\n", name, shape_text(tensor.sizes()));
}

void print_model(const Options& options) {
  const auto& row = find_model(options.name);
  auto about = describe(row, options);
  const auto model = make_uninitialised_model(row.name, options.model());
  const auto groups = parameter_groups(*model, options.decay);
  const auto note = rounding_note(NormActSpec::parse(options.norm));
  if (options.as_json) {
    about["note"] = note;
    about["decayed"] = parameters_json(groups.decayed);
    about["not_decayed"] = parameters_json(groups.not_decayed);
    std::cout << about.dump(2) << "\n";
    return;
  }
  fmt::print("{}: {}\n", row.name, row.description);
  fmt::print("norm            {}\n", about["norm"].get<std::string>());
  fmt::print("parameters      {}\n", about["parameters"].get<int64_t>());
  fmt::print("multiply-adds   {} for one image of {} px\n", about["multiply_adds"].get<int64_t>(),
             about["input_size"].get<int64_t>());
  fmt::print("smallest input  {} px", row.smallest_input);
  if (row.auxiliary_weight > 0) fmt::print(", {} while training with the auxiliary head", row.smallest_with_auxiliary);
  fmt::print("\n");
  if (row.auxiliary_weight > 0) fmt::print("auxiliary head  its loss counts {} while training\n", row.auxiliary_weight);
  if (row.dropout > 0) fmt::print("dropout         {}\n", row.dropout);
  fmt::print("weight decay    {} tensors, not {}\n", groups.decayed.size(), groups.not_decayed.size());
  if (!note.empty()) fmt::print("{}\n", note);
  if (!options.parameters) return;
  print_group("decayed", groups.decayed);
  print_group("not decayed", groups.not_decayed);
}

void add_common(CLI::App& command, Options& options) {
  command.add_option("--norm", options.norm, "Normalisation and activation, e.g. gn+relu (frn info norms)")
      ->capture_default_str();
  command.add_option("--classes", options.classes, "Classes")->capture_default_str();
  command.add_option("--input-channels", options.input_channels, "Channels of the images")->capture_default_str();
  command.add_option("--size", options.size, "Height and width for the multiply-adds (default: the model's own)")
      ->check(CLI::PositiveNumber);
  command.add_flag("--json", options.as_json, "Print JSON");
}

}  // namespace

void add_info_models(CLI::App& info) {
  auto list_options = std::make_shared<Options>();
  auto* list = info.add_subcommand("models", "The networks with parameters, multiply-adds and input size");
  add_common(*list, *list_options);
  list->callback([list_options] { print_models(*list_options); });

  auto options = std::make_shared<Options>();
  auto* one = info.add_subcommand("model", "One network, and with --parameters what weight decay touches");
  one->add_option("NAME", options->name, "A network of frn info models")->required();
  add_common(*one, *options);
  one->add_flag("--parameters", options->parameters, "List every parameter, decayed and not decayed");
  one->add_flag("--decay-norms", options->decay.norms, "Decay the parameters of norms and activations too");
  one->add_flag("--decay-biases", options->decay.biases, "Decay biases too");
  one->callback([options] { print_model(*options); });
}

}  // namespace frn::cli
