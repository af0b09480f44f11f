// The paper's figure of the effect of epsilon on maps of one value (section 3.3): no training, the operator alone.
#pragma once

#include <filesystem>
#include <vector>

#include "frn/cli/study_library.h"

namespace frn::cli {

// Writes figure-epsilon.svg and .csv and gives their paths.
std::vector<std::filesystem::path> draw_epsilon(const StudyText& study, const std::filesystem::path& folder);

}  // namespace frn::cli
