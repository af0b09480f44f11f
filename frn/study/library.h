// The studies that come with the program (studies/*.toml, embedded), and those of a user's own files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace frn::study {

struct Text {
  std::string name;    // "table2", or a file's name without its ending
  std::string source;  // what errors call it
  std::string text;    // TOML
};

// All built-in ones, tables first.
std::vector<Text> built_in_studies();

// By name, or by the path of a file. A study with `base = "NAME"` has what the built-in study NAME has where it says
// nothing itself. Throws frn::Error with the known names.
Text find_study(const std::string& name_or_path);

// What a list shows of a study.
struct Heading {
  std::string title, place;
};
Heading heading_of(const Text& study);

// Whether it is a figure of the operator alone, without cells.
bool is_epsilon(const Text& study);

}  // namespace frn::study
