// The report of one run: its curves as figures and numbers, and a page that shows all of it.
#pragma once

#include <filesystem>
#include <vector>

namespace frn::report {

// Reads a run directory and writes into it curves-*.svg, curves.csv and report.html, each whole or not at all. Gives
// the files that it wrote, report.html last. Throws frn::Error when there is nothing to show or a file cannot be
// written.
std::vector<std::filesystem::path> run_report(const std::filesystem::path& folder);

}  // namespace frn::report
