#include "frn/study/cells.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include "frn/core/error.h"
#include "frn/core/value.h"
#include "frn/study/plain_texts.h"

namespace frn::study {
namespace {

void lay_over(Settings& settings, const Settings& more) {
  for (const auto& [key, value] : more) settings[key] = value;
}

void lay_over(Settings& settings, const std::map<std::string, Settings>& by_name, const std::string& name) {
  const auto found = by_name.find(name);
  if (found != by_name.end()) lay_over(settings, found->second);
}

Settings settings_of(const Definition& study, const Scale& scale, size_t row, size_t column) {
  const auto& r = study.rows[row];
  const auto& c = study.columns[column];
  Settings out = scale.settings;
  lay_over(out, c.settings);
  lay_over(out, r.settings);
  lay_over(out, scale.columns, c.name);
  lay_over(out, scale.rows, r.name);
  lay_over(out, scale.cells, r.name + "@" + c.name);
  return out;
}

}  // namespace

std::string cell_name(const Definition& study, size_t row, size_t column, int64_t seed) {
  auto name = study.rows.at(row).name;
  if (study.columns.size() > 1) name += "-" + study.columns.at(column).name;
  return seed == 0 ? name : fmt::format("{}-seed{}", name, seed);
}

std::string cell_words(const Definition& study, size_t row, size_t column) {
  const auto& words = study.rows.at(row).words;
  return study.columns.size() > 1 ? words + " " + study.columns.at(column).words : words;
}

std::vector<Cell> cells_of(const Definition& study, const Scale& scale, int64_t seeds, const Settings& given) {
  std::vector<Cell> out;
  for (int64_t seed = 0; seed < seeds; ++seed) {
    for (size_t row = 0; row < study.rows.size(); ++row) {
      for (size_t column = 0; column < study.columns.size(); ++column) {
        Cell cell{cell_name(study, row, column, seed), row, column, seed, settings_of(study, scale, row, column)};
        lay_over(cell.settings, given);
        cell.settings.try_emplace("max_steps", "0");  // said, so that a trial can go on to its end
        cell.settings["seed"] = std::to_string(scale.first_seed + seed);
        if (!cell.settings.contains("data")) {
          throw Error("study",
                      fmt::format("{} at scale {} needs --data {}; --data random tries it on generated images",
                                  study.name, scale.name, scale.needs_data.empty() ? "KIND:DIR" : scale.needs_data));
        }
        out.push_back(std::move(cell));
      }
    }
  }
  return out;
}

std::string to_toml(const Settings& settings) {
  std::string out;
  for (const auto& [key, value] : settings) out += fmt::format("{} = {}\n", key, value);
  return out;
}

Settings read_settings(const std::string& text) {
  Settings out;
  const auto table = parse_toml_of("settings of a cell", text, "study");
  for (const auto& [key, value] : table.as_table()) out[key] = frn::to_toml(value);
  return out;
}

std::string plain_value(const Settings& settings, const std::string& key) {
  const auto found = settings.find(key);
  if (found == settings.end()) return "";
  try {
    const auto table = parse_toml("v = " + found->second);
    if (table["v"].text() != nullptr) return *table["v"].text();
  } catch (const ValueError&) {
    return found->second;
  }
  return found->second;
}

std::string quoted_value(const std::string& text) { return frn::to_toml(Value(text)); }

bool matches(std::string_view name, std::string_view pattern) {
  return fnmatch(std::string(pattern).c_str(), std::string(name).c_str(), 0) == 0;
}

}  // namespace frn::study
