#include "frn/cli/train_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "frn/core/error.h"
#include "frn/core/text.h"

namespace frn::cli {
namespace {

std::string option_name(std::string_view key) {
  std::string name = "--" + std::string(key);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

std::string capitalised(std::string_view text) {
  std::string out(text);
  out.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(out.front())));
  return out;
}

Option option_of(const train::Setting& setting) {
  const bool is_list = std::holds_alternative<std::vector<double>*>(setting.value);
  return {.name = option_name(setting.key),
          .to = std::visit([](auto* value) { return Destination(value); }, setting.value),
          .help = capitalised(setting.help),
          .value = std::string(setting.placeholder),
          .group = std::string(setting.group),
          .default_text = std::string(setting.default_text),
          .choices = {setting.choices.begin(), setting.choices.end()},
          .separator = is_list ? ',' : '\0'};
}

void copy_value(const train::Setting& from, const train::Setting& to) {
  std::visit([&](auto* source) { *std::get<decltype(source)>(to.value) = *source; }, from.value);
}

bool same_value(const train::Setting& a, const train::Setting& b) {
  return std::visit([&](auto* value) { return *value == *std::get<decltype(value)>(b.value); }, a.value);
}

void refuse_idle(const train::TrainConfig& config, const Given& given) {
  for (const auto& idle : train::idle_settings(config)) {
    const auto name = option_name(idle.key);
    if (!given.contains(name)) continue;
    const auto other = option_name(idle.other);
    throw UsageError(fmt::format("[train] {0} has no effect with {1} {2}; leave {0} out, or give {1} {3}", name, other,
                                 idle.is, idle.instead));
  }
}

}  // namespace

std::vector<Option> TrainOptions::options() {
  std::vector<Option> out;
  for (const auto& setting : train::settings_of(parsed_)) out.push_back(option_of(setting));
  out.push_back({.name = "--config",
                 .to = &file_,
                 .help =
                     "Read settings from a TOML file; its keys are these options with _ for -, as in lr_base = 0.1. "
                     "Options on the command line win",
                 .value = "FILE",
                 .group = "Run"});
  return out;
}

std::string TrainOptions::free_on_resume() {
  train::TrainConfig config;
  std::string out;
  for (const auto& setting : train::settings_of(config)) {
    if (setting.free_on_resume) out += (out.empty() ? "" : ", ") + option_name(setting.key);
  }
  return out;
}

void TrainOptions::apply(train::TrainConfig& config, const Given& given) const {
  if (!file_.empty()) train::read_toml(config, file_);
  const auto from = train::settings_of(parsed_);
  const auto to = train::settings_of(config);
  for (size_t i = 0; i < from.size(); ++i) {
    if (given.contains(option_name(from[i].key))) copy_value(from[i], to[i]);
  }
}

double TrainOptions::timeout(const Given& given) const {
  train::TrainConfig config;
  apply(config, given);
  return config.timeout;
}

train::TrainConfig TrainOptions::resolve(const Given& given) const {
  train::TrainConfig config;
  apply(config, given);
  train::check(config);
  refuse_idle(config, given);
  return config;
}

train::TrainConfig TrainOptions::resolve_resumed(const train::TrainConfig& saved, const Given& given) const {
  auto wanted = saved;
  wanted.max_steps = 0;  // the sitting before had its bound; this one has one when it is given
  apply(wanted, given);
  auto copy = saved;
  const auto before = train::settings_of(copy);
  const auto after = train::settings_of(wanted);
  for (size_t i = 0; i < before.size(); ++i) {
    if (before[i].free_on_resume || same_value(before[i], after[i])) continue;
    throw Error("train",
                fmt::format("a resumed run keeps its {}, but another was given; leave {} out, or start another "
                            "run with --out",
                            before[i].key, option_name(before[i].key)));
  }
  train::check(wanted);
  return wanted;
}

}  // namespace frn::cli
