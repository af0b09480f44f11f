#include "frn/cli/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string_view>

#include "frn/core/text.h"

namespace frn::cli {
namespace {

constexpr char kNoBreak = '\x01';  // a space where a line must not end
constexpr size_t kMargin = 2;
constexpr size_t kGap = 2;
constexpr size_t kWidestLeft = 26;      // a longer name stands on a line of its own
constexpr size_t kNarrowestRight = 20;  // on a terminal of a few columns

struct HelpRow {
  std::string left, right;
};

bool by_position(const Option& option) { return !option.name.starts_with('-'); }

// --- What is said about an option ---

struct PlaceholderByType {
  std::string operator()(const bool*) const { return ""; }
  std::string operator()(const int*) const { return "N"; }
  std::string operator()(const int64_t*) const { return "N"; }
  std::string operator()(const double*) const { return "X"; }
  std::string operator()(const std::string*) const { return "NAME"; }
  std::string operator()(const std::vector<std::string>*) const { return "NAME"; }
  std::string operator()(const std::vector<int64_t>*) const { return "N"; }
  std::string operator()(const std::vector<double>*) const { return "X"; }
};

template <typename T>
constexpr bool kIsList = false;
template <typename T>
constexpr bool kIsList<std::vector<T>*> = true;

bool is_list(const Option& option) {
  return std::visit([](auto to) { return kIsList<decltype(to)>; }, option.to);
}

std::string value_name(const Option& option) {
  if (!option.value.empty()) return option.value;
  auto one = std::visit(PlaceholderByType{}, option.to);
  if (!is_list(option)) return one;
  return option.separator == '\0' ? one + "..." : fmt::format("{0}{1}{0}...", one, option.separator);
}

struct ValueText {
  std::string operator()(const bool*) const { return ""; }  // a flag that is not given is off
  std::string operator()(const std::string* value) const { return *value; }
  template <typename T>
  std::string operator()(const std::vector<T>* values) const {
    std::string out;
    for (const auto& value : *values) out += fmt::format("{}{}", out.empty() ? "" : ",", value);
    return out;
  }
  template <typename T>
  std::string operator()(const T* value) const {
    return fmt::format("{}", *value);
  }
};

std::string default_of(const Option& option) {
  if (option.required) return "";
  return option.default_text.empty() ? std::visit(ValueText{}, option.to) : option.default_text;
}

std::string listed(const std::vector<std::string>& words, std::string_view separator = ", ") {
  return join(std::vector<std::string_view>(words.begin(), words.end()), separator);
}

// Short phrases read better on one line.
std::string unbroken(std::string phrase) {
  constexpr size_t kShort = 24;
  if (phrase.size() <= kShort) std::replace(phrase.begin(), phrase.end(), ' ', kNoBreak);
  return phrase;
}

// "(cosine, step, constant; default: cosine)"
std::string facts_of(const Option& option) {
  std::vector<std::string> facts;
  if (option.required && !by_position(option)) facts.emplace_back("required");
  if (!option.choices.empty()) facts.push_back(listed(option.choices));
  if (!option.needs.empty()) facts.push_back("only with " + listed(option.needs));
  if (!option.excludes.empty()) facts.push_back("not with " + listed(option.excludes));
  if (const auto text = default_of(option); !text.empty()) facts.push_back(unbroken("default: " + text));
  return facts.empty() ? "" : fmt::format(" ({})", listed(facts, "; "));
}

HelpRow row_of(const Option& option) {
  const auto value = by_position(option) ? "" : value_name(option);
  return {option.name + (value.empty() ? "" : " ") + value, option.help + facts_of(option)};
}

// --- Layout ---

// Words (kNoBreak joins two) in lines of at most `width` columns, each line after the first behind `indent` spaces.
std::string wrapped(const std::string& text, size_t width, size_t indent) {
  std::istringstream words(text);
  std::string out;
  size_t column = 0;
  for (std::string word; words >> word;) {
    if (column > 0 && column + 1 + word.size() > width) {
      out += fmt::format("\n{:{}}", "", indent);
      column = 0;
    }
    if (column > 0) out += ' ';
    out += word;
    column += word.size() + (column > 0 ? 1 : 0);
  }
  std::replace(out.begin(), out.end(), kNoBreak, ' ');
  return out;
}

size_t left_width(const std::vector<HelpRow>& rows) {
  size_t out = 0;
  for (const auto& row : rows) {
    if (row.left.size() <= kWidestLeft) out = std::max(out, row.left.size());
  }
  return out;
}

std::string printed(const std::vector<HelpRow>& rows, size_t left, size_t width) {
  const size_t indent = kMargin + left + kGap;
  const size_t right = std::max(kNarrowestRight, width - std::min(width, indent));
  std::string out;
  for (const auto& row : rows) {
    out += fmt::format("{:{}}{:<{}}", "", kMargin, row.left, left + kGap);
    if (row.left.size() > left) out += fmt::format("\n{:{}}", "", indent);
    out += wrapped(row.right, right, indent) + '\n';
  }
  return out;
}

// "frn eval [options] --run DIR"
std::string usage(const Command& command, const std::string& path, size_t width) {
  std::string out = "Usage: " + path;
  if (!command.commands.empty()) return out + " COMMAND [options]\n";
  out += " [options]";
  for (const auto& option : command.options) {
    if (option.required && !by_position(option)) out += fmt::format(" {} {}", option.name, value_name(option));
  }
  for (const auto& option : command.options) {
    if (!by_position(option)) continue;
    const auto name = option.name + (is_list(option) ? "..." : "");
    out += option.required ? " " + name : " [" + name + "]";
  }
  constexpr size_t kIndent = 7;
  return wrapped(out, width, kIndent) + "\n";
}

struct Section {
  std::string heading;
  std::vector<HelpRow> rows;
};

std::vector<HelpRow>& rows_under(std::vector<Section>& sections, const std::string& heading) {
  const auto found =
      std::find_if(sections.begin(), sections.end(), [&](const auto& s) { return s.heading == heading; });
  if (found != sections.end()) return found->rows;
  sections.push_back({heading, {}});
  return sections.back().rows;
}

// In the order of the options, then commands, then the help itself.
std::vector<Section> sections_of(const Command& command, bool at_top) {
  std::vector<Section> out;
  bool grouped = false;
  for (const auto& option : command.options) {
    if (option.hidden) continue;
    grouped |= !option.group.empty();
    const std::string heading = by_position(option) ? "Arguments" : option.group.empty() ? "Options" : option.group;
    rows_under(out, heading).push_back(row_of(option));
  }
  for (const auto& child : command.commands) rows_under(out, "Commands").push_back({child.name, child.help});
  auto& others = rows_under(out, grouped ? "Other" : "Options");
  others.push_back({"-h, --help", "Print this help"});
  if (at_top) others.push_back({"--help-all", "Print the help of every command"});
  if (at_top) others.push_back({"--version", "Print the versions of the program and of LibTorch, and the commit"});
  return out;
}

}  // namespace

std::string help_of(const Command& command, const std::string& path, size_t width) {
  const auto sections = sections_of(command, /*at_top=*/path.find(' ') == std::string::npos);
  size_t left = 0;
  for (const auto& section : sections) left = std::max(left, left_width(section.rows));
  std::string out = wrapped(command.help, width, 0) + "\n\n" + usage(command, path, width);
  for (const auto& section : sections) {
    out += fmt::format("\n{}:\n{}", section.heading, printed(section.rows, left, width));
  }
  if (!command.ending.empty()) out += fmt::format("\n{}\n", command.ending);
  return out;
}

std::string help_of_all(const Command& command, const std::string& path, size_t width) {
  auto out = help_of(command, path, width);
  for (const auto& child : command.commands) {
    out += fmt::format("\n{:-<{}}\n\n{}", "", width, help_of_all(child, path + " " + child.name, width));
  }
  return out;
}

}  // namespace frn::cli
