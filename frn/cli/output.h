// What the program prints for other programs.
#pragma once

#include "frn/core/value.h"

namespace frn::cli {

// JSON on standard output. Throws frn::Error when it does not take it: what reads it must not get half of it in
// silence.
void print_json(const Value& value);

}  // namespace frn::cli
