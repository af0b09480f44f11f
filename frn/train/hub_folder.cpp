#include "frn/train/hub_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "frn/core/error.h"
#include "frn/core/metric.h"
#include "frn/core/value.h"
#include "frn/core/whole_file.h"
#include "frn/nn/weights.h"
#include "frn/version.h"

namespace frn::train {
namespace {

constexpr const char* kHubConfig = "config.json";
constexpr const char* kHubWeights = "model.safetensors";

// Folders of the machine that trained are nobody else's business, and of no use to them: the kind of data stays.
TrainConfig without_folders(TrainConfig config) {
  const auto colon = config.data.find(':');
  if (colon != std::string::npos && !data::parse_data_name(config.data).kind->takes_text) config.data.resize(colon);
  config.weights.clear();
  config.backbone.clear();
  return config;
}

Value settings_value(TrainConfig config) {
  auto out = Value::empty_table();
  for (const auto& setting : settings_of(config)) out[setting.key] = setting.get();
  return out;
}

TrainConfig settings_from(const Value& from) {
  return applied_to_defaults([&](TrainConfig& config) {
    for (const auto& setting : settings_of(config)) {
      const auto* const value = from.find(setting.key);
      if (value != nullptr && !setting.put(*value)) throw ValueError(fmt::format("{} has another type", setting.key));
    }
  });
}

Value input_of(const TrainedModel& trained) {
  const auto& facts = trained.facts;
  const auto size = trained.config.image_size.value_or(facts.image_size);
  const auto shown = [&](const std::array<float, 3>& values) {
    return Value::list_of(std::vector<double>(values.begin(), values.begin() + facts.channels));
  };
  return {{"input_size", Value::list_of(std::vector<int64_t>{facts.channels, size, size})},
          {"mean", shown(facts.mean)},
          {"std", shown(facts.deviation)}};
}

// timm's keys where it has them.
Value config_value(const TrainedModel& trained, const TrainConfig& config, const Value& results) {
  return {{"library_name", "frn"},
          {"frn_version", FRN_VERSION},
          {"architecture", config.model},
          {"norm", config.norm},
          {"weights_standardised", config.weights_standardised},
          {"num_classes", static_cast<int64_t>(trained.classes.size())},
          {"label_names", Value::list_of(trained.classes)},
          {"pretrained_cfg", input_of(trained)},
          {"step", trained.step},
          {"weights", trained.averaged ? "averaged" : "plain"},
          {"results", results},
          {"set", set_value(trained.facts)},
          {"settings", settings_value(config)}};
}

// A text in a cell of a Markdown table, whatever is in it.
std::string cell(std::string_view text) {
  std::string out;
  for (const char letter : text) {
    if (letter == '|' || letter == '`' || letter == '<' || letter == '\\') out += '\\';
    out += static_cast<unsigned char>(letter) < ' ' ? ' ' : letter;
  }
  return out;
}

std::string results_table(const TrainedModel& trained, const Value& results) {
  const auto* const validation = results.is_null() ? nullptr : results.find("validation");
  if (validation == nullptr || validation->is_null()) return "Not measured.\n";
  std::string out = "| metric | value |\n|---|---|\n";
  for (const auto& metric : trained.task->metrics()) {
    const auto* const value = validation->find(metric.key);
    if (value == nullptr || !value->number()) continue;
    out += fmt::format("| {} | {} |\n", cell(metric.title), cell(shown(metric, *value->number())));
  }
  return out;
}

std::string card(const TrainedModel& trained, const TrainConfig& config, const Value& results,
                 const std::string& licence) {
  const auto size = config.image_size.value_or(trained.facts.image_size);
  std::string out = fmt::format(
      "---\nlibrary_name: frn\nlicense: {}\ntags:\n- {}\n- filter-response-normalization\n---\n\n",
      licence.empty() ? "other" : licence, trained.model->row().detects ? "object-detection" : "image-classification");
  out += fmt::format("# {} with {}\n\n", config.model, config.norm);
  out += fmt::format("Trained by frn {} on `{}`: {} classes, images of {} x {} px, {} channels.\n\n", FRN_VERSION,
                     cell(config.data), trained.classes.size(), size, size, trained.facts.channels);
  if (licence.empty()) out += "Licence: the owner of these weights has named none.\n\n";
  out += fmt::format("## Result\n\nOn the validation images, with the {} weights of step {}:\n\n{}\n",
                     trained.averaged ? "averaged" : "plain", trained.step, results_table(trained, results));
  out += "## Use\n\n    frn eval --run . --data KIND:DIR\n    frn predict --run . photo.jpg\n\n";
  out += "In Python, `weights, config = frn.load(\".\")`.\n\n";
  out += "## Training\n\n    frn train --config train.toml --out runs/a\n\nwith `train.toml`:\n\n```toml\n" +
         to_toml(config);
  return out + "```\n";
}

}  // namespace

bool is_hub_folder(const std::filesystem::path& folder) {
  std::error_code error;
  return std::filesystem::is_regular_file(folder / kHubConfig, error) &&
         std::filesystem::is_regular_file(folder / kHubWeights, error);
}

void write_hub_folder(const TrainedModel& trained, const Value& results, const std::string& licence,
                      const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  const auto target = (folder.has_filename() ? folder : folder.parent_path());
  if (fs::exists(fs::symlink_status(target, error)) &&
      !(fs::is_directory(target, error) && fs::is_empty(target, error))) {
    throw Error("export", target.string() + " is there already; name a folder that is not, or an empty one");
  }
  const auto config = without_folders(trained.config);
  auto beside = target;
  beside += fmt::format(".partial-{}", getpid());
  fs::create_directories(beside, error);
  if (error) throw Error("export", "cannot make the folder " + beside.string() + ": " + error.message());
  try {
    write_weights(beside / kHubWeights, state_of(*trained.model),
                  {{"format", "pt"}, {"frn.model", config.model}, {"frn.norm", config.norm}});
    write_whole_file(beside / kHubConfig, to_json(config_value(trained, config, results), 2) + "\n", "export");
    write_whole_file(beside / "README.md", card(trained, config, results, licence), "export");
    fs::rename(beside, target, error);
    if (error) throw Error("export", "cannot make the folder " + target.string() + ": " + error.message());
  } catch (...) {
    fs::remove_all(beside, error);
    throw;
  }
  sync_folder(target.has_parent_path() ? target.parent_path() : fs::path("."));
}

TrainedModel open_hub_folder(const std::filesystem::path& folder) {
  TrainedModel trained;
  const auto file = folder / kHubConfig;
  try {
    const auto value = parse_json(contents_of(file));
    trained.config = settings_from(value.at("settings"));
    for (const auto& name : value.at("label_names").as_list()) trained.classes.push_back(name.as_text());
    trained.facts = set_from(value.at("set"));
    trained.step = value.at("step").as_whole();
    trained.averaged = value.at("weights").as_text() == "averaged";
  } catch (const ValueError& error) {
    throw Error(
        "hub", fmt::format("{}: {}; it must be one that `frn export --to hub:DIR` wrote", file.string(), error.what()));
  }
  trained.checkpoint = folder / kHubWeights;
  trained.model = make_model(trained.config, static_cast<int64_t>(trained.classes.size()), trained.facts);
  trained.task = make_task(trained.config, *trained.model, trained.classes);
  load_state(*trained.model, read_weights(trained.checkpoint));
  trained.model->eval();
  return trained;
}

}  // namespace frn::train
