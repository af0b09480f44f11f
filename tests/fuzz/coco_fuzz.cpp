// Whatever a file's bytes, reading it as COCO's annotations or as detections gives them or one frn::Error, and what was
// read is evaluated to numbers from 0 to 1, or -1.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "frn/core/error.h"
#include "frn/metrics/coco_files.h"

namespace {

constexpr size_t kLongestMessage = 4096;
constexpr size_t kMostOfEach = 1000;  // the evaluation has other tests

// Not assert: the release flags would remove it.
void require(bool condition) {
  if (!condition) std::abort();
}

const std::filesystem::path& work() {
  static const std::filesystem::path folder = [] {
    std::string pattern = (std::filesystem::temp_directory_path() / "frn-coco-fuzz-XXXXXX").string();
    require(::mkdtemp(pattern.data()) != nullptr);
    std::atexit([] { std::filesystem::remove_all(work()); });
    return std::filesystem::path(pattern);
  }();
  return folder;
}

template <typename Function>
void read(const Function& function) {
  try {
    function();
  } catch (const frn::Error& error) {
    require(std::strlen(error.what()) < kLongestMessage && std::strchr(error.what(), '\n') == nullptr);
  }
}

// Every truth is found, and something else too.
void evaluate(const frn::CocoFile& file) {
  std::vector<frn::CocoDetection> found;
  for (const auto& truth : file.annotations) {
    found.push_back({truth.image_id, truth.category_id, truth.box, truth.area});
    found.push_back({truth.image_id, truth.category_id, {truth.box.x, truth.box.y, 10, 10}, 0.5});
  }
  for (const auto& [key, value] : frn::named_values(frn::evaluate_coco(file, found))) {
    require(value == -1 || (value >= 0 && value <= 1));
  }
}

}  // namespace

// libFuzzer's name.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const auto path = work() / "file.json";
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes), static_cast<std::streamsize>(size));
  read([&] {
    const auto file = frn::read_coco_truths(path);
    if (file.annotations.size() < kMostOfEach && file.categories.size() < kMostOfEach) evaluate(file);
  });
  read([&] { frn::read_coco_detections(path); });
  return 0;
}
