// frn info norms | data | system (models: info_models.cpp): what can be asked for, and what it will run on.
#include <fmt/format.h>
#include <torch/version.h>

#include "frn/cli/allocator.h"
#include "frn/cli/commands.h"
#include "frn/cli/output.h"
#include "frn/cli/provenance.h"
#include "frn/cli/threads.h"
#include "frn/cli/version.h"
#include "frn/data/dataset.h"
#include "frn/ops/ops.h"
#include "frn/spec/spec_json.h"

namespace frn::cli {
namespace {

void print_norms(bool as_json) {
  if (as_json) {
    print_json(norm_table_value());
    return;
  }
  fmt::print(
      "A layer is named norm[(key=value,...)]+activation, for example frn+tlu or gn(groups=32)+relu.\n\nNorms\n");
  for (const auto& row : norm_table()) {
    fmt::print("  {:<6}{}\n", row.name, row.description);
    for (const auto& option : row.options) fmt::print("          {:<12}{}\n", option.key, option.description);
  }
  fmt::print("\nActivations\n");
  for (const auto& row : activation_table()) fmt::print("  {:<12}{}\n", row.name, row.description);
}

std::string form_of(const data::KindRow& row) { return fmt::format("{}{}", row.name, row.takes_path ? ":DIR" : ""); }

void print_data(bool as_json) {
  auto out = Value::empty_list();
  for (const auto& row : data::dataset_kinds()) {
    out.push_back({{"kind", row.name},
                   {"description", row.description},
                   {"takes_path", row.takes_path},
                   {"other_form", row.other_form},
                   {"image_size", row.usual.image_size}});
  }
  if (as_json) {
    print_json(out);
    return;
  }
  fmt::print("Data sets for --data; each has training and validation images.\n\n");
  for (const auto& row : data::dataset_kinds()) {
    fmt::print("  {:<16}{}\n", form_of(row), row.description);
    if (!row.other_form.empty()) fmt::print("  {:<16}or {}:{}\n", "", row.name, row.other_form);
  }
}

void print_system(bool as_json) {
  const auto list = implementations();
  const auto chosen = chosen_implementation();
  if (as_json) {
    Value out{{"frn", FRN_VERSION},
              {"commit", commit()},
              {"libtorch", TORCH_VERSION},
              {"cpu", cpu_name().value_or("unknown")},
              {"threads", default_threads()},
              {"allocator", allocator_name()},
              {"chosen", chosen},
              {"implementations", Value::empty_list()}};
    for (const auto& one : list) out["implementations"].push_back({{"name", one.name}, {"why_not", one.why_not}});
    print_json(out);
    return;
  }
  fmt::print("{}\ncpu        {}\nthreads    {}\nallocator  {}\n", version_text(), cpu_name().value_or("unknown"),
             default_threads(), allocator_name());
  fmt::print("implementations, best first (FRN_IMPLEMENTATION=name forces one):\n");
  for (const auto& one : list) {
    const std::string note = !one.why_not.empty() ? "not here: " + one.why_not : one.name == chosen ? "in use" : "";
    fmt::print("  {:<11}{}\n", one.name, note);
  }
}

Command printing_command(const char* name, const char* help, void (*print)(bool)) {
  auto as_json = std::make_shared<bool>(false);
  return {.name = name,
          .help = help,
          .options = {{.name = "--json", .to = as_json.get(), .help = "Print JSON"}},
          .run = [as_json, print](const Given&) { print(*as_json); }};
}

}  // namespace

Command info_command() {
  Command out{.name = "info", .help = "What can be asked for, and what it will run on"};
  out.commands.push_back(
      printing_command("norms", "The normalisations and activations that a layer's name is made of", print_norms));
  for (auto& command : info_model_commands()) out.commands.push_back(std::move(command));
  out.commands.push_back(printing_command("data", "The kinds of data sets, and how each is named", print_data));
  out.commands.push_back(
      printing_command("system", "Versions, processor, threads, and the kernels that fit it", print_system));
  return out;
}

}  // namespace frn::cli
