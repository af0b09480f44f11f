// Frames and sums are those of TFRecord. That TensorBoard reads them is tests/parity/test_tensorboard.py's promise.
#include "frn/core/tensorboard.h"

#include <vector>

#include "tests/core/files.h"

namespace frn::tensorboard {
namespace {

class TensorBoard : public FolderTest {};

// The first four are of RFC 3720, B.4.
TEST(TensorBoardFrames, Crc32cIsThatOfThePublishedVectors) {
  std::string up;
  for (int i = 0; i < 32; ++i) up += static_cast<char>(i);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43U);
  EXPECT_EQ(crc32c(up), 0x46DD794EU);
  EXPECT_EQ(crc32c(std::string(up.rbegin(), up.rend())), 0x113FDB5CU);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(""), 0U);
}

TEST(TensorBoardFrames, TheMaskRotatesByFifteenAndAdds) {
  EXPECT_EQ(masked_crc32c(""), 0xA282EAD8U);
  EXPECT_EQ(masked_crc32c("123456789"), ((0xE3069283U >> 15) | (0xE3069283U << 17)) + 0xA282EAD8U);
}

uint64_t number_at(std::string_view bytes, size_t position, size_t count) {
  uint64_t value = 0;
  for (size_t i = 0; i < count; ++i) value |= uint64_t{static_cast<unsigned char>(bytes[position + i])} << (8 * i);
  return value;
}

TEST(TensorBoardFrames, AFrameIsLengthItsSumTheRecordAndItsSum) {
  const auto frame = framed("record");
  ASSERT_EQ(frame.size(), 8 + 4 + 6 + 4);
  EXPECT_EQ(number_at(frame, 0, 8), 6);
  EXPECT_EQ(number_at(frame, 8, 4), masked_crc32c(frame.substr(0, 8)));
  EXPECT_EQ(frame.substr(12, 6), "record");
  EXPECT_EQ(number_at(frame, 18, 4), masked_crc32c("record"));
}

std::vector<std::string> records_of(std::string_view file) {
  std::vector<std::string> records;
  while (!file.empty()) {
    const auto length = number_at(file, 0, 8);
    const auto record = file.substr(12, length);
    EXPECT_EQ(framed(record), file.substr(0, length + 16));
    records.emplace_back(record);
    file.remove_prefix(length + 16);
  }
  return records;
}

TEST_F(TensorBoard, AFileBeginsWithItsVersionAndHoldsItsScalarsOnceFlushed) {
  EventFile file(folder_ / "made on demand");
  file.scalar("train/loss", 0.25, 300);
  EXPECT_EQ(records_of(contents(file.path())).size(), 2) << "before the flush";
  file.flush();
  const auto records = records_of(contents(file.path()));
  ASSERT_EQ(records.size(), 3);
  // Nine bytes of wall time; then the step (2: varint) and what the event is (3: text; 5, 7: messages).
  EXPECT_EQ(records[0].substr(9), std::string("\x10\x00\x1A\x0D", 4) + "brain.Event:2");
  EXPECT_EQ(records[1].substr(9), std::string("\x10\x00\x3A\x02\x08\x01", 6));
  // Step 300 is AC 02 as varint; the summary has 19 bytes, its value 17: tag (1) and 0.25 as float (2).
  EXPECT_EQ(records[2].substr(9), std::string("\x10\xAC\x02\x2A\x13\x0A\x11\x0A\x0A") + "train/loss" +
                                      std::string("\x15\x00\x00\x80\x3E", 5));
}

TEST_F(TensorBoard, EverySecondFileComesLaterByNameEvenWithinASecond) {
  std::string last;
  for (int i = 0; i < 5; ++i) {
    const EventFile file(folder_);
    const auto name = file.path().filename().string();
    EXPECT_TRUE(name.starts_with("events.out.tfevents."));
    EXPECT_LT(last, name);
    last = name;
  }
  EXPECT_EQ(files(), 5);
}

TEST_F(TensorBoard, ManyScalarsReachTheDiskWithoutAFlush) {
  EventFile file(folder_);
  const auto before = contents(file.path()).size();
  for (int64_t step = 0; step < 10000; ++step) file.scalar("loss", 1, step);
  EXPECT_GT(contents(file.path()).size(), before);
}

TEST_F(TensorBoard, AFullDiskIsAnErrorAndOnceThereIsRoomNothingIsMissing) {
  EventFile file(folder_);
  file.scalar("loss", 1, 1);
  std::string message;
  {
    const NoFileLongerThan a_part_of_the_record(contents(file.path()).size() + 5);
    message = error_of([&] { file.flush(); });
  }
  EXPECT_NE(message.find("[tensorboard] " + file.path().string() + ": cannot write: "), std::string::npos) << message;
  file.flush();
  EXPECT_EQ(records_of(contents(file.path())).size(), 3);
}

TEST_F(TensorBoard, AFolderThatCannotBeMadeIsNamed) {
  put(folder_ / "file", "");
  EXPECT_NE(error_of([&] { EventFile(folder_ / "file" / "x"); }).find("cannot make the folder"), std::string::npos);
}

}  // namespace
}  // namespace frn::tensorboard
