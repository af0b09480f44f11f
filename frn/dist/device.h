// Which device a process computes on.
#pragma once

#include <c10/core/Device.h>

#include <string>

#include "frn/dist/group.h"

namespace frn::dist {

// "cpu", or "cuda": the GPU with the number of this process among those of its machine, which becomes the current one.
// Throws frn::Error where the program or the machine has none, and for another name.
at::Device choose_device(const std::string& name, const Place& place);

}  // namespace frn::dist
