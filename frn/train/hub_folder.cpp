#include "frn/train/hub_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "frn/core/any_bytes.h"
#include "frn/core/error.h"
#include "frn/core/metric.h"
#include "frn/core/text.h"
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

bool data_kind_takes_path(const TrainConfig& config) {
  const auto kinds = data::dataset_kinds();
  const auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const auto& row) { return row.name == config.data; });
  return kind != kinds.end() && kind->takes_path;
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

// Of metrics.json what is about the weights, not about the run.
Value validation_in(const Value& results) {
  auto out = Value::empty_table();
  for (const char* key : {"validation", "metrics"}) {
    if (const auto* const value = results.find(key)) out[key] = *value;
  }
  return out;
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
          {"results", validation_in(results)},
          {"set", set_value(trained.facts)},
          {"settings", settings_value(config)}};
}

// A text within a line of Markdown, not at its start, whatever is in it: nothing of it is markup, and it is Unicode.
std::string plain_markdown(std::string_view text) {
  constexpr std::string_view kMarkup = "\\`*_[]<>|~&";
  std::string out;
  for (const char letter : one_line(to_unicode(text))) {
    if (kMarkup.find(letter) != std::string_view::npos) out += '\\';
    out += letter;
  }
  return out;
}

// As a block of code that no line can end.
std::string indented(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    out += fmt::format("    {}\n", line);
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  return out;
}

// Of these very weights: an interrupted run has newer ones than it has measured, and a run with an average measures
// that.
const Value* measured(const TrainedModel& trained, const Value& results) {
  const auto* const validation = results.find("validation");
  if (validation == nullptr || validation->table() == nullptr) return nullptr;
  const auto* const step = validation->find("step");
  const bool averages = trained.config.ema_decay > 0;
  return step != nullptr && *step == Value(trained.step) && averages == trained.averaged ? validation : nullptr;
}

std::string results_table(const TrainedModel& trained, const Value& results) {
  const auto* const validation = measured(trained, results);
  if (validation == nullptr) return "These weights have not been measured; `frn eval` does it.\n";
  std::string out = "On the validation images:\n\n| metric | value |\n|---|---|\n";
  for (const auto& metric : trained.task->metrics()) {
    const auto* const value = validation->find(metric.key);
    if (value == nullptr || !value->number()) continue;
    out += fmt::format("| {} | {} |\n", plain_markdown(metric.title), plain_markdown(shown(metric, *value->number())));
  }
  return out;
}

std::string schedule_table(TrainConfig config) {
  constexpr std::array<std::string_view, 11> kShown{"batch_per_device", "devices",      "lr_base",      "lr_images",
                                                    "schedule",         "warmup_steps", "warmup_share", "weight_decay",
                                                    "optimizer",        "ema_decay",    "seed"};
  const std::string_view length = config.steps > 0 ? "steps" : "epochs";
  std::string out = "| setting | value |\n|---|---|\n";
  for (const auto& setting : settings_of(config)) {
    if (setting.key != length && std::find(kShown.begin(), kShown.end(), setting.key) == kShown.end()) continue;
    const auto value = setting.get();
    const auto* const text = value.text();
    out += fmt::format("| {} | {} |\n", plain_markdown(setting.key),
                       plain_markdown(text != nullptr ? *text : to_json(value)));
  }
  return out;
}

std::string class_list(const std::vector<std::string>& classes) {
  constexpr size_t kMost = 100;
  std::string out;
  for (size_t i = 0; i < std::min(kMost, classes.size()); ++i) {
    out += fmt::format("{}{}", i > 0 ? ", " : "", plain_markdown(classes[i]));
  }
  return out + (classes.size() > kMost ? ", ... (all of them in config.json)" : "");
}

// The front matter is YAML: all of it is ours but the licence, which has no other letters than an SPDX name.
std::string front_matter(const TrainedModel& trained, const std::string& licence) {
  std::string out = "---\nlibrary_name: frn\n";
  if (!licence.empty()) {
    auto name = licence;  // the hub knows licences by their SPDX names in small letters
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    out += fmt::format("license: {}\n", name);
  }
  return out + fmt::format("pipeline_tag: {}\ntags:\n- filter-response-normalization\n---\n\n",
                           trained.model->row().detects ? "object-detection" : "image-classification");
}

std::string card(const TrainedModel& trained, const TrainConfig& config, const Value& results,
                 const std::string& licence) {
  const auto size = config.image_size.value_or(trained.facts.image_size);
  auto out = front_matter(trained, licence);
  out += fmt::format("# {} with {}\n\n", plain_markdown(config.model), plain_markdown(config.norm));
  out += fmt::format("Trained by frn {} on {}: {} classes, images of {} x {} px with {} channel{}.\n\n", FRN_VERSION,
                     plain_markdown(config.data), trained.classes.size(), size, size, trained.facts.channels,
                     trained.facts.channels == 1 ? "" : "s");
  out += licence.empty() ? "Licence: the owner of these weights has named none.\n\n"
                         : fmt::format("Licence of these weights: {}.\n\n", licence);
  out += fmt::format("## Result\n\nThe {} weights of step {}. {}\n", trained.averaged ? "averaged" : "plain",
                     trained.step, results_table(trained, results));
  out +=
      "## Use\n\n    frn eval --run . --data KIND:DIR\n    frn predict --run . photo.jpg\n"
      "    frn export --run . --to model.onnx\n\n";
  out += "In Python, `weights, config = frn.load(\".\")`.\n\n";
  out += "## Training\n\n" + schedule_table(config) + "\n";
  out += "The whole of it again, with the settings below in train.toml:\n\n    frn train --config train.toml --data " +
         std::string(data_kind_takes_path(config) ? config.data + ":DIR" : shell_word(config.data)) +
         " --out runs/a\n\n" + indented(to_toml_file(settings_value(config)));
  return out + "\n## Classes\n\nIn this order: " + class_list(trained.classes) + "\n";
}

void check_licence(const std::string& licence) {
  const auto belongs = [](unsigned char c) { return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '+'; };
  if (std::all_of(licence.begin(), licence.end(), belongs)) return;
  throw Error("export", "a licence must be an SPDX name such as Apache-2.0 but is '" + one_line(licence) + "'");
}

// A shared folder comes from anywhere, and images are read by what stands in it.
void check_images(const data::SetFacts& facts) {
  if (facts.channels != 1 && facts.channels != 3) throw ValueError("channels must be 1 or 3");
  if (facts.image_size < 1) throw ValueError("image_size must be at least 1");
  const bool positive = std::all_of(facts.deviation.begin(), facts.deviation.end(), [](float d) { return d > 0; });
  if (!positive) throw ValueError("deviations must be more than 0");
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
  check_licence(licence);
  const auto target = folder.has_filename() ? folder : folder.parent_path();
  const bool there = fs::exists(fs::symlink_status(target, error));
  if (there && !(fs::is_directory(target, error) && fs::is_empty(target, error))) {
    throw Error("export", target.string() + " must be an empty folder or none yet but is there already; name another");
  }
  const auto config = without_folders(trained.config);
  auto beside = target;
  beside += fmt::format(".partial-{}", getpid());
  fs::create_directories(beside, error);
  if (error) throw Error("export", "cannot make the folder " + beside.string() + ": " + error.message());
  try {
    write_weights(beside / kHubWeights, state_of(*trained.model),
                  {{"format", "pt"},
                   {"frn.model", config.model},
                   {"frn.norm", config.norm},
                   {"frn.weights_standardised", config.weights_standardised}});
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

Value hub_results(const std::filesystem::path& folder) {
  const auto value = parse_json(contents_of(folder / kHubConfig));
  const auto* const results = value.find("results");
  return results != nullptr ? *results : Value(nullptr);
}

TrainedModel open_hub_folder(const std::filesystem::path& folder, Weights weights) {
  TrainedModel trained;
  const auto file = folder / kHubConfig;
  try {
    const auto value = parse_json(contents_of(file));
    const auto* const library = value.find("library_name");
    if (library == nullptr || *library != Value("frn")) throw ValueError("library_name is not frn");
    trained.config = settings_from(value.at("settings"));
    for (const auto& name : value.at("label_names").as_list()) trained.classes.push_back(name.as_text());
    trained.facts = set_from(value.at("set"));
    check_images(trained.facts);
    check(trained.config);
    trained.step = value.at("step").as_whole();
    trained.averaged = value.at("weights").as_text() == "averaged";
  } catch (const ValueError& error) {
    throw Error("run",
                fmt::format("{}: {}; a folder to read must be a run's or one that `frn export --to hub:DIR` wrote",
                            file.string(), error.what()));
  }
  if ((weights == Weights::kAveraged && !trained.averaged) || (weights == Weights::kPlain && trained.averaged)) {
    throw Error("run", fmt::format("{} holds {} weights alone; leave --weights out", folder.string(),
                                   trained.averaged ? "averaged" : "plain"));
  }
  trained.checkpoint = folder / kHubWeights;
  trained.model = make_model(trained.config, static_cast<int64_t>(trained.classes.size()), trained.facts);
  trained.task = make_task(trained.config, *trained.model, trained.classes);
  load_state(*trained.model, read_weights(trained.checkpoint));
  trained.model->eval();
  return trained;
}

}  // namespace frn::train
