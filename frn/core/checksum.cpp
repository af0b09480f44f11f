#include "frn/core/checksum.h"

#include <cstring>
#include <fstream>
#include <vector>

#include "frn/core/error.h"

namespace frn {
namespace {

constexpr uint64_t kPrime1 = 0x9e3779b97f4a7c15;
constexpr uint64_t kPrime2 = 0xc2b2ae3d27d4eb4f;
constexpr size_t kWord = sizeof(uint64_t);

// Multiply and rotate, word by word: every bit of every word reaches the result.
class Sum {
 public:
  void add(const char* bytes, size_t count) {
    length_ += count;
    for (; count >= kWord; bytes += kWord, count -= kWord) add_word(word_at(bytes, kWord));
    if (count > 0) add_word(word_at(bytes, count));
  }
  uint64_t result() const {
    const uint64_t mixed = (state_ ^ length_) * kPrime2;
    return mixed ^ (mixed >> 32);
  }

 private:
  static uint64_t word_at(const char* bytes, size_t count) {
    uint64_t word = 0;
    std::memcpy(&word, bytes, count);
    return word;
  }
  void add_word(uint64_t word) {
    state_ = (state_ ^ (word * kPrime2)) * kPrime1;
    state_ = (state_ << 29) | (state_ >> 35);
  }

  uint64_t state_ = kPrime1;
  uint64_t length_ = 0;
};

constexpr size_t kBlock = 1 << 20;  // a multiple of the word, so that blocks add up as one text

}  // namespace

uint64_t checksum(std::string_view bytes) {
  Sum sum;
  sum.add(bytes.data(), bytes.size());
  return sum.result();
}

uint64_t checksum_of_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> block(kBlock);
  Sum sum;
  while (file) {
    file.read(block.data(), static_cast<std::streamsize>(block.size()));
    sum.add(block.data(), static_cast<size_t>(file.gcount()));
  }
  if (!file.eof()) throw Error("checksum", path.string() + ": cannot be read");
  return sum.result();
}

}  // namespace frn
