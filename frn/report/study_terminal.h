// The end of a study on a terminal: the first metric's table and a line for each claim, on one screen.
#pragma once

#include "frn/study/folder.h"

namespace frn::report {

std::string terminal_text(const study::Folder& folder);

}  // namespace frn::report
