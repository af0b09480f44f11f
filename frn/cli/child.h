// Starts this program once more: the ranks of --processes and the cells of a study.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace frn::cli {

struct ChildOptions {
  std::vector<std::pair<std::string, std::string>> environment{};  // replaces variables of the same name
  // Open files that it gets; -1: those of this process.
  int input = -1;
  int output = -1;
  int errors = -1;
};

// Runs this program with `arguments`, the first of which is its name, in a process group of its own: a Ctrl-C at the
// terminal reaches this process alone, which then asks its children. They get SIGTERM when this process is killed. The
// child exits with kExitCannotStart when it cannot become the program. Throws frn::Error "[operation] ..." when there
// can be no further process.
pid_t start_child(std::string_view operation, std::vector<std::string> arguments, const ChildOptions& options);

// How a child ended by its status of waitpid: "was killed by signal 9 (Killed)", "ended with exit code 1".
std::string ending_text(int status);

}  // namespace frn::cli
