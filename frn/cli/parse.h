// Command lines by the tables in command.h. parse.cpp is the only source that sees CLI11, which takes seconds to
// compile.
#pragma once

#include <string>
#include <vector>

#include "frn/cli/command.h"

namespace frn::cli {

struct Parsed {
  const Command* command = nullptr;  // what to run; its options hold their values
  Given given{};
  std::string text{};  // if not empty: help or version, to print in place of running
};

// Throws UsageError with one sentence for whatever is wrong. `version` is what --version prints, `width` the columns of
// the help.
Parsed parse(const Command& program, const std::vector<std::string>& arguments, const std::string& version,
             size_t width);

}  // namespace frn::cli
