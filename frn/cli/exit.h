// How the program ends. The one list of its exit codes; docs/training.md explains them to users.
#pragma once

namespace frn::cli {

inline constexpr int kExitError = 1;          // one sentence on stderr says what is wrong
inline constexpr int kExitUsage = 2;          // a mistyped command line
inline constexpr int kExitDiverged = 3;       // frn train: the loss is no longer finite
inline constexpr int kExitCannotStart = 126;  // a process that the program starts could not be started
inline constexpr int kExitSignal = 128;       // plus the number of the signal that stopped it

// Thrown to end the program with this code; whoever throws it has told the user why. It is no std::exception, so that
// nobody handles it as an error on its way.
struct Exit {
  int code;
};

}  // namespace frn::cli
