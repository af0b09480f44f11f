// JSON for Value, by nlohmann's library.
#include <limits>
#include <nlohmann/json.hpp>

#include "frn/core/any_bytes.h"
#include "frn/core/value.h"

namespace frn {
namespace {

using Json = nlohmann::ordered_json;

// Nothing that we write is deeper; a hostile file must not use up the stack.
constexpr size_t kDeepest = 100;

// Builds the value while the text is read.
class Builder : public Json::json_sax_t {
 public:
  bool null() override { return add(nullptr); }
  bool boolean(bool flag) override { return add(flag); }
  bool number_integer(int64_t number) override { return add(number); }
  bool number_unsigned(uint64_t number) override {
    constexpr auto kLargest = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    return number <= kLargest ? add(static_cast<int64_t>(number)) : add(static_cast<double>(number));
  }
  bool number_float(double number, const std::string& /*text*/) override { return add(number); }
  bool string(std::string& text) override { return add(from_unicode(text)); }
  bool binary(Json::binary_t& /*bytes*/) override { return false; }
  bool start_object(size_t /*size*/) override { return begin(Value::empty_table()); }
  bool start_array(size_t /*size*/) override { return begin(Value::empty_list()); }
  bool key(std::string& name) override {
    open_.back().key = from_unicode(name);
    return true;
  }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }
  bool parse_error(size_t position, const std::string& /*token*/, const nlohmann::detail::exception& /*e*/) override {
    throw ValueError("not JSON at byte " + std::to_string(position));
  }

  Value take() { return std::move(done_); }

 private:
  struct Open {
    Value value;
    std::string key;  // of the entry that comes next
  };

  bool add(Value value) {
    if (open_.empty())
      done_ = std::move(value);
    else if (open_.back().value.table() != nullptr)
      open_.back().value[open_.back().key] = std::move(value);
    else
      open_.back().value.push_back(std::move(value));
    return true;
  }

  bool begin(Value value) {
    if (open_.size() == kDeepest) throw ValueError("lists or tables in each other deeper than 100");
    open_.push_back({std::move(value), ""});
    return true;
  }

  bool end() {
    auto value = std::move(open_.back().value);
    open_.pop_back();
    return add(std::move(value));
  }

  Value done_;
  std::vector<Open> open_;
};

Json to_library(const Value& value) {
  if (const auto* flag = value.flag()) return *flag;
  if (const auto* whole = value.whole()) return *whole;
  if (const auto number = value.number()) return *number;
  if (const auto* text = value.text()) return to_unicode(*text);
  if (const auto* list = value.list()) {
    auto out = Json::array();
    for (const auto& element : *list) out.push_back(to_library(element));
    return out;
  }
  if (const auto* table = value.table()) {
    auto out = Json::object();
    for (const auto& [key, entry] : *table) out.push_back({to_unicode(key), to_library(entry)});
    return out;
  }
  return nullptr;
}

}  // namespace

Value parse_json(std::string_view text) {
  Builder builder;
  Json::sax_parse(text, &builder);
  return builder.take();
}

std::string to_json(const Value& value, std::optional<int> indent) {
  return to_library(value).dump(indent.value_or(-1), ' ');
}

}  // namespace frn
