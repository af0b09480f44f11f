// What the program prints for other programs.
#pragma once

#include "frn/core/value.h"

namespace frn::cli {

// JSON on standard output. Throws frn::Error when it does not take it: what reads it must not get half of it in
// silence.
void print_json(const Value& value);

// Throws frn::Error when what was printed before did not reach standard output, which may be a file on a full disk.
void check_output();

}  // namespace frn::cli
