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

std::string toml_text(const Value& value) {
  if (value.whole() == nullptr && value.number()) return real(*value.number());
  if (value.list() == nullptr) return frn::to_toml(value);
  std::string out;
  for (const auto& element : *value.list()) out += (out.empty() ? "" : ", ") + toml_text(element);
  return "[" + out + "]";
}

struct Get {
  const Setting& setting;
  Value operator()(const std::string* value) const { return *value; }
  Value operator()(const int64_t* value) const { return *value; }
  Value operator()(const double* value) const { return *value; }
  Value operator()(const bool* value) const { return *value; }
  Value operator()(const std::vector<double>* values) const { return Value::list_of(*values); }
  Value operator()(const Setting::MaybeWhole& place) const { return place.value->value_or(place.missing); }
  Value operator()(const Setting::MaybeNumber& place) const { return place.value->value_or(place.missing); }
  Value operator()(const Setting::Word& place) const { return setting.choices.at(place.get()); }
};

// Gives false when the value has another type.
struct Put {
  const Setting& setting;
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
  bool operator()(const Setting::MaybeWhole& out) const {
    if (value.whole() == nullptr) return false;
    *out.value = *value.whole() == out.missing ? std::nullopt : std::optional(*value.whole());
    return true;
  }
  bool operator()(const Setting::MaybeNumber& out) const {
    if (!value.number()) return false;
    const bool missing = out.reads_as_missing && *value.number() == out.missing;
    *out.value = missing ? std::nullopt : value.number();
    return true;
  }
  bool operator()(const Setting::Word& out) const {
    if (value.text() == nullptr) return false;
    const auto found = std::find(setting.choices.begin(), setting.choices.end(), *value.text());
    if (found == setting.choices.end()) return false;
    out.set(static_cast<size_t>(found - setting.choices.begin()));
    return true;
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
  const char* operator()(const Setting::MaybeWhole&) const { return "a whole number"; }
  const char* operator()(const Setting::MaybeNumber&) const { return "a number"; }
  const char* operator()(const Setting::Word&) const { return "a text"; }
};

// "autocast must be one of none, bfloat16 but is 'float16'", "steps must be a whole number"
std::string complaint(const Setting& setting, const Value& value) {
  if (std::holds_alternative<Setting::Word>(setting.value) && value.text() != nullptr) {
    return fmt::format("{} must be one of {} but is '{}'{}", setting.key, join(setting.choices), *value.text(),
                       suggestion(*value.text(), setting.choices));
  }
  return fmt::format("{} must be {}", setting.key, std::visit(TypeName{}, setting.value));
}

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
  if (setting.default_text.empty()) return out;
  // A number that stands for "not given" is explained; a default that depends on others is told.
  const auto* const number = std::get_if<Setting::MaybeNumber>(&setting.value);
  const bool is_default = number != nullptr && !number->reads_as_missing;
  out += fmt::format("; {}: {}", is_default ? "default" : standard, with_keys(setting.default_text));
  return out;
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
  const auto table = parse_toml_of(source, text, "config");
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
    if (!setting->put(value)) throw Error("config", source + ": " + complaint(*setting, value));
  }
}

Value Setting::get() const { return std::visit(Get{*this}, value); }
bool Setting::put(const Value& given) const { return std::visit(Put{*this, given}, value); }

namespace {

std::string lines_of(TrainConfig config, bool general_alone) {
  TrainConfig standard;
  const auto settings = settings_of(config);
  const auto defaults = settings_of(standard);
  std::string out;
  for (size_t i = 0; i < settings.size(); ++i) {
    if (general_alone && !is_general(settings[i].key)) continue;
    out += fmt::format("{} = {}  # {}\n", settings[i].key, toml_text(settings[i].get()),
                       comment_of(settings[i], toml_text(defaults[i].get())));
  }
  return out;
}

}  // namespace

std::string to_toml(const TrainConfig& config) { return lines_of(config, false); }

std::string to_toml(const TrainSettings& settings) {
  TrainConfig config;
  static_cast<TrainSettings&>(config) = settings;
  return lines_of(config, true);
}

}  // namespace frn::train
