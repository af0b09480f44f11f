// What is written is what Python's safetensors writes, comes back, and is whole or not there.
#include "frn/core/safetensors.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <vector>

#include "tests/core/safetensors_file.h"

namespace frn::safetensors {
namespace {

class SafetensorsFile : public FolderTest {};

template <typename T>
std::span<const std::byte> raw(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

// The values of make_python_file.py. Halves are their bits: 1.5 and -2.
class PythonsTensors {
 public:
  TensorViews views() const {
    return {{"mask", {Dtype::kBool, {3}, raw(mask_)}},
            {"u8", {Dtype::kU8, {2}, raw(u8_)}},
            {"i8", {Dtype::kI8, {2}, raw(i8_)}},
            {"i16", {Dtype::kI16, {2}, raw(i16_)}},
            {"f16", {Dtype::kF16, {2}, raw(f16_)}},
            {"bf16", {Dtype::kBF16, {2}, raw(bf16_)}},
            {"i32", {Dtype::kI32, {1, 2}, raw(i32_)}},
            {"conv.weight", {Dtype::kF32, {2, 2, 1, 2}, raw(weight_)}},
            {"a \"b\\c\"\n\u00e9", {Dtype::kF32, {1}, raw(half_)}},
            {"empty", {Dtype::kF32, {0, 3}, {}}},
            {"f64", {Dtype::kF64, {1}, raw(f64_)}},
            {"num_batches_tracked", {Dtype::kI64, {}, raw(batches_)}}};
  }

 private:
  std::vector<uint8_t> mask_{1, 0, 1};
  std::vector<uint8_t> u8_{1, 255};
  std::vector<int8_t> i8_{-1, 127};
  std::vector<int16_t> i16_{-2, 300};
  std::vector<uint16_t> f16_{0x3E00, 0xC000};
  std::vector<uint16_t> bf16_{0x3FC0, 0xC000};
  std::vector<int32_t> i32_{-3, 70000};
  std::vector<float> weight_{0, 1, 2, 3, 4, 5, 6, 7};
  std::vector<float> half_{0.5F};
  std::vector<double> f64_{0.1};
  std::vector<int64_t> batches_{7};
};

TEST(Safetensors, BytesOfEveryTypeAreThoseThatPythonWrites) {
  const PythonsTensors tensors;
  EXPECT_EQ(to_bytes(tensors.views(), {{"format", "pt"}}), python_file());
}

TEST_F(SafetensorsFile, WhatPythonWroteIsReadWithEveryTypeShapeAndValue) {
  put(folder_ / "python.safetensors", python_file());
  const File file(folder_ / "python.safetensors");
  const PythonsTensors tensors;
  const auto views = tensors.views();
  EXPECT_EQ(file.header().metadata, (Metadata{{"format", "pt"}}));
  ASSERT_EQ(file.header().entries.size(), views.size());
  for (const auto& [name, view] : views) {
    const Entry& entry = file.header().entries.at(name);
    EXPECT_EQ(entry.dtype, view.dtype) << name;
    EXPECT_EQ(entry.shape, view.shape) << name;
    ASSERT_EQ(entry.byte_count(), view.bytes.size()) << name;
    std::vector<std::byte> bytes(entry.byte_count());
    file.read(name, bytes);
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), view.bytes.begin())) << name;
  }
}

TEST_F(SafetensorsFile, IsTheSameBytesOnDiskAsInMemoryAndLeavesNothingBeside) {
  const PythonsTensors tensors;
  const auto path = folder_ / "weights.safetensors";
  write(path, tensors.views(), {{"format", "pt"}});
  EXPECT_EQ(contents(path), python_file());
  EXPECT_EQ(files(), 1);
  write(path, {});  // over an older one
  EXPECT_EQ(contents(path), assemble("{}      "));
  EXPECT_EQ(files(), 1);
}

TEST(Safetensors, FromMemoryTheHeaderIsTheSame) {
  const Header header = parse(bytes_of(python_file()));
  EXPECT_EQ(header.data_begin, 8 + kPythonHeader.size());
  EXPECT_EQ(header.entries.at("num_batches_tracked"), (Entry{Dtype::kI64, {}, 0, 8}));
  EXPECT_EQ(header.entries.at("empty").byte_count(), 0);
}

TEST(Safetensors, AFileOfNoTensorsIsAFile) {
  EXPECT_TRUE(parse(bytes_of(assemble("{}"))).entries.empty());
  EXPECT_TRUE(parse(bytes_of(to_bytes({}))).entries.empty());
}

TEST(Safetensors, EveryTensorIsAlignedToItsTypeAndTheDataToEight) {
  const PythonsTensors tensors;
  const Header header = parse(bytes_of(to_bytes(tensors.views(), {{"odd", "length."}})));
  EXPECT_EQ(header.data_begin % 8, 0);
  for (const auto& [name, entry] : header.entries) {
    EXPECT_EQ(entry.begin % dtype_size(entry.dtype), 0) << name;
  }
}

TEST(Safetensors, MetadataOfAnyTextComesBack) {
  const Metadata metadata{{"", ""}, {"model", "resnetv2-50"}, {"a\"\\\n\x01", "\u00e9\U0001F600 \x7F"}};
  EXPECT_EQ(parse(bytes_of(to_bytes({}, metadata))).metadata, metadata);
}

TEST(Safetensors, ATensorOfSixtyFourDimensionsComesBack) {
  const std::vector<float> one{1};
  const TensorViews views{{"deep", {Dtype::kF32, std::vector<int64_t>(64, 1), raw(one)}}};
  EXPECT_EQ(parse(bytes_of(to_bytes(views))).entries.at("deep").shape.size(), 64);
}

TEST_F(SafetensorsFile, ReadingATensorThatIsNotThereOrIntoOtherMemorySaysSo) {
  put(folder_ / "f", python_file());
  const File file(folder_ / "f");
  std::vector<std::byte> small(3);
  EXPECT_NE(error_of([&] { file.read("nobody", small); }).find("no tensor 'nobody'"), std::string::npos);
  EXPECT_NE(error_of([&] { file.read("f64", small); }).find("'f64': it has 8 bytes but the memory for it 3"),
            std::string::npos);
}

TEST_F(SafetensorsFile, AFailingWriteLeavesTheOldFileAndNothingElse) {
  const auto path = folder_ / "weights.safetensors";
  put(path, "old");
  const std::vector<float> two{1, 2};
  std::string message;
  {
    const NoFileLongerThan header_alone(70);
    message = error_of([&] { write(path, {{"x", {Dtype::kF32, {2}, raw(two)}}}); });
  }
  EXPECT_NE(message.find(path.string() + ": cannot write: File too large"), std::string::npos) << message;
  EXPECT_EQ(contents(path), "old");
  EXPECT_EQ(files(), 1);
}

TEST_F(SafetensorsFile, WritingWhereNoFolderIsOrOverAFolderSaysSo) {
  EXPECT_NE(error_of([&] { write(folder_ / "missing" / "w", {}); }).find("No such file"), std::string::npos);
  EXPECT_NE(error_of([&] { write(folder_, {}); }).find("is a folder or a device"), std::string::npos);
  EXPECT_NE(error_of([] { write("/dev/null", {}); }).find("is a folder or a device"), std::string::npos);
  EXPECT_NE(error_of([] { write("", {}); }).find("cannot write"), std::string::npos);
  EXPECT_EQ(files(), 0);
}

TEST_F(SafetensorsFile, AFolderThatMayNotBeWrittenKeepsItsFile) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  put(folder_ / "w", "old");
  chmod(folder_.c_str(), 0500);
  const auto message = error_of([&] { write(folder_ / "w", {}); });
  chmod(folder_.c_str(), 0700);
  EXPECT_NE(message.find("Permission denied"), std::string::npos) << message;
  EXPECT_EQ(contents(folder_ / "w"), "old");
}

TEST_F(SafetensorsFile, WrittenThroughALinkTheLinkRemains) {
  std::filesystem::create_directory(folder_ / "disk");
  put(folder_ / "disk" / "real", "old");
  std::filesystem::create_symlink(folder_ / "disk" / "real", folder_ / "link");
  write(folder_ / "link", {});
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ / "link"));
  EXPECT_EQ(contents(folder_ / "disk" / "real"), assemble("{}      "));
}

TEST_F(SafetensorsFile, ANameOfAllTheLettersThatANameCanHaveIsWritten) {
  const auto path = folder_ / std::string(255, 'w');
  write(path, {});
  EXPECT_EQ(contents(path), assemble("{}      "));
}

TEST(Safetensors, WhatAFileCannotHoldIsRefusedByName) {
  const std::vector<float> two{1, 2};
  const auto message = [&](const std::string& name, std::vector<int64_t> shape, const Metadata& metadata = {}) {
    return error_of([&] { to_bytes({{name, {Dtype::kF32, std::move(shape), raw(two)}}}, metadata); });
  };
  EXPECT_NE(message("x", {3}).find("'x': F32 of shape [3] does not fit its 8 bytes"), std::string::npos);
  EXPECT_NE(message("x", {-2}).find("'x': F32 of shape [-2]"), std::string::npos);
  EXPECT_NE(message("__metadata__", {2}).find("must not be called '__metadata__'"), std::string::npos);
  EXPECT_NE(message("\xFF", {2}).find("must be UTF-8"), std::string::npos);
  EXPECT_NE(message("x", {2}, {{"key", "\xC3"}}).find("must be UTF-8"), std::string::npos);
  EXPECT_EQ(message("x", {2}), "no error");
}

}  // namespace
}  // namespace frn::safetensors
