#include "frn/cli/complaints.h"

#include <fmt/format.h>

#include "frn/core/text.h"

namespace frn::cli {
namespace {

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const auto* option : app.get_options()) {
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
      const auto known = option_names(*app);
      if (std::find(known.begin(), known.end(), name) == known.end()) return sentence("option", "", name, known);
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

}  // namespace frn::cli
