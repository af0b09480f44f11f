#include "frn/core/run_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "frn/core/descriptor.h"
#include "frn/core/error.h"
#include "frn/core/whole_file.h"

namespace frn {
namespace {

constexpr const char* kOperation = "run log";

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& sentence) {
  throw Error(kOperation, path.string() + ": " + sentence);
}

[[noreturn]] void fail_system(const std::filesystem::path& path, const std::string& what) {
  fail(path, what + ": " + std::strerror(errno));
}

std::string contents(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a pipe must not wait for a writer.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.number() < 0) fail_system(path, "cannot open");
  std::string text;
  char buffer[1 << 16];
  while (true) {
    const ssize_t count = ::read(file.number(), buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_system(path, "cannot read");
    if (count == 0) return text;
    text.append(buffer, static_cast<size_t>(count));
  }
}

Value parse_line(const std::filesystem::path& path, std::string_view line, size_t number) {
  try {
    auto object = parse_json(line);
    if (object.table() != nullptr) return object;
  } catch (const ValueError&) {
  }
  fail(path, "line " + std::to_string(number) + " must be a JSON object but is not; correct or delete that line");
}

// Gives each whole line, without its end, to `visit`.
void for_each_line(std::string_view text, const std::function<void(std::string_view line, size_t number)>& visit) {
  size_t number = 0;
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string_view::npos; begin = end + 1) {
    visit(text.substr(begin, end - begin), ++number);
  }
}

std::optional<double> step_of(const Value& line) {
  const auto* const found = line.find("step");
  return found == nullptr ? std::nullopt : found->number();
}

// The length of the text's whole lines.
size_t whole_length(std::string_view text) { return text.rfind('\n') + 1; }  // npos + 1 is 0

}  // namespace

RunLog::RunLog(std::filesystem::path path) : path_(std::move(path)) {
  open_for_append();
  try {
    const std::string text = contents(path_);
    const auto whole = whole_length(text);
    if (whole < text.size() && ftruncate(descriptor_, static_cast<off_t>(whole)) != 0)
      fail_system(path_, "cannot write");
  } catch (...) {
    close_file();
    throw;
  }
}

RunLog::~RunLog() { close_file(); }

void RunLog::open_for_append() {
  descriptor_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail_system(path_, "cannot write");
}

void RunLog::close_file() {
  if (descriptor_ >= 0) close(std::exchange(descriptor_, -1));
}

void RunLog::append(const Value& line) {
  if (line.table() == nullptr) fail(path_, "a line must be a JSON object but is " + std::string(line.type_name()));
  const std::string text = to_json(line) + "\n";
  struct stat before {};
  if (fstat(descriptor_, &before) != 0) fail_system(path_, "cannot write");
  ssize_t count = 0;
  do {
    count = ::write(descriptor_, text.data(), text.size());
  } while (count < 0 && errno == EINTR);
  if (count == static_cast<ssize_t>(text.size())) return;
  if (count >= 0) errno = ENOSPC;  // a disk that takes a part of a line is full
  const int reason = errno;
  // What was written of the line goes again. When even that fails, the next reader drops it as a cut last line.
  [[maybe_unused]] const int ignored = ftruncate(descriptor_, before.st_size);
  errno = reason;
  fail_system(path_, "cannot write");
}

void RunLog::truncate_after(int64_t step) {
  const std::string text = contents(path_);
  std::string kept;
  bool keep = true;
  for_each_line(text, [&](std::string_view line, size_t number) {
    const auto own = step_of(parse_line(path_, line, number));
    if (own) keep = *own <= static_cast<double>(step);
    if (keep) kept.append(line).append("\n");
  });
  if (kept == text) return;
  write_whole_file(path_, kept, kOperation);
  close_file();  // the name is another file's now
  open_for_append();
}

std::vector<Value> RunLog::read(const std::filesystem::path& path) {
  std::vector<Value> lines;
  for_each_line(contents(path),
                [&](std::string_view line, size_t number) { lines.push_back(parse_line(path, line, number)); });
  return lines;
}

}  // namespace frn
