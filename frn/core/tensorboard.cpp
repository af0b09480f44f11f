#include "frn/core/tensorboard.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "frn/core/error.h"
#include "frn/core/host_name.h"
#include "frn/core/protobuf.h"

namespace frn::tensorboard {
namespace {

using protobuf::little_endian;
using protobuf::Message;

constexpr const char* kOperation = "tensorboard";
constexpr std::string_view kPrefix = "events.out.tfevents.";
constexpr size_t kMostWaiting = 1 << 16;

[[noreturn]] void fail_system(const std::filesystem::path& path) {
  throw Error(kOperation, path.string() + ": cannot write: " + std::strerror(errno));
}

// Castagnoli's polynomial, bits reversed.
constexpr std::array<uint32_t, 256> make_crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < table.size(); ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1U) != 0 ? 0x82F63B78U : 0U);
    table[i] = crc;
  }
  return table;
}

// Numbers of fields from TensorFlow's event.proto and summary.proto.
constexpr uint32_t kEventWallTime = 1;
constexpr uint32_t kEventStep = 2;
constexpr uint32_t kEventFileVersion = 3;
constexpr uint32_t kEventSummary = 5;
constexpr uint32_t kEventSessionLog = 7;
constexpr uint32_t kSessionLogStatus = 1;
constexpr int64_t kSessionStart = 1;
constexpr uint32_t kSummaryValue = 1;
constexpr uint32_t kValueTag = 1;
constexpr uint32_t kValueSimple = 2;

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

Message event(int64_t step) { return Message().real(kEventWallTime, now()).integer(kEventStep, step); }

// --- The file's name ---

// The time in the name of an event file, or 0.
int64_t time_in(const std::string& name) {
  int64_t time = 0;
  if (name.starts_with(kPrefix)) std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), time);
  return time;
}

// TensorBoard reads a folder's files in the order of their names, which begin with the time. So a new file must come
// last even when a run was killed and resumed within a second, or the clock was set back.
int64_t time_for_name(const std::filesystem::path& folder) {
  auto time = static_cast<int64_t>(now());
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    time = std::max(time, time_in(entry.path().filename().string()) + 1);
  }
  return time;
}

std::filesystem::path new_path(const std::filesystem::path& folder) {
  std::array<char, 32> time{};
  std::snprintf(time.data(), time.size(), "%010lld", static_cast<long long>(time_for_name(folder)));
  return folder / (std::string(kPrefix) + time.data() + "." + host_name() + "." + std::to_string(getpid()));
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static constexpr auto kTable = make_crc_table();
  uint32_t crc = ~0U;
  for (const char c : bytes) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<unsigned char>(c)) & 0xFFU];
  return ~crc;
}

uint32_t masked_crc32c(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xA282EAD8U; }

std::string framed(std::string_view record) {
  const auto length = little_endian(static_cast<uint64_t>(record.size()));
  return length + little_endian(masked_crc32c(length)) + std::string(record) + little_endian(masked_crc32c(record));
}

EventFile::EventFile(const std::filesystem::path& folder, std::optional<int64_t> resumed_after) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw Error(kOperation, folder.string() + ": cannot make the folder: " + error.message());
  do {
    path_ = new_path(folder);
    descriptor_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) fail_system(path_);
  const int64_t first = resumed_after ? *resumed_after + 1 : 0;
  add(event(first).bytes(kEventFileVersion, "brain.Event:2").to_string());
  // The first start of a folder says nothing; from the second on TensorBoard drops what came before at this step or
  // later.
  add(event(first).message(kEventSessionLog, Message().integer(kSessionLogStatus, kSessionStart)).to_string());
  try {
    flush();
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

EventFile::~EventFile() {
  try {
    flush();
  } catch (const Error&) {  // nobody is left to tell
  }
  close(descriptor_);
}

void EventFile::scalar(std::string_view tag, double value, int64_t step) {
  const auto point = Message().bytes(kValueTag, tag).real(kValueSimple, static_cast<float>(value));
  add(event(step).message(kEventSummary, Message().message(kSummaryValue, point)).to_string());
  if (waiting_.size() >= kMostWaiting) flush();
}

void EventFile::add(std::string_view event) { waiting_ += framed(event); }

void EventFile::flush() {
  size_t done = 0;
  while (done < waiting_.size()) {
    const ssize_t count = ::write(descriptor_, waiting_.data() + done, waiting_.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      waiting_.erase(0, done);  // a later flush goes on where this one stopped
      fail_system(path_);
    }
    done += static_cast<size_t>(count);
  }
  waiting_.clear();
}

}  // namespace frn::tensorboard
