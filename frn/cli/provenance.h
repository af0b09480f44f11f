// Where results come from: the program's commit and version, and the machine.
#pragma once

#include "frn/report/run.h"

namespace frn::cli {

report::Properties provenance();

}  // namespace frn::cli
