#include "frn/core/checksum.h"

#include <gtest/gtest.h>

#include "tests/core/files.h"

namespace frn {
namespace {

// Longer than the blocks that a file is read in, and no multiple of a word.
std::string long_text() {
  std::string text;
  for (int i = 0; i < (1 << 20) + 13; ++i) text.push_back(static_cast<char>(i * 7 + i / 256));
  return text;
}

class Checksums : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    put(empty_, "");
    put(short_, "The quick brown fox jumps over the lazy dog\n");
    put(long_, long_text());
  }

  const std::filesystem::path empty_ = folder_ / "empty";
  const std::filesystem::path short_ = folder_ / "short";
  const std::filesystem::path long_ = folder_ / "long";
};

// The first is xxHash's own reference value; the others are what its library 0.8.1 gives.
TEST_F(Checksums, AreXxh3WhereverTheBytesAre) {
  EXPECT_EQ(checksum(""), 0x2d06800538d394c2U);
  EXPECT_EQ(checksum_of_file(empty_), "xxh3:2d06800538d394c2");
  EXPECT_EQ(checksum_of_file(short_), "xxh3:8bfe7a34715dc03d");
  EXPECT_EQ(checksum(long_text()), 0x7b785673144c9007U);
  EXPECT_EQ(checksum_of_file(long_), "xxh3:7b785673144c9007");
}

TEST_F(Checksums, TellADamagedFile) {
  const auto written = checksum_of_file(long_);
  EXPECT_TRUE(has_checksum(long_, written));
  auto damaged = long_text();
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  put(long_, damaged);
  EXPECT_FALSE(has_checksum(long_, written));
  EXPECT_FALSE(has_checksum(long_, ""));
}

// Values that frn 0.2.0 computed for the same bytes.
TEST_F(Checksums, OfFrn02AreStillUnderstood) {
  EXPECT_TRUE(has_checksum(empty_, "f58d71ae69cae0d5"));
  EXPECT_TRUE(has_checksum(short_, "812f668339dceed4"));
  EXPECT_TRUE(has_checksum(long_, "eb67be75fefb6745"));
  EXPECT_FALSE(has_checksum(long_, "812f668339dceed4"));
  EXPECT_FALSE(has_checksum(short_, "xxh3:812f668339dceed4"));
}

TEST_F(Checksums, OfAFileThatIsNotThereAreAnError) {
  EXPECT_NE(error_of([&] { checksum_of_file(folder_ / "none"); }).find("none: cannot be read"), std::string::npos);
}

}  // namespace
}  // namespace frn
