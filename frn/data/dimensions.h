// Whole numbers joined by x, as made-up sets are named: 224x3x1000.
#pragma once

#include <charconv>
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace frn::data {

// Whether the text is as many of them as there are places for, and nothing else.
inline bool parse_dimensions(std::string_view text, std::initializer_list<int64_t*> places) {
  const char* place = text.data();
  const char* const end = place + text.size();
  for (int64_t* const number : places) {
    if (number != *places.begin()) {
      if (place == end || *place != 'x') return false;
      ++place;
    }
    const auto [after, error] = std::from_chars(place, end, *number);
    if (error != std::errc()) return false;
    place = after;
  }
  return place == end;
}

}  // namespace frn::data
