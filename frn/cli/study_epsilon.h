// The paper's figure of the effect of epsilon on maps of one value (section 3.3): no training, the operator alone.
#pragma once

#include <filesystem>
#include <vector>

#include "frn/study/library.h"

namespace frn::cli {

// The figure and its numbers.
std::vector<std::filesystem::path> epsilon_files(const std::filesystem::path& folder);

// Writes them. Throws frn::Error for epsilons that are none, before anything is written.
void draw_epsilon(const study::Text& study, const std::filesystem::path& folder);

}  // namespace frn::cli
