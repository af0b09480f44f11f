#include "frn/core/value.h"

#include <algorithm>

namespace frn {
namespace {

[[noreturn]] void must_be(std::string_view expected, const Value& value) {
  throw ValueError("must be " + std::string(expected) + " but is " + std::string(value.type_name()));
}

}  // namespace

Value::Value() = default;
Value::Value(std::nullptr_t) {}
Value::Value(bool flag) : held_(flag) {}
Value::Value(double number) : held_(number) {}
Value::Value(Whole whole) : held_(whole.number) {}
Value::Value(const char* text) : held_(std::string(text)) {}
Value::Value(std::string_view text) : held_(std::string(text)) {}
Value::Value(std::string text) : held_(std::move(text)) {}
Value::Value(List list) : held_(std::move(list)) {}
Value::Value(Table table) : held_(std::move(table)) {}
Value::Value(std::initializer_list<Entry> entries) : held_(Table(entries)) {}
Value::Value(const Value& other) = default;
Value::Value(Value&& other) noexcept = default;
Value& Value::operator=(const Value& other) = default;
Value& Value::operator=(Value&& other) noexcept = default;
Value::~Value() = default;

Value Value::empty_list() { return List(); }
Value Value::empty_table() { return Table(); }

const bool* Value::flag() const { return std::get_if<bool>(&held_); }
const int64_t* Value::whole() const { return std::get_if<int64_t>(&held_); }
const std::string* Value::text() const { return std::get_if<std::string>(&held_); }
const Value::List* Value::list() const { return std::get_if<List>(&held_); }
const Value::Table* Value::table() const { return std::get_if<Table>(&held_); }
bool Value::is_null() const { return std::holds_alternative<std::monostate>(held_); }

std::optional<double> Value::number() const {
  if (const auto* const number = std::get_if<double>(&held_)) return *number;
  if (const auto* const number = whole()) return static_cast<double>(*number);
  return std::nullopt;
}

std::string_view Value::type_name() const {
  if (flag() != nullptr) return "true or false";
  if (number()) return "a number";
  if (text() != nullptr) return "a text";
  if (list() != nullptr) return "a list";
  return table() != nullptr ? "a table" : "null";
}

bool Value::as_flag() const {
  if (flag() == nullptr) must_be("true or false", *this);
  return *flag();
}

int64_t Value::as_whole() const {
  if (whole() == nullptr) must_be("a whole number", *this);
  return *whole();
}

double Value::as_number() const {
  if (!number()) must_be("a number", *this);
  return *number();
}

const std::string& Value::as_text() const {
  if (text() == nullptr) must_be("a text", *this);
  return *text();
}

const Value::List& Value::as_list() const {
  if (list() == nullptr) must_be("a list", *this);
  return *list();
}

const Value::Table& Value::as_table() const {
  if (table() == nullptr) must_be("a table", *this);
  return *table();
}

const Value* Value::find(std::string_view key) const {
  if (table() == nullptr) return nullptr;
  const auto found = std::find_if(table()->begin(), table()->end(), [&](const Entry& e) { return e.key == key; });
  return found == table()->end() ? nullptr : &found->value;
}

const Value& Value::at(std::string_view key) const {
  const auto* const found = find(key);
  if (found == nullptr) throw ValueError(std::string(key) + " is missing");
  return *found;
}

Value& Value::operator[](std::string_view key) {
  if (is_null()) held_ = Table();
  if (table() == nullptr) must_be("a table", *this);
  auto& entries = std::get<Table>(held_);
  for (auto& entry : entries) {
    if (entry.key == key) return entry.value;
  }
  entries.push_back({std::string(key), {}});
  return entries.back().value;
}

void Value::erase(std::string_view key) {
  if (auto* const entries = std::get_if<Table>(&held_)) {
    std::erase_if(*entries, [&](const Entry& entry) { return entry.key == key; });
  }
}

void Value::push_back(Value value) {
  if (is_null()) held_ = List();
  if (list() == nullptr) must_be("a list", *this);
  std::get<List>(held_).push_back(std::move(value));
}

bool Value::operator==(const Value& other) const { return held_ == other.held_; }

}  // namespace frn
