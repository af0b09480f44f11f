// TrainConfig from and to TOML, by its list of settings.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <fstream>
#include <iterator>

#include "frn/core/error.h"
#include "frn/core/text.h"
#include "frn/core/value.h"
#include "frn/train/config.h"

namespace frn::train {
namespace {

// Shortest text that reads back as the same number, and as a float.
std::string real(double value) {
  auto text = fmt::format("{}", value);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

struct ToText {
  std::string operator()(const std::string* value) const { return frn::to_toml(*value); }
  std::string operator()(const int64_t* value) const { return std::to_string(*value); }
  std::string operator()(const double* value) const { return real(*value); }
  std::string operator()(const bool* value) const { return *value ? "true" : "false"; }
  std::string operator()(const std::vector<double>* values) const {
    std::string out;
    for (const double value : *values) out += (out.empty() ? "" : ", ") + real(value);
    return "[" + out + "]";
  }
};

// Gives false when the value has another type.
struct FromValue {
  const Value& value;
  bool operator()(std::string* out) const { return take(value.text(), out); }
  bool operator()(int64_t* out) const { return take(value.whole(), out); }
  bool operator()(bool* out) const { return take(value.flag(), out); }
  bool operator()(double* out) const {
    const auto number = value.number();
    return take(number ? &*number : nullptr, out);
  }
  bool operator()(std::vector<double>* out) const {
    if (value.list() == nullptr) return false;
    std::vector<double> numbers;
    for (const auto& element : *value.list()) {
      if (!element.number()) return false;
      numbers.push_back(*element.number());
    }
    return take(&numbers, out);
  }

 private:
  template <typename T>
  static bool take(const T* given, T* out) {
    if (given != nullptr) *out = *given;
    return given != nullptr;
  }
};

struct TypeName {
  const char* operator()(const std::string*) const { return "a text"; }
  const char* operator()(const int64_t*) const { return "a whole number"; }
  const char* operator()(const double*) const { return "a number"; }
  const char* operator()(const bool*) const { return "true or false"; }
  const char* operator()(const std::vector<double>*) const { return "a list of numbers"; }
};

// "--lr-base" as "lr_base": a file has keys where the help has options.
std::string with_keys(std::string_view help) {
  std::string out;
  for (size_t i = 0; i < help.size(); ++i) {
    if (!help.substr(i).starts_with("--")) {
      out += help[i];
      continue;
    }
    for (i += 2; i < help.size() && (std::islower(static_cast<unsigned char>(help[i])) != 0 || help[i] == '-'); ++i) {
      out += help[i] == '-' ? '_' : help[i];
    }
    --i;
  }
  return out;
}

// "how the learning rate falls after warm-up (cosine, step, constant)", "steps between checkpoints; 0: an epoch"
std::string comment_of(const Setting& setting, const std::string& standard) {
  auto out = with_keys(setting.help);
  if (!setting.choices.empty()) out += fmt::format(" ({})", join(setting.choices));
  if (!setting.default_text.empty()) out += fmt::format("; {}: {}", standard, with_keys(setting.default_text));
  return out;
}

Value parse(const std::string& text, const std::string& source) {
  try {
    return parse_toml(text);
  } catch (const ValueError& error) {
    throw Error("config", source + ": " + error.what());
  }
}

}  // namespace

void read_toml(TrainConfig& config, const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file || !std::filesystem::is_regular_file(path)) {
    throw Error("config", path.string() + ": there is no such file");
  }
  read_toml_text(config, {std::istreambuf_iterator<char>(file), {}}, path.string());
}

void read_toml_text(TrainConfig& config, const std::string& text, const std::string& source) {
  const auto table = parse(text, source);
  const auto settings = settings_of(config);
  std::vector<std::string_view> known;
  for (const auto& setting : settings) known.push_back(setting.key);
  for (const auto& [name, value] : table.as_table()) {
    const auto setting =
        std::find_if(settings.begin(), settings.end(), [&key = name](const auto& s) { return s.key == key; });
    if (setting == settings.end()) {
      throw Error("config",
                  fmt::format("{}: unknown key '{}'{}; known: {}", source, name, suggestion(name, known), join(known)));
    }
    if (!std::visit(FromValue{value}, setting->value)) {
      throw Error("config", fmt::format("{}: {} must be {}", source, name, std::visit(TypeName{}, setting->value)));
    }
  }
}

std::string to_toml(const TrainConfig& config) {
  auto copy = config;
  TrainConfig standard;
  const auto settings = settings_of(copy);
  const auto defaults = settings_of(standard);
  std::string out;
  for (size_t i = 0; i < settings.size(); ++i) {
    out += fmt::format("{} = {}  # {}\n", settings[i].key, std::visit(ToText{}, settings[i].value),
                       comment_of(settings[i], std::visit(ToText{}, defaults[i].value)));
  }
  return out;
}

}  // namespace frn::train
