#include "frn/study/plain_texts.h"

#include <fmt/format.h>

#include <algorithm>

#include "frn/core/error.h"
#include "frn/core/text.h"

namespace frn::study {
namespace {

// The beginning of the text, for a message that is one line itself.
std::string shown(const std::string& text) {
  constexpr size_t kEnough = 40;
  const auto line = one_line(text);
  return line.size() <= kEnough ? line : line.substr(0, kEnough) + "...";
}

std::string without_line_breaks(std::string text) {
  std::erase_if(text, [](char c) { return c == '\n' || c == '\r' || c == '\t'; });
  return text;
}

class Check {
 public:
  explicit Check(const std::string& source) : source_(source) {}

  void value(const Value& value, const std::string& name, bool many_lines) const {
    if (const auto* text = value.text()) {
      if (has_control_characters(many_lines ? without_line_breaks(*text) : *text)) refuse(name, *text);
    } else if (const auto* list = value.list()) {
      for (size_t i = 0; i < list->size(); ++i) this->value((*list)[i], fmt::format("{}.{}", name, i + 1), many_lines);
    } else if (const auto* table = value.table()) {
      for (const auto& [key, entry] : *table) {
        if (has_control_characters(key)) refuse("a key", key);
        this->value(entry, name.empty() ? key : fmt::format("{}.{}", name, key), key == "about");
      }
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& name, const std::string& text) const {
    throw Error("study", fmt::format("{}: {} must be one line of plain text but has a line break or another control "
                                     "character ('{}'); write a space instead",
                                     source_, name, shown(text)));
  }

  const std::string& source_;
};

}  // namespace

void check_plain_texts(const Value& value, const std::string& source) {
  Check(source).value(value, "", /*many_lines=*/false);
}

}  // namespace frn::study
