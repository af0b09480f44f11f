#include "frn/cli/study_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <vector>

#include "frn/cli/child.h"
#include "frn/cli/exit.h"
#include "frn/core/descriptor.h"
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

// Throws frn::Error when it cannot be opened.
int opened(const std::filesystem::path& path, int flags) {
  const int number = open(path.c_str(), flags | O_CLOEXEC, 0644);
  if (number < 0) throw Error("study", "cannot open " + path.string() + ": " + std::strerror(errno));
  return number;
}

std::string reason_of(int status, const std::string& last_message) {
  if (!WIFSIGNALED(status) && !last_message.empty()) return last_message;
  const bool is_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  return "the process " + ending_text(status) +
         (is_killed             ? "; perhaps memory ran out"
          : WIFSIGNALED(status) ? ""
                                : " and printed no message");
}

}  // namespace

std::string last_message(const std::filesystem::path& output) {
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
  const Descriptor nothing(opened("/dev/null", O_RDONLY));
  const Descriptor output(opened(folder_.output(cell_.name), O_WRONLY | O_CREAT | O_TRUNC));
  pid_ = start_child("study", words, {.input = nothing.number(), .output = output.number(), .errors = output.number()});
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
  if (stopping && WIFSIGNALED(status)) return;  // the second request kills
  write_whole_file(folder_.failure(cell_.name), reason_of(status, last_message(folder_.output(cell_.name))) + "\n",
                   "study");
}

int64_t CellProcess::step() const {
  constexpr std::streamoff kEnough = 1024;
  const auto text = tail_of(folder_.cell(cell_.name) / "log.jsonl", kEnough);
  const auto found = text.rfind("\"step\":");
  return found == std::string::npos ? 0 : std::strtoll(text.c_str() + found + 7, nullptr, 10);
}

}  // namespace frn::cli
