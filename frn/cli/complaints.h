// Better words for a mistyped command line: what is unknown, and the nearest thing that is known.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

namespace frn::cli {

// A sentence when a word names no subcommand or an option is not the subcommand's; none when all are known.
std::optional<std::string> find_unknown(const CLI::App& program, const std::vector<std::string>& arguments);

// What is wrong with arguments that the parser refused, as a sentence that says what to do.
std::string complaint_of(const CLI::App& program, const CLI::ParseError& error);

}  // namespace frn::cli
