// Small helpers for texts: lists of names, shapes, the nearest known name to a misspelt one, and what may be shown as
// it is.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace frn {

// "a, b, c"
std::string join(std::span<const std::string_view> names, std::string_view separator = ", ");

// "[2, 64, 7, 7]": the sizes of a tensor.
std::string shape_text(std::span<const int64_t> sizes);

// A word as a shell takes it back: in quotes where it has more than plain letters.
std::string shell_word(std::string_view text);

// The known name with the smallest edit distance, or an empty view when none is close enough to be meant.
std::string_view nearest(std::string_view name, std::span<const std::string_view> known);

// " (did you mean 'x'?)" or an empty string.
std::string suggestion(std::string_view name, std::span<const std::string_view> known);

// Whether there is a character that acts instead of being shown: line breaks, tabs, a terminal's escape sequences.
// In UTF-8: U+0000 to U+001F and U+007F to U+009F.
bool has_control_characters(std::string_view text);

// The text with a space for each of them, so that it stays in its line whoever shows it.
std::string one_line(std::string_view text);

}  // namespace frn
