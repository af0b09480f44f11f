// Several processes of this program on this machine, as torchrun would start them.
#pragma once

#include <cstdint>

namespace frn::cli {

// Starts this program so many times with its own arguments but --processes, as ranks that find each other. Forwards
// SIGINT and SIGTERM. When one of them dies the others are ended, and one sentence on stderr says which. Gives the exit
// code: 0 when all ended so, else that of the first that did not.
int launch_processes(int64_t count);

}  // namespace frn::cli
