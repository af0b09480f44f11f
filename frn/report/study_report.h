// The report of a study: table.md, table.csv, figures, and a page with all of it.
#pragma once

#include "frn/study/folder.h"

namespace frn::report {

// Writes into the study's folder and gives the files, report.html last. Cells that are missing, failed or diverged are
// shown as such. Throws frn::Error when the folder holds no study or a file cannot be written.
std::vector<std::filesystem::path> study_report(const study::Folder& folder);

// table.md's text, for the terminal.
std::string table_text(const study::Folder& folder);

}  // namespace frn::report
