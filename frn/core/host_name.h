// The name of this machine.
#pragma once

#include <string>

namespace frn {

std::string host_name();  // "localhost" where it has none

}  // namespace frn
