#include "frn/cli/train_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>

#include "frn/core/error.h"
#include "frn/core/text.h"
#include "frn/models/model.h"
#include "frn/train/run_folder.h"

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

Option option_of(const train::Setting& setting, Destination to) {
  const bool counts_threads = setting.key == "workers" || setting.key == "threads";
  return {.name = option_name(setting.key),
          .to = to,
          .help = capitalised(setting.help),
          .value = std::string(setting.value_name),
          .group = std::string(setting.group),
          .default_text = std::string(setting.default_text),
          .choices = {setting.choices.begin(), setting.choices.end()},
          .range = counts_threads ? std::optional(Range{0, 1024}) : std::nullopt,
          .separator = std::holds_alternative<std::vector<double>*>(to) ? ',' : '\0'};
}

struct ToValue {
  Value operator()(const std::vector<double>& values) const { return Value::list_of(values); }
  Value operator()(const auto& value) const { return value; }
};

void refuse_idle(const train::TrainConfig& config, const Given& given) {
  for (const auto& idle : train::idle_settings(config, find_model(config.model).detects)) {
    const auto name = option_name(idle.key);
    if (!given.contains(name)) continue;
    const auto other = option_name(idle.other);
    throw UsageError(fmt::format("[train] {0} has no effect with {1} {2}; leave {0} out, or give {1} {3}", name, other,
                                 idle.is, idle.instead));
  }
}

}  // namespace

std::vector<Option> TrainOptions::options() {
  const auto buffer_of = [](const Value& value) -> Buffer {
    if (value.flag() != nullptr) return value.as_flag();
    if (value.whole() != nullptr) return value.as_whole();
    if (value.text() != nullptr) return value.as_text();
    if (value.list() == nullptr) return value.as_number();
    std::vector<double> numbers;
    for (const auto& element : value.as_list()) numbers.push_back(element.as_number());
    return numbers;
  };
  std::vector<Option> out;
  train::TrainConfig standard;
  buffers_.clear();
  for (const auto& setting : train::settings_of(standard)) {
    auto& buffer = buffers_.emplace_back(buffer_of(setting.get()));
    out.push_back(option_of(setting, std::visit([](auto& value) { return Destination(&value); }, buffer)));
  }
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
  const auto settings = train::settings_of(config);
  for (size_t i = 0; i < settings.size(); ++i) {
    if (given.contains(option_name(settings[i].key))) settings[i].put(std::visit(ToValue{}, buffers_.at(i)));
  }
}

double TrainOptions::timeout(const Given& given) const {
  train::TrainConfig config;
  apply(config, given);
  return config.timeout;
}

train::TrainConfig TrainOptions::resolve(const Given& given) const {
  const auto config = train::applied_to_defaults([&](train::TrainConfig& to) { apply(to, given); });
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
    if (before[i].free_on_resume || before[i].get() == after[i].get()) continue;
    throw Error("train",
                fmt::format("a resumed run keeps its {}, but another was given; leave {} out, or start another "
                            "run with --out",
                            before[i].key, option_name(before[i].key)));
  }
  train::check(wanted);
  return wanted;
}

}  // namespace frn::cli
