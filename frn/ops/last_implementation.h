// Remembers which implementation ran last, so that a test or a user can see it.
#pragma once

#include <string_view>

namespace frn::ops {

// `name` must outlive the process.
void set_last_implementation(std::string_view name);

}  // namespace frn::ops
