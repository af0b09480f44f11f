// The report of a study: table.md, table.csv, figures, and a page with all of it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "frn/study/folder.h"

namespace frn::report {

struct WrittenReport {
  std::vector<std::filesystem::path> files;  // report.html last
  // A sentence about figures that could not be drawn: the report is without them, for its numbers may have taken days.
  // Empty when all were.
  std::string undrawn;
};

// Writes into the study's folder. Cells that are missing, failed or diverged are shown as such. Throws frn::Error when
// the folder holds no study or a file cannot be written.
WrittenReport study_report(const study::Folder& folder);

// table.md's text, for the terminal.
std::string table_text(const study::Folder& folder);

}  // namespace frn::report
