// What a JSON or TOML file holds, as one type, and the only way to read and write both: the libraries that parse them
// cost seconds in every source that includes them, so they stay in json.cpp and toml.cpp.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace frn {

// Thrown by Value for an entry that is missing or of another type, and by parse_json and parse_toml: the reader of a
// file knows its name and what to do about it, and says so in a frn::Error of its own.
class ValueError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Null, true or false, a whole number, a number, a text, a list, or a table, which keeps the order of its entries.
class Value {
 public:
  using List = std::vector<Value>;
  struct Entry;
  using Table = std::vector<Entry>;

  // Implicit, all of them: a table reads as its values. NOLINTBEGIN(google-explicit-constructor)
  Value();
  Value(std::nullptr_t);
  Value(bool flag);
  Value(double number);
  Value(const char* text);
  Value(std::string_view text);
  Value(std::string text);
  Value(List list);
  Value(Table table);
  Value(std::initializer_list<Entry> entries);
  template <std::integral T>
  Value(T number) : Value(Whole{static_cast<int64_t>(number)}) {}
  // NOLINTEND(google-explicit-constructor)
  Value(const Value& other);
  Value(Value&& other) noexcept;
  Value& operator=(const Value& other);
  Value& operator=(Value&& other) noexcept;
  ~Value();

  // Every element of a range, as a list.
  template <typename Range>
  static Value list_of(const Range& range);
  static Value empty_list();
  static Value empty_table();

  // The type of the value; none of them holds for null.
  const bool* flag() const;
  const int64_t* whole() const;
  std::optional<double> number() const;  // whole ones too
  const std::string* text() const;
  const List* list() const;
  const Table* table() const;
  bool is_null() const;
  // "null", "true or false", "a number", "a text", "a list", "a table"
  std::string_view type_name() const;

  // The value itself. Throws ValueError when it has another type.
  bool as_flag() const;
  int64_t as_whole() const;
  double as_number() const;
  const std::string& as_text() const;
  const List& as_list() const;
  const Table& as_table() const;

  // An entry of a table. find gives nullptr when there is none, or this is no table; at throws ValueError.
  const Value* find(std::string_view key) const;
  const Value& at(std::string_view key) const;
  const Value& operator[](std::string_view key) const { return at(key); }
  // Makes the entry, and of null a table. Throws ValueError when this is anything else.
  Value& operator[](std::string_view key);
  void erase(std::string_view key);

  // Makes of null a list. Throws ValueError when this is anything else.
  void push_back(Value value);

  bool operator==(const Value& other) const;

 private:
  struct Whole {
    int64_t number;
  };
  explicit Value(Whole whole);

  // Everything that touches it is in value.cpp: an entry is no complete type before the end of this header.
  std::variant<std::monostate, bool, int64_t, double, std::string, List, Table> held_;
};

struct Value::Entry {
  std::string key;
  Value value;
  bool operator==(const Entry& other) const = default;
};

template <typename Range>
Value Value::list_of(const Range& range) {
  return List(std::begin(range), std::end(range));
}

// One value and nothing after it. Throws ValueError with what is wrong and where.
Value parse_json(std::string_view text);
// Cannot fail for a text: bytes that are not UTF-8 come back from parse_json as they were (core/any_bytes.h says how);
// so it is in TOML. Numbers that are not finite become null. `indent` spaces for
// each level, or all on one line.
std::string to_json(const Value& value, std::optional<int> indent = std::nullopt);

// A file's table, in the order of its lines. Throws ValueError "line 3 is not TOML: ...".
Value parse_toml(std::string_view text);
// The same for a file: throws frn::Error "[operation] source: line 3 is not TOML: ...".
Value parse_toml_of(std::string_view source, std::string_view text, std::string_view operation);
// A value as TOML writes it behind "key = ", on one line whatever is in it; null is an empty text.
std::string to_toml(const Value& value);
// A table as a file.
std::string to_toml_file(const Value& table);

}  // namespace frn
