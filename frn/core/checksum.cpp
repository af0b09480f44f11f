#include "frn/core/checksum.h"

#include <fmt/format.h>
// Compiled in here: who links our static library need not have xxhash's.
#define XXH_INLINE_ALL  // NOLINT(readability-identifier-naming): the library's own name
#include <xxhash.h>

#include <cstring>
#include <fstream>
#include <vector>

#include "frn/core/error.h"

namespace frn {
namespace {

constexpr std::string_view kName = "xxh3:";
constexpr size_t kBlock = 1 << 20;

class Xxh3 {
 public:
  Xxh3() { XXH3_64bits_reset(&state_); }
  void add(std::string_view bytes) { XXH3_64bits_update(&state_, bytes.data(), bytes.size()); }
  uint64_t result() const { return XXH3_64bits_digest(&state_); }

 private:
  XXH3_state_t state_;
};

// What frn up to 0.2 wrote into its checkpoints: multiply and rotate, word by word.
class OldSum {
 public:
  // Of a text's blocks, each but the last must be a multiple of a word.
  void add(std::string_view bytes) {
    length_ += bytes.size();
    for (; bytes.size() >= kWord; bytes.remove_prefix(kWord)) add_word(bytes.data(), kWord);
    if (!bytes.empty()) add_word(bytes.data(), bytes.size());
  }
  uint64_t result() const {
    const uint64_t mixed = (state_ ^ length_) * kPrime2;
    return mixed ^ (mixed >> 32);
  }

 private:
  void add_word(const char* bytes, size_t count) {
    uint64_t word = 0;
    std::memcpy(&word, bytes, count);
    state_ = (state_ ^ (word * kPrime2)) * kPrime1;
    state_ = (state_ << 29) | (state_ >> 35);
  }

  static constexpr size_t kWord = sizeof(uint64_t);
  static constexpr uint64_t kPrime1 = 0x9e3779b97f4a7c15;
  static constexpr uint64_t kPrime2 = 0xc2b2ae3d27d4eb4f;
  uint64_t state_ = kPrime1;
  uint64_t length_ = 0;
};

template <typename Sum>
std::string digits_of_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> block(kBlock);
  Sum sum;
  while (file) {
    file.read(block.data(), static_cast<std::streamsize>(block.size()));
    sum.add({block.data(), static_cast<size_t>(file.gcount())});
  }
  if (!file.eof()) throw Error("checksum", path.string() + ": cannot be read");
  return fmt::format("{:016x}", sum.result());
}

}  // namespace

uint64_t checksum(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

std::string checksum_of_file(const std::filesystem::path& path) {
  return std::string(kName) + digits_of_file<Xxh3>(path);
}

bool has_checksum(const std::filesystem::path& path, std::string_view written) {
  return written == (written.starts_with(kName) ? checksum_of_file(path) : digits_of_file<OldSum>(path));
}

}  // namespace frn
