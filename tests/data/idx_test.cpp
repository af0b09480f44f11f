#include "frn/data/idx.h"

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>

#include "frn/core/error.h"
#include "frn/data/dataset.h"
#include "tests/data/made_images.h"

namespace frn::data {
namespace {

namespace fs = std::filesystem;

std::string header(std::initializer_list<uint32_t> sizes) {
  std::string bytes{'\0', '\0', '\x08', static_cast<char>(sizes.size())};
  for (const uint32_t size : sizes) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(size >> shift);
  }
  return bytes;
}

std::string gzipped(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string packed(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string complaint(const std::string& file, size_t dimensions = 3) {
  try {
    parse_idx(bytes_of(file), dimensions, "some.idx");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Idx, ReadsPlainAndGzippedFilesAlike) {
  const std::string file = header({2, 1, 3}) + "abcdef";
  for (const auto& text : {file, gzipped(file)}) {
    const auto array = parse_idx(bytes_of(text), 3, "some.idx");
    EXPECT_EQ(array.shape, (std::vector<int64_t>{2, 1, 3}));
    EXPECT_EQ(std::string(array.values().begin(), array.values().end()), "abcdef");
  }
}

TEST(Idx, SaysWhatADamagedFileLacks) {
  const std::string file = header({2, 1, 3}) + "abcdef";
  EXPECT_NE(complaint("").find("ends within the header, after 0 bytes"), std::string::npos);
  EXPECT_NE(complaint(file.substr(0, 9)).find("after 9 bytes"), std::string::npos);
  EXPECT_NE(complaint(file.substr(0, 20)).find("more values than"), std::string::npos);
  EXPECT_NE(complaint(file + "x").find("promises 6 values but it holds 7"), std::string::npos);
  EXPECT_NE(complaint(file, 1).find("must start with the bytes 0 0 8 1"), std::string::npos);
  EXPECT_NE(complaint("<!DOCTYPE html><html>").find("but starts with 60 33 68 79"), std::string::npos);
}

TEST(Idx, SaysWhatADamagedGzipFileLacks) {
  const std::string file = header({2, 1, 3}) + "abcdef";
  const auto packed = gzipped(file);
  EXPECT_NE(complaint(packed.substr(0, packed.size() - 5)).find("ends too early"), std::string::npos);
  auto wrong_sum = packed;
  wrong_sum[packed.size() - 6] ^= 1;
  EXPECT_NE(complaint(wrong_sum).find("damaged"), std::string::npos);
  EXPECT_NE(complaint(gzipped(file + "x")).find("holds more"), std::string::npos);
  EXPECT_NE(complaint(gzipped(file.substr(0, 20))).find("holds 4"), std::string::npos);
  EXPECT_NE(complaint(gzipped(file.substr(0, 7))).find("ends within the header"), std::string::npos);
}

// Before any memory is asked for: these would be up to 2^96 bytes.
TEST(Idx, BelievesNoSizeThatTheFileCannotHold) {
  for (const auto& sizes : {header({0xffffffff, 0xffffffff, 0xffffffff}), header({60000, 28000, 28000})}) {
    EXPECT_NE(complaint(sizes + "abc").find("more values than"), std::string::npos);
    EXPECT_NE(complaint(gzipped(sizes + "abc")).find("more values than"), std::string::npos);
  }
}

// --- As a set ---

class IdxSet : public testing::Test {
 protected:
  IdxSet() : folder_(fs::path(testing::TempDir()) / ("idx-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~IdxSet() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  std::shared_ptr<const Dataset> open(Split split) const {
    return open_dataset(parse_data_name("idx:" + folder_.string()), split);
  }
  std::string complaint_of_open(Split split = Split::kTrain) const {
    try {
      open(split);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  fs::path folder_;
};

TEST_F(IdxSet, ReadsBothSplitsByMnistsNames) {
  write("train-images-idx3-ubyte", header({2, 2, 2}) + "abcdefgh");
  write("train-labels-idx1-ubyte.gz", gzipped(header({2}) + "\x03" + "\x01"));
  write("t10k-images-idx3-ubyte.gz", gzipped(header({1, 2, 2}) + "stuv"));
  write("t10k-labels-idx1-ubyte", header({1}) + '\0');
  const auto train = open(Split::kTrain);
  EXPECT_EQ(train->size(), 2);
  EXPECT_EQ(train->target(0).label, 3);
  EXPECT_EQ(train->classes(), (std::vector<std::string>{"0", "1", "2", "3"}));
  EXPECT_NE(train->name(1).find("train-images-idx3-ubyte, image 1"), std::string::npos);
  const auto image = train->open(1)->read({0, 1, 2, 1}, {2, 2});
  EXPECT_EQ(image.channels, 1);
  EXPECT_EQ(image.pixels, (std::vector<uint8_t>{'f', 'h'}));
  EXPECT_EQ(open(Split::kValidation)->open(0)->read({0, 0, 2, 2}, {2, 2}).pixels,
            (std::vector<uint8_t>{'s', 't', 'u', 'v'}));
  EXPECT_THROW(train->open(0)->read({0, 1, 2, 2}, {2, 2}), Error);
  EXPECT_THROW(train->open(2), Error);
}

TEST_F(IdxSet, TheTrainingLabelsSayWhichClassesThereAre) {
  write("train-images-idx3-ubyte", header({2, 1, 1}) + "ab");
  write("train-labels-idx1-ubyte", header({2}) + "\x03" + "\x01");
  write("t10k-images-idx3-ubyte", header({1, 1, 1}) + "c");
  write("t10k-labels-idx1-ubyte", header({1}) + "\x02");
  EXPECT_EQ(open(Split::kValidation)->classes(), open(Split::kTrain)->classes());
  write("t10k-labels-idx1-ubyte", header({1}) + "\x04");
  EXPECT_NE(complaint_of_open(Split::kValidation).find("labels must be below 4 but one is 4"), std::string::npos);
  fs::remove(folder_ / "train-labels-idx1-ubyte");
  EXPECT_EQ(open(Split::kValidation)->classes().size(), 5U) << "a folder of the test files alone can be evaluated";
}

TEST_F(IdxSet, SaysWhichFileIsMissingOrDoesNotFit) {
  EXPECT_NE(complaint_of_open().find("must hold train-images-idx3-ubyte or"), std::string::npos);
  write("train-images-idx3-ubyte", header({2, 2, 2}) + "abcdefgh");
  write("train-labels-idx1-ubyte", header({3}) + "abc");
  EXPECT_NE(complaint_of_open().find("3 labels for 2 images"), std::string::npos);
  write("train-images-idx3-ubyte", header({0, 28, 28}));
  write("train-labels-idx1-ubyte", header({0}));
  EXPECT_NE(complaint_of_open().find("holds none"), std::string::npos);
  fs::remove_all(folder_);
  EXPECT_NE(complaint_of_open().find("does not exist"), std::string::npos);
}

// The whole of Fashion-MNIST is prepared as the built-in part; other sets of the same files' names are not.
TEST(Idx, FashionMnistIsKnownByItsLabels) {
  const auto folder = fs::temp_directory_path() / ("frn fashion " + std::to_string(getpid()));
  fs::create_directories(folder);
  const auto mini = parse_data_name("fashion-mini");
  for (const auto split : {Split::kTrain, Split::kValidation}) {
    const auto built_in = open_dataset(mini, split);
    const auto part = folder / (split == Split::kTrain ? "train" : "t10k");
    for (const int64_t shift : {0, 1}) {
      std::string labels;
      for (int64_t i = 0; i < 600; ++i) labels += static_cast<char>((built_in->target(i).label + shift) % 10);
      std::ofstream(part.string() + "-labels-idx1-ubyte", std::ios::binary) << header({600}) << labels;
      std::ofstream(part.string() + "-images-idx3-ubyte", std::ios::binary)
          << header({600, 2, 3}) << std::string(size_t{600} * 6, 'x');
      const auto set = open_dataset(parse_data_name("idx:" + folder.string()), split);
      EXPECT_EQ(set->facts().mean == built_in->facts().mean, shift == 0);
      EXPECT_EQ(set->facts().augmentation == built_in->facts().augmentation, shift == 0);
      EXPECT_EQ(set->facts().image_size, 3);
      EXPECT_EQ(set->facts().channels, 1);
    }
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace frn::data
