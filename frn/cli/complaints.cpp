#include "frn/cli/complaints.h"

#include <fmt/format.h>

#include "frn/core/text.h"

namespace frn::cli {
namespace {

// Those that people give; the program's own, for processes that it starts, are in no group.
std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const auto* option : app.get_options([](const CLI::Option* o) { return !o->get_group().empty(); })) {
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
    for (const auto& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

std::string sentence(const std::string& kind, const std::string& where, const std::string& word,
                     const std::vector<std::string>& known) {
  const std::vector<std::string_view> views(known.begin(), known.end());
  return fmt::format("unknown {} '{}{}'{}; known: {}", kind, where, word, suggestion(word, views), join(views));
}

std::string expected_of(const CLI::App& app, const std::string& option_name) {
  const auto* const option = app.get_option_no_throw(option_name);
  const auto type = option == nullptr ? "" : option->get_type_name();
  if (type.starts_with("INT") || type.starts_with("UINT")) return "a whole number";
  return type.starts_with("FLOAT") ? "a number" : "a value of type " + type;
}

// "Could not convert: --steps = x"
std::string unconverted(const CLI::App& app, const std::string& words) {
  const auto colon = words.find(": ");
  const auto equals = words.find(" = ");
  if (colon == std::string::npos || equals == std::string::npos || equals < colon) return words;
  const auto name = words.substr(colon + 2, equals - colon - 2);
  return fmt::format("{} must be {} but is '{}'", name, expected_of(app, name), words.substr(equals + 3));
}

bool is_option(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && (std::isalpha(word[1]) || word[1] == '-');
}

}  // namespace

std::optional<std::string> find_unknown(const CLI::App& program, const std::vector<std::string>& arguments) {
  const CLI::App* app = &program;
  std::string path;
  for (const auto& word : arguments) {
    if (is_option(word)) {
      const auto name = word.substr(0, word.find('='));
      if (app->get_option_no_throw(name) == nullptr) return sentence("option", "", name, option_names(*app));
      continue;
    }
    const auto children = app->get_subcommands([](const CLI::App*) { return true; });
    if (children.empty()) continue;  // an argument or an option's value
    const auto next =
        std::find_if(children.begin(), children.end(), [&](const CLI::App* c) { return c->get_name() == word; });
    if (next == children.end()) {
      std::vector<std::string> names;
      for (const auto* child : children) names.push_back(child->get_name());
      return sentence("command", path, word, names);
    }
    path += word + " ";
    app = *next;
  }
  return std::nullopt;
}

std::string complaint_of(const CLI::App& program, const CLI::ParseError& error) {
  const CLI::App* app = &program;
  std::string path;
  while (!app->get_subcommands().empty()) {
    app = app->get_subcommands().front();
    path += (path.empty() ? "" : " ") + app->get_name();
  }
  std::string words = error.what();
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) words = unconverted(*app, words);
  const auto where = path.empty() ? "" : "[" + path + "] ";
  return fmt::format("{}{}; frn{}{} --help says more", where, words, path.empty() ? "" : " ", path);
}

}  // namespace frn::cli
