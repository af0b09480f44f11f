// What makes two cells of a study the same training.
#pragma once

#include <string>

#include "frn/study/cells.h"

namespace frn::cli {

// The same text for cells that are the same training by construction, and for no others: their settings are equal but
// for what their network cannot see. Where the norm takes every image by itself (the table of norms says which do), a
// step is its images and the pieces in which they go through the network, which round the gradient's sum; how they are
// split over devices is not seen. A last batch that is cut to a multiple of the devices depends on them. Throws
// frn::Error for settings that cannot be trained.
std::string training_of(const study::Cell& cell);

}  // namespace frn::cli
