// The studies that the program brings (studies/*.toml, embedded), and those of a user's own files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace frn::cli {

struct StudyText {
  std::string name;    // "table2", or a file's name without its ending
  std::string source;  // what errors call it
  std::string text;    // TOML
};

// All built-in ones, tables first.
std::vector<StudyText> built_in_studies();

// By name, or by the path of a file. A study with `base = "NAME"` has what the built-in study NAME has where it says
// nothing itself. Throws frn::Error with the known names.
StudyText find_study(const std::string& name_or_path);

// What a list shows of a study.
struct StudyHeading {
  std::string title, place;
};
StudyHeading study_heading(const StudyText& study);

// Whether it is a figure of the operator alone, without cells.
bool is_epsilon(const StudyText& study);

}  // namespace frn::cli
