// The cells of a study at a scale: which there are, and the settings of each.
#pragma once

#include <cstdint>

#include "frn/study/definition.h"

namespace frn::study {

struct Cell {
  std::string name;  // of its folder: "frn-32", "frn-32-seed1"
  size_t row = 0, column = 0;
  int64_t seed = 0;  // 0, 1, ...; the setting `seed` starts at the scale's first_seed
  Settings settings;
};

// Rows by columns by seeds, a whole table for each seed before the next. Settings of a later one win: the scale's, the
// column's, the row's, those that the scale has for the column, for the row and for the cell, and `given`. Where the
// settings name no data, `given` must. Throws frn::Error when it does not. `study` is that of at_scale.
std::vector<Cell> cells_of(const Definition& study, const Scale& scale, int64_t seeds, const Settings& given);

// "row" or "row-column" where there are many columns.
std::string cell_name(const Definition& study, size_t row, size_t column, int64_t seed);

// What sentences call the cell: "BN at 32 images".
std::string cell_words(const Definition& study, size_t row, size_t column);

// The text for frn train --config.
std::string to_toml(const Settings& settings);

// And back. Throws frn::Error for what is no TOML.
Settings read_settings(const std::string& text);

// A setting's text without its quotes, or an empty one.
std::string plain_value(const Settings& settings, const std::string& key);
// A text as a TOML value.
std::string quoted_value(const std::string& text);

// Whether a name matches a pattern, as in a shell: * for anything, ? for a character, [12] for one of these.
bool matches(std::string_view name, std::string_view pattern);

}  // namespace frn::study
