#include "frn/cli/train_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "frn/core/error.h"

namespace frn::cli {
namespace {

std::string option_name(std::string_view key) {
  std::string name = "--" + std::string(key);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

struct AddOption {
  CLI::App& command;
  const train::Setting& setting;

  CLI::Option* operator()(bool* value) const {
    return command.add_flag(option_name(setting.key), *value, std::string(setting.help));
  }
  CLI::Option* operator()(std::vector<double>* value) const {
    return command.add_option(option_name(setting.key), *value, std::string(setting.help))
        ->delimiter(',')
        ->capture_default_str();
  }
  template <typename T>
  CLI::Option* operator()(T* value) const {
    return command.add_option(option_name(setting.key), *value, std::string(setting.help))->capture_default_str();
  }
};

void copy_value(const train::Setting& from, const train::Setting& to) {
  std::visit([&](auto* source) { *std::get<decltype(source)>(to.value) = *source; }, from.value);
}

bool same_value(const train::Setting& a, const train::Setting& b) {
  return std::visit([&](auto* value) { return *value == *std::get<decltype(value)>(b.value); }, a.value);
}

}  // namespace

void TrainOptions::add_to(CLI::App& command) {
  command.add_option("--config", file_, "TOML file with settings (keys as the options, with _ for -)");
  for (const auto& setting : train::settings_of(parsed_)) {
    options_.push_back(std::visit(AddOption{command, setting}, setting.value));
  }
}

void TrainOptions::apply_given(train::TrainConfig& config) const {
  const auto from = train::settings_of(parsed_);
  const auto to = train::settings_of(config);
  for (size_t i = 0; i < from.size(); ++i) {
    if (options_[i]->count() > 0) copy_value(from[i], to[i]);
  }
}

double TrainOptions::timeout() const {
  train::TrainConfig config;
  if (!file_.empty()) train::read_toml(config, file_);
  apply_given(config);
  return config.timeout;
}

train::TrainConfig TrainOptions::resolve() const {
  train::TrainConfig config;
  if (!file_.empty()) train::read_toml(config, file_);
  apply_given(config);
  train::check(config);
  return config;
}

train::TrainConfig TrainOptions::resolve_resumed(const train::RunFolder& folder) const {
  const auto saved = folder.read_config();
  auto wanted = saved;
  if (!file_.empty()) train::read_toml(wanted, file_);
  apply_given(wanted);
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
