#include "frn/cli/parse.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "frn/cli/complaints.h"
#include "frn/cli/help.h"
#include "frn/core/text.h"

namespace frn::cli {
namespace {

// --- Tables to CLI11 ---

struct Add {
  CLI::App& app;
  const std::string& name;
  CLI::Option* operator()(bool* to) const { return app.add_flag(name, *to); }
  CLI::Option* operator()(auto* to) const { return app.add_option(name, *to); }
};

void add_option(CLI::App& app, const Option& option) {
  auto* const added = std::visit(Add{app, option.name}, option.to);
  if (option.required) added->required();
  if (option.separator != '\0') added->delimiter(option.separator);
  // Without allow_extra_args(false) it would also take the arguments behind it.
  if (option.count > 0) added->expected(option.count)->allow_extra_args(false);
}

void add_command(CLI::App& app, const Command& command) {
  for (const auto& option : command.options) add_option(app, option);
  for (const auto& child : command.commands) add_command(*app.add_subcommand(child.name), child);
  if (!command.commands.empty()) app.require_subcommand(1);
}

// The subcommand that the command line named, as far as it was understood.
struct Reached {
  const CLI::App* app;
  const Command* command;
  std::string path;  // "bench train"
};

Reached reached(const CLI::App& top, const Command& program) {
  Reached out{&top, &program, ""};
  while (!out.app->get_subcommands().empty()) {
    out.app = out.app->get_subcommands().front();
    const auto& children = out.command->commands;
    out.command = &*std::find_if(children.begin(), children.end(),
                                 [&](const auto& child) { return child.name == out.app->get_name(); });
    out.path += (out.path.empty() ? "" : " ") + out.command->name;
  }
  return out;
}

// --- Complaints ---

UsageError complaint(const std::string& path, const std::string& words) {
  if (path.empty()) return UsageError(words + "; frn --help lists the commands");
  return UsageError(fmt::format("[{0}] {1}; frn {0} --help says more", path, words));
}

const Option* find_option(const Command& command, std::string_view name) {
  const auto found =
      std::find_if(command.options.begin(), command.options.end(), [&](const auto& o) { return o.name == name; });
  return found == command.options.end() ? nullptr : &*found;
}

struct Expected {
  const char* operator()(const bool*) const { return "true or false"; }
  const char* operator()(const int*) const { return "a whole number"; }
  const char* operator()(const int64_t*) const { return "a whole number"; }
  const char* operator()(const double*) const { return "a number"; }
  const char* operator()(const std::string*) const { return "a text"; }
  const char* operator()(const std::vector<std::string>*) const { return "a list"; }
  const char* operator()(const std::vector<int64_t>*) const { return "a list of whole numbers"; }
  const char* operator()(const std::vector<double>*) const { return "a list of numbers"; }
};

// CLI11 says "Could not convert: --steps = x"; its own words stay where it says something else.
std::string unconverted(const Command& command, const std::string& words) {
  const auto colon = words.find(": ");
  const auto equals = words.find(" = ");
  if (colon == std::string::npos || equals == std::string::npos || equals < colon) return words;
  const auto name = words.substr(colon + 2, equals - colon - 2);
  const auto* const option = find_option(command, name);
  if (option == nullptr) return words;
  return fmt::format("{} must be {} but is '{}'", name, std::visit(Expected{}, option->to), words.substr(equals + 3));
}

// The option whose name stands in CLI11's words about a wrong number of values.
std::string mismatched(const Command& command, const CLI::App& app, const std::string& words) {
  const Option* longest = nullptr;  // "--image" is also in words about "--image-size"
  for (const auto& option : command.options) {
    if (words.find(option.name) == std::string::npos) continue;
    if (longest == nullptr || option.name.size() > longest->name.size()) longest = &option;
  }
  if (longest == nullptr) return words;
  if (std::holds_alternative<bool*>(longest->to)) return longest->name + " takes no value";
  if (longest->count > 0) return fmt::format("{} takes {} values", longest->name, longest->count);
  return app.count(longest->name) > 1 ? longest->name + " was given more than once" : longest->name + " needs a value";
}

std::string words_of(const Reached& at, const CLI::ParseError& error) {
  std::string words = error.what();
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) return unconverted(*at.command, words);
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) return mismatched(*at.command, *at.app, words);
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && at.app->remaining_size() > 0) {
    return fmt::format("unexpected argument '{}'", at.app->remaining().front());
  }
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && !at.command->commands.empty()) {
    return "a command is required";
  }
  return words;
}

// --- What CLI11 does not check ---

std::string range_text(const Range& range) {
  return std::isinf(range.most) ? fmt::format("at least {}", range.least)
                                : fmt::format("from {} to {}", range.least, range.most);
}

// A sentence when a value is not allowed, or an empty string.
struct CheckValue {
  const Option& option;

  std::string operator()(const bool*) const { return ""; }
  std::string operator()(const std::string* value) const { return check(*value); }
  template <typename T>
  std::string operator()(const std::vector<T>* values) const {
    for (const auto& value : *values) {
      if (auto words = check(value); !words.empty()) return words;
    }
    return "";
  }
  template <typename T>
  std::string operator()(const T* value) const {
    return check(*value);
  }

 private:
  std::string check(const std::string& value) const {
    if (option.required && value.empty()) return option.name + " must not be empty";
    const auto& known = option.choices;
    if (known.empty() || std::find(known.begin(), known.end(), value) != known.end()) return "";
    const std::vector<std::string_view> views(known.begin(), known.end());
    return fmt::format("{} must be one of {} but is '{}'{}", option.name, join(views), value, suggestion(value, views));
  }
  template <typename T>
  std::string check(T value) const {
    const auto number = static_cast<double>(value);
    if (!option.range || (number >= option.range->least && number <= option.range->most)) return "";
    return fmt::format("{} must be {} but is {}", option.name, range_text(*option.range), value);
  }
};

std::string wrong_with(const Option& option, const Given& given) {
  for (const auto& other : option.needs) {
    if (!given.contains(other)) return fmt::format("{} has no effect without {}", option.name, other);
  }
  for (const auto& other : option.excludes) {
    if (given.contains(other)) return fmt::format("{} and {} cannot be given together", option.name, other);
  }
  return std::visit(CheckValue{option}, option.to);
}

Given given_in(const Reached& at) {
  Given out;
  for (const auto& option : at.command->options) {
    if (at.app->count(option.name) > 0) out.insert(option.name);
  }
  return out;
}

}  // namespace

Parsed parse(const Command& program, const std::vector<std::string>& arguments, const std::string& version,
             size_t width) {
  if (const auto words = find_unknown(program, arguments)) throw UsageError(*words);
  CLI::App app("", program.name);
  app.set_version_flag("--version", version);
  app.set_help_all_flag("--help-all");
  add_command(app, program);
  const auto path_of = [&](const Reached& at) { return program.name + (at.path.empty() ? "" : " ") + at.path; };
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForVersion&) {
    return {.text = version + "\n"};
  } catch (const CLI::CallForAllHelp&) {
    const auto at = reached(app, program);
    return {.text = help_of_all(*at.command, path_of(at), width)};
  } catch (const CLI::Success&) {
    const auto at = reached(app, program);
    return {.text = help_of(*at.command, path_of(at), width)};
  } catch (const CLI::ParseError& error) {
    const auto at = reached(app, program);
    throw complaint(at.path, words_of(at, error));
  }
  const auto at = reached(app, program);
  auto given = given_in(at);
  for (const auto& option : at.command->options) {
    if (!given.contains(option.name)) continue;
    if (const auto words = wrong_with(option, given); !words.empty()) throw complaint(at.path, words);
  }
  return {.command = at.command, .given = std::move(given)};
}

}  // namespace frn::cli
