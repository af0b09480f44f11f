// Which program this is.
#pragma once

#include <string>

#include "frn/version.h"

namespace frn::cli {

// "1a2b3c4d5e6f", "1a2b3c4d5e6f with changes", or "unknown" when the program was built without git.
std::string commit();

// "frn 0.2.0 (commit 1a2b3c4d5e6f, LibTorch 2.15.0)"
std::string version_text();

}  // namespace frn::cli
