// Whatever a log's bytes, reading it gives whole lines or one frn::Error; what was read and is written reads the same;
// and a run that is taken up again keeps a log that can be read.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "frn/core/error.h"
#include "frn/core/run_log.h"

namespace {

constexpr size_t kLongestMessage = 4096;

// Not assert: the release flags would remove it.
void require(bool condition) {
  if (!condition) std::abort();
}

const std::filesystem::path& work() {
  static const std::filesystem::path folder = [] {
    std::string pattern = (std::filesystem::temp_directory_path() / "frn-run-log-fuzz-XXXXXX").string();
    require(::mkdtemp(pattern.data()) != nullptr);
    std::atexit([] { std::filesystem::remove_all(work()); });
    return std::filesystem::path(pattern);
  }();
  return folder;
}

std::string text_of(const std::vector<frn::Value>& lines) {
  std::string out;
  for (const auto& line : lines) out += frn::to_json(line) + "\n";
  return out;
}

}  // namespace

// libFuzzer's name.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const auto path = work() / "log.jsonl";
  const auto copy = work() / "copy.jsonl";
  std::filesystem::remove(copy);
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes), static_cast<std::streamsize>(size));
  try {
    const auto lines = frn::RunLog::read(path);
    {
      frn::RunLog written(copy);
      for (const auto& line : lines) written.append(line);
    }
    require(text_of(frn::RunLog::read(copy)) == text_of(lines));
    frn::RunLog log(path);
    log.truncate_after(10);
    log.append({{"event", "resume"}, {"step", 10}});
    const auto left = frn::RunLog::read(path);
    require(!left.empty() && left.size() <= lines.size() + 1 && left.back()["event"] == "resume");
  } catch (const frn::Error& error) {
    require(std::strlen(error.what()) < kLongestMessage && std::strchr(error.what(), '\n') == nullptr);
  }
  return 0;
}
