// Whatever the text, parse_toml gives a table or a ValueError of one line; a table that is written reads as itself.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "frn/core/text.h"
#include "frn/core/value.h"

namespace {

constexpr size_t kLongestMessage = 4096;

// Not assert: the release flags would remove it.
void require(bool condition) {
  if (!condition) std::abort();
}

// NaN is not equal to itself, so a text stands for it.
frn::Value without_nan(const frn::Value& value) {
  if (value.list() != nullptr) {
    auto out = frn::Value::empty_list();
    for (const auto& element : *value.list()) out.push_back(without_nan(element));
    return out;
  }
  if (value.table() != nullptr) {
    auto out = frn::Value::empty_table();
    for (const auto& [key, entry] : *value.table()) out[key] = without_nan(entry);
    return out;
  }
  return value == value ? value : frn::Value("NaN");
}

// The same entries in any order: tables are written after what is no table.
bool same(const frn::Value& a, const frn::Value& b) {
  if (a.list() != nullptr && b.list() != nullptr) {
    if (a.list()->size() != b.list()->size()) return false;
    for (size_t i = 0; i < a.list()->size(); ++i) {
      if (!same((*a.list())[i], (*b.list())[i])) return false;
    }
    return true;
  }
  if (a.table() == nullptr || b.table() == nullptr) return a == b;
  if (a.table()->size() != b.table()->size()) return false;
  for (const auto& [key, entry] : *a.table()) {
    const auto* const other = b.find(key);
    if (other == nullptr || !same(entry, *other)) return false;
  }
  return true;
}

}  // namespace

// libFuzzer's name.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  frn::Value table;
  try {
    table = frn::parse_toml(text);
  } catch (const frn::ValueError& error) {
    require(std::strlen(error.what()) < kLongestMessage && std::strchr(error.what(), '\n') == nullptr);
    return 0;
  }
  const auto again = frn::parse_toml(frn::to_toml_file(table));
  require(same(without_nan(table), without_nan(again)));
  // Settings of a study are kept one by one, as a line of text.
  for (const auto& [key, value] : table.as_table()) {
    const auto line = frn::to_toml(value);
    require(!frn::has_control_characters(line));
    const auto one = frn::parse_toml("v = " + line);
    require(one.table()->size() == 1 && same(without_nan(one["v"]), without_nan(value)));
  }
  return 0;
}
