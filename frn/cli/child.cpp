#include "frn/cli/child.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "frn/cli/exit.h"
#include "frn/core/error.h"

extern char** environ;

namespace frn::cli {
namespace {

// This process's variables, with others in their place or besides.
std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& more) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const auto is_replaced = [&](const auto& pair) { return text.substr(0, text.find('=')) == pair.first; };
    if (std::none_of(more.begin(), more.end(), is_replaced)) out.emplace_back(text);
  }
  for (const auto& [name, value] : more) out.push_back(fmt::format("{}={}", name, value));
  return out;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (auto& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

void replace_file(int with, int number) {
  if (with >= 0) dup2(with, number);
}

}  // namespace

pid_t start_child(std::string_view operation, std::vector<std::string> arguments, const ChildOptions& options) {
  auto environment = environment_with(options.environment);
  const auto words = pointers_to(arguments);
  const auto variables = pointers_to(environment);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) throw Error(operation, std::string("cannot start a process: ") + std::strerror(errno));
  if (child > 0) return child;
  // From here to exec only calls that are safe after a fork.
  setpgid(0, 0);
  signal(SIGTTOU, SIG_IGN);  // it may still print to the terminal, also after `stty tostop`
  signal(SIGTSTP, SIG_DFL);  // a handler of this process is not the child's
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(kExitCannotStart);  // it was killed before
  replace_file(options.input, STDIN_FILENO);
  replace_file(options.output, STDOUT_FILENO);
  replace_file(options.errors, STDERR_FILENO);
  execve("/proc/self/exe", words.data(), variables.data());
  _exit(kExitCannotStart);
}

std::string ending_text(int status) {
  if (WIFSIGNALED(status)) {
    return fmt::format("was killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  }
  return fmt::format("ended with exit code {}", WEXITSTATUS(status));
}

}  // namespace frn::cli
