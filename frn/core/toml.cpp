// TOML for Value, by toml++.

// Version 3.3 asserts (and lets clang assume) that a table's header begins with a key, before it finds out that a text
// does not: "[" and a line break would end the program. Without assertions it goes on to its error for that.
#undef NDEBUG
#define TOML_ASSERT(...) static_cast<void>(0)
#include <toml++/toml.h>

#include <algorithm>
#include <sstream>

#include "frn/core/text.h"
#include "frn/core/value.h"

namespace frn {
namespace {

Value from_library(const toml::node& node);

Value from_table(const toml::table& table) {
  struct Placed {
    toml::source_position place;
    std::string key;
    const toml::node* node;
  };
  std::vector<Placed> entries;
  for (const auto& [key, node] : table) entries.push_back({key.source().begin, std::string(key.str()), &node});
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.place < b.place; });
  Value::Table out;
  for (const auto& entry : entries) out.push_back({entry.key, from_library(*entry.node)});
  return out;
}

Value from_library(const toml::node& node) {
  if (const auto* table = node.as_table()) return from_table(*table);
  if (const auto* list = node.as_array()) {
    auto out = Value::empty_list();
    for (const auto& element : *list) out.push_back(from_library(element));
    return out;
  }
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* whole = node.as_integer()) return whole->get();
  if (const auto* number = node.as_floating_point()) return number->get();
  if (const auto* flag = node.as_boolean()) return flag->get();
  throw ValueError("line " + std::to_string(node.source().begin.line) +
                   " has a date or a time, which nothing here takes");
}

// Hands the value to `take`, in the library's type. Null has none there.
template <typename Take>
void to_library(const Value& value, const Take& take);

toml::array list_of(const Value::List& list) {
  toml::array out;
  for (const auto& element : list) {
    to_library(element, [&](auto node) { out.push_back(std::move(node)); });
  }
  return out;
}

toml::table table_of(const Value::Table& table) {
  toml::table out;
  for (const auto& [key, value] : table) {
    to_library(value, [&, &name = key](auto node) { out.insert_or_assign(name, std::move(node)); });
  }
  return out;
}

template <typename Take>
void to_library(const Value& value, const Take& take) {
  if (const auto* flag = value.flag()) return take(toml::value<bool>(*flag));
  if (const auto* whole = value.whole()) return take(toml::value<int64_t>(*whole));
  if (const auto number = value.number()) return take(toml::value<double>(*number));
  if (const auto* text = value.text()) return take(toml::value<std::string>(*text));
  if (const auto* list = value.list()) return take(list_of(*list));
  if (const auto* table = value.table()) return take(table_of(*table));
}

using Flags = toml::format_flags;
constexpr auto kAsInFiles = toml::toml_formatter::default_flags;
// Every character that is not a plain one by its number.
constexpr auto kEscaped = kAsInFiles & ~(Flags::allow_literal_strings | Flags::allow_multi_line_strings |
                                         Flags::allow_real_tabs_in_strings | Flags::allow_unicode_strings);

std::string formatted(const toml::node& node, Flags flags) {
  std::ostringstream out;
  node.visit([&](const auto& typed) { out << toml::toml_formatter{typed, flags}; });
  return out.str();
}

}  // namespace

Value parse_toml(std::string_view text) {
  try {
    return from_table(toml::parse(text));
  } catch (const toml::parse_error& error) {
    throw ValueError("line " + std::to_string(error.source().begin.line) +
                     " is not TOML: " + one_line(error.description()));
  }
}

std::string to_toml(const Value& value) {
  if (const auto* list = value.list()) {
    std::string out;
    for (const auto& element : *list) out += (out.empty() ? "[ " : ", ") + to_toml(element);
    return out.empty() ? "[]" : out + " ]";
  }
  if (const auto* table = value.table()) {
    std::string out;
    for (const auto& [key, entry] : *table) out += (out.empty() ? "{ " : ", ") + to_toml(key) + " = " + to_toml(entry);
    return out.empty() ? "{}" : out + " }";
  }
  const auto* const text = value.text();
  const bool many_lines = text != nullptr && has_control_characters(*text);
  std::string out;
  to_library(value, [&](const auto& node) { out = formatted(node, many_lines ? kEscaped : kAsInFiles); });
  return out;
}

std::string to_toml_file(const Value& table) { return formatted(table_of(table.as_table()), kAsInFiles) + "\n"; }

}  // namespace frn
