// Several processes of this program on this machine, as torchrun would start them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace frn::cli {

// Tells a rank of how many processes that this program started it is one.
inline constexpr const char* kProcessesVariable = "FRN_PROCESSES";

struct LaunchOptions {
  std::vector<std::string> without{"--processes"};  // options, each with one value, that the ranks do not get
  std::vector<std::string> more{};                  // arguments that they get in addition
  std::string advice{};                             // what to do when a rank died, for the sentence about it
  const char* notice = nullptr;                     // see catch_stop_signals
  std::string* output_of_first = nullptr;           // keeps what rank 0 prints instead of showing it
};

// Starts `count` processes of this program with its own arguments, as ranks that find each other. The first request to
// stop is forwarded, a second one kills the ranks; they get SIGTERM when this process is killed. When one of them dies
// the others are ended, and one sentence on stderr says which. Gives the exit code: 0 when all ended so, else that of
// the first that did not.
int launch_processes(int64_t count, const LaunchOptions& options = {});

}  // namespace frn::cli
