// Whatever the bytes, an archive is unpacked inside its folder, with no more bytes than the limit and nothing but plain
// files and folders, or refused with a frn::Error. Blocks that look like headers get the right checksum, and what is
// not gzipped is wrapped as gzip: without them mutations would end there.
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "frn/core/error.h"
#include "frn/fetch/archive.h"

namespace {

constexpr size_t kBlock = 512;
constexpr size_t kMagicAt = 257;
constexpr size_t kChecksumAt = 148;
constexpr size_t kChecksumLength = 8;
constexpr size_t kLongestMessage = 8192;
constexpr uint64_t kLimit = 1 << 16;

// Not assert: the release flags would remove it.
void require(bool condition) {
  if (!condition) std::abort();
}

void mend_checksums(std::string& tar) {
  for (size_t begin = 0; begin + kBlock <= tar.size(); begin += kBlock) {
    if (tar.compare(begin + kMagicAt, 5, "ustar") != 0) continue;
    std::fill_n(tar.begin() + static_cast<std::ptrdiff_t>(begin + kChecksumAt), kChecksumLength, ' ');
    unsigned sum = 0;
    for (size_t i = 0; i < kBlock; ++i) sum += static_cast<unsigned char>(tar[begin + i]);
    char text[kChecksumLength + 1];
    std::snprintf(text, sizeof(text), "%06o", sum);
    tar.replace(begin + kChecksumAt, 7, text, 7);
  }
}

bool is_gzip(const std::string& bytes) { return bytes.starts_with("\x1f\x8b"); }

void write_archive(const std::filesystem::path& path, const std::string& bytes) {
  if (is_gzip(bytes)) {
    std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return;
  }
  const gzFile file = gzopen(path.c_str(), "wb0");
  require(file != nullptr);
  const int count = gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  require(count == static_cast<int>(bytes.size()) && gzclose(file) == Z_OK);
}

// An outer folder around the one that is unpacked into shows what leaves it.
const std::filesystem::path& work() {
  static const std::filesystem::path folder = [] {
    std::string pattern = (std::filesystem::temp_directory_path() / "frn-archive-fuzz-XXXXXX").string();
    require(::mkdtemp(pattern.data()) != nullptr);
    std::atexit([] { std::filesystem::remove_all(work()); });
    return std::filesystem::path(pattern);
  }();
  return folder;
}

}  // namespace

// libFuzzer's name.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  std::string tar(reinterpret_cast<const char*>(bytes), size);
  mend_checksums(tar);
  const auto archive = work() / "archive";
  const auto folder = work() / "in" / "side";
  write_archive(archive, tar);
  std::filesystem::create_directories(folder);
  try {
    frn::fetch::unpack_tar_gz(archive, folder, kLimit);
  } catch (const frn::Error& error) {
    require(std::strlen(error.what()) < kLongestMessage);
  }
  uint64_t total = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    require(!entry.is_symlink() && (entry.is_regular_file() || entry.is_directory()));
    if (entry.is_regular_file()) total += entry.file_size();
  }
  require(total <= kLimit);
  const auto count_of = [](const std::filesystem::path& path) {
    return std::distance(std::filesystem::directory_iterator(path), std::filesystem::directory_iterator());
  };
  require(count_of(work()) == 2 && count_of(work() / "in") == 1);
  std::filesystem::remove_all(work() / "in");
  return 0;
}
