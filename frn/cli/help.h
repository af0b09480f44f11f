// Help as text, from the tables in command.h.
#pragma once

#include <cstddef>
#include <string>

#include "frn/cli/command.h"

namespace frn::cli {

// `path` is what was typed to get here: "frn bench train". No line is longer than `width`, except single words and the
// command's own ending.
std::string help_of(const Command& command, const std::string& path, size_t width);

// The same for the command and everything below it.
std::string help_of_all(const Command& command, const std::string& path, size_t width);

}  // namespace frn::cli
