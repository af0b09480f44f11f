// Cells of a study that are the same training, so that it is done once.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "frn/study/folder.h"

namespace frn::study {

// For every cell that need not be trained, the one whose training it is: the first of them that was begun in the
// folder, else the first of all. A cell that has a folder is its own. `training_of` gives the same text for cells that
// are the same training, and for no others; a cell for which it throws frn::Error is left out.
std::map<std::string, std::string> same_trainings(const Folder& folder, const std::vector<Cell>& cells,
                                                  const std::function<std::string(const Cell&)>& training_of);

}  // namespace frn::study
