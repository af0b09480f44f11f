// Cells of a study that are the same training by construction, so that it is done once.
//
// Two cells are when their settings are equal but for what their network cannot see: how the images of a step are split
// over devices, where the norm takes every image by itself. The table of norms says which do.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "frn/report/study_folder.h"

namespace frn::cli {

// For every cell that need not be trained, the one whose training it is. That is the first of them which was begun in
// the folder, else the first of all; a cell that has a folder is nobody else's.
std::map<std::string, std::string> same_trainings(const report::StudyFolder& folder,
                                                  const std::vector<report::StudyCell>& cells);

}  // namespace frn::cli
