// Better words for a mistyped command line: what is unknown, and what was probably meant.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "frn/cli/command.h"

namespace frn::cli {

// A sentence when a word names no subcommand, or an option is not one of the subcommand's; nullopt when all are known.
std::optional<std::string> find_unknown(const Command& program, const std::vector<std::string>& arguments);

}  // namespace frn::cli
