// Where results come from: the program's commit and version, and the machine.
#pragma once

#include <optional>
#include <string>

#include "frn/report/run.h"

namespace frn::cli {

report::Properties provenance();

// The processor's name; none where the system does not tell.
std::optional<std::string> cpu_name();

}  // namespace frn::cli
