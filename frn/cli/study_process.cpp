#include "frn/cli/study_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <vector>

#include "frn/cli/exit.h"
#include "frn/core/error.h"
#include "frn/core/whole_file.h"

namespace frn::cli {
namespace {

std::string tail_of(const std::filesystem::path& path, std::streamoff bytes) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return "";
  const std::streamoff size = file.tellg();
  file.seekg(std::max<std::streamoff>(0, size - bytes));
  return {std::istreambuf_iterator<char>(file), {}};
}

// Between fork and exec only calls that are safe there.
[[noreturn]] void become(char* const* arguments, int output) {
  setpgid(0, 0);                     // a Ctrl-C at the terminal reaches the study alone, which then asks its cells
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // a study that is killed leaves no cell at work
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  execv("/proc/self/exe", arguments);
  _exit(kExitCannotStart);
}

std::string sentence_of(int status, const std::string& words) {
  if (WIFSIGNALED(status)) {
    const int number = WTERMSIG(status);
    return fmt::format("killed by signal {} ({}){}", number, strsignal(number),
                       number == SIGKILL ? "; perhaps memory ran out" : "");
  }
  return words.empty() ? fmt::format("ended with exit code {} and no word", WEXITSTATUS(status)) : words;
}

}  // namespace

std::string last_words(const std::filesystem::path& output) {
  constexpr std::streamoff kEnough = 8192;
  std::string last;
  std::string complaint;
  std::string line;
  for (const char c : tail_of(output, kEnough) + "\n") {
    if (c != '\n' && c != '\r') {
      line += c;
      continue;
    }
    if (line.starts_with("frn: ")) complaint = line.substr(5);
    if (!line.empty()) last = line;
    line.clear();
  }
  return complaint.empty() ? last : complaint;
}

CellProcess::CellProcess(const study::Folder& folder, study::Cell cell) : folder_(folder), cell_(std::move(cell)) {
  const auto path = folder_.cell(cell_.name);
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw Error("study", "cannot make the folder " + path.string() + ": " + error.message());
  std::filesystem::remove(folder_.failure(cell_.name));
  write_whole_file(path / "cell.toml", study::to_toml(cell_.settings), "study");
  std::vector<std::string> words{"frn", "train", "--out", path.string(), "--config", (path / "cell.toml").string()};
  if (std::filesystem::exists(path / "config.toml")) words.emplace_back("--resume");
  std::vector<char*> arguments;
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const int output = open(folder_.output(cell_.name).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (output < 0) throw Error("study", "cannot write " + folder_.output(cell_.name).string() + ": " + strerror(errno));
  pid_ = fork();
  if (pid_ == 0) become(arguments.data(), output);
  close(output);
  if (pid_ < 0) throw Error("study", std::string("cannot start a process: ") + strerror(errno));
}

void CellProcess::send(int signal) const { kill(pid_, signal); }

bool CellProcess::ended(bool stopping) {
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return false;
  record_end(status, stopping);
  return true;
}

void CellProcess::record_end(int status, bool stopping) const {
  const bool exited = WIFEXITED(status);
  const int code = exited ? WEXITSTATUS(status) : 0;
  if (exited && (code == 0 || code == kExitDiverged || code > kExitSignal)) return;
  if (stopping && WIFSIGNALED(status)) return;  // asked twice: it went at once
  write_whole_file(folder_.failure(cell_.name), sentence_of(status, last_words(folder_.output(cell_.name))) + "\n",
                   "study");
}

int64_t CellProcess::step() const {
  constexpr std::streamoff kEnough = 1024;
  const auto text = tail_of(folder_.cell(cell_.name) / "log.jsonl", kEnough);
  const auto found = text.rfind("\"step\":");
  return found == std::string::npos ? 0 : std::strtoll(text.c_str() + found + 7, nullptr, 10);
}

}  // namespace frn::cli
