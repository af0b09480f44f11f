#include "frn/cli/complaints.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "frn/core/text.h"

namespace frn::cli {
namespace {

// What other trainers (timm, torchvision's references, Lightning, torchrun) call our options. Without dashes.
struct OtherName {
  std::string_view theirs;
  std::string_view ours;
  std::string_view why = "";  // where it does not mean quite the same
};

constexpr std::string_view kPerDevice = "it counts the images of one device, not of all";
constexpr std::string_view kLrBase = "the rate for 256 images, of detectors for 64; the batch scales it";
constexpr std::string_view kDevices = "a GPU per process takes --processes and --device cuda";
constexpr std::array kOtherNames = std::to_array<OtherName>({
    {"lr", "lr-base", kLrBase},
    {"learning-rate", "lr-base", kLrBase},
    {"warmup", "warmup-steps", ""},
    {"batch", "batch-per-device", kPerDevice},
    {"batch-size", "batch-per-device", kPerDevice},
    {"b", "batch-per-device", kPerDevice},
    {"gpus", "devices", kDevices},
    {"num-gpus", "devices", kDevices},
    {"nproc-per-node", "processes"},
    {"wd", "weight-decay"},
    {"num-workers", "workers"},
    {"j", "workers"},
    {"output", "out"},
    {"output-dir", "out"},
    {"o", "out"},
    {"arch", "model"},
    {"a", "model"},
    {"dataset", "data"},
    {"data-dir", "data"},
    {"data-path", "data"},
    {"img-size", "image-size"},
    {"input-size", "image-size"},
    {"smoothing", "label-smoothing"},
    {"clip-grad", "clip-gradient-norm"},
    {"warmup-epochs", "warmup-steps", "it counts steps"},
    {"amp", "autocast"},
    {"pretrained", "weights"},
    {"log-interval", "log-every"},
});

std::vector<std::string_view> option_names(const Command& command) {
  std::vector<std::string_view> names;
  for (const auto& option : command.options) {
    if (!option.hidden && option.name.starts_with('-')) names.emplace_back(option.name);
  }
  return names;
}

// "-Batch_Size" as "batch-size": people mix dashes, underscores and capitals.
std::string bare(std::string_view name) {
  std::string out(name.substr(std::min(name.size(), name.find_first_not_of('-'))));
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return c == '_' ? '-' : static_cast<char>(std::tolower(c)); });
  return out;
}

bool contains(const std::vector<std::string_view>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// " (did you mean '--lr-base'? ...)": the same name written otherwise, another trainer's name, the beginning of one or
// two names, then the nearest spelling.
std::string suggested_option(const std::string& word, const std::vector<std::string_view>& known) {
  const auto name = bare(word);
  if (contains(known, "--" + name)) return fmt::format(" (did you mean '--{}'?)", name);
  for (const auto& [theirs, ours, why] : kOtherNames) {
    if (theirs != name || !contains(known, fmt::format("--{}", ours))) continue;
    return fmt::format(" (did you mean '--{}'?{}{})", ours, why.empty() ? "" : " ", why);
  }
  std::vector<std::string_view> longer;
  for (const auto candidate : known) {
    if (name.size() > 1 && candidate.starts_with("--" + name)) longer.push_back(candidate);
  }
  if (!longer.empty() && longer.size() <= 2) return fmt::format(" (did you mean '{}'?)", join(longer, "' or '"));
  return suggestion("--" + name, known);
}

std::string unknown_option(const Command& command, const std::string& path, const std::string& word) {
  return fmt::format("unknown option '{}'{}; frn{} --help lists the options", word,
                     suggested_option(word, option_names(command)), path);
}

std::string unknown_command(const Command& command, const std::string& path, const std::string& word) {
  std::vector<std::string_view> names;
  for (const auto& child : command.commands) names.emplace_back(child.name);
  const auto where = path.empty() ? "" : path.substr(1) + " ";
  return fmt::format("unknown command '{}{}'{}; known: {}", where, word, suggestion(word, names), join(names));
}

bool is_option(const std::string& word) {
  return word.size() > 1 && word[0] == '-' &&
         (std::isalpha(static_cast<unsigned char>(word[1])) != 0 || word[1] == '-');
}

bool knows(const Command& command, const std::string& name, bool at_top) {
  if (name == "-h" || name == "--help" || name == "--help-all" || (at_top && name == "--version")) return true;
  return std::any_of(command.options.begin(), command.options.end(), [&](const auto& o) { return o.name == name; });
}

}  // namespace

std::optional<std::string> find_unknown(const Command& program, const std::vector<std::string>& arguments) {
  const Command* command = &program;
  std::string path;
  for (const auto& word : arguments) {
    if (word == "--") break;  // what follows are arguments, whatever they look like
    if (is_option(word)) {
      const auto name = word.substr(0, word.find('='));
      if (!knows(*command, name, path.empty())) return unknown_option(*command, path, name);
      continue;
    }
    const auto& children = command->commands;
    if (children.empty()) continue;  // an argument or an option's value
    const auto next = std::find_if(children.begin(), children.end(), [&](const auto& c) { return c.name == word; });
    if (next == children.end()) return unknown_command(*command, path, word);
    path += " " + word;
    command = &*next;
  }
  return std::nullopt;
}

}  // namespace frn::cli
