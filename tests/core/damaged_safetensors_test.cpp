// A file that is not whole is one sentence that names the file and the tensor; it costs no memory that it claims.
#include <sys/stat.h>

#include <array>
#include <vector>

#include "frn/core/safetensors.h"
#include "tests/core/safetensors_file.h"

namespace frn::safetensors {
namespace {

struct Damage {
  std::string what;
  std::string file;
  std::string sentence;  // a part of the message
};

std::string tensor(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return R"({"dtype":")" + std::string(dtype) + R"(","shape":)" + std::string(shape) + R"(,"data_offsets":)" +
         std::string(offsets) + "}";
}

// A header with the tensor x alone.
std::string x(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return "{\"x\":" + tensor(dtype, shape, offsets) + "}";
}

std::string with_length(uint64_t length, std::string file) {
  std::memcpy(file.data(), &length, sizeof(length));
  return file;
}

std::string repeated(std::string_view text, size_t times) {
  std::string out;
  for (size_t i = 0; i < times; ++i) out += text;
  return out;
}

std::vector<Damage> damaged_frames() {
  const std::string whole = assemble(x("F32", "[1]", "[0,4]"), "abcd");
  return {
      {"nothing", "", "must have at least 8 bytes but this has 0"},
      {"half a length", whole.substr(0, 5), "must have at least 8 bytes but this has 5"},
      {"no header", assemble(""), "the header must be a JSON object and start with '{'"},
      {"half a header", whole.substr(0, 20), "must have at most 12 bytes, to the end of the file, but claims 54"},
      {"half the data", whole.substr(0, whole.size() - 2), "'x': it ends at byte 4 of the data, which has only 2"},
      {"no data", whole.substr(0, whole.size() - 4), "'x': it ends at byte 4 of the data, which has only 0"},
      {"something behind", whole + "e", "must end with the last tensor at byte 4 but has 5"},
      {"only something behind", assemble("{}", "e"), "must end with the last tensor at byte 0 but has 1"},
      {"a header longer than memory", with_length(~0ULL, whole), "but claims 18446744073709551615"},
      {"a length that wraps around", with_length(~0ULL - 7, whole), "but claims 18446744073709551608"},
      {"a header over 100 MB", with_length(100'000'001, repeated(" ", 100'000'100)),
       "must have at most 100000000 bytes but claims 100000001"},
  };
}

std::vector<Damage> damaged_json() {
  const std::string json = "the header must be JSON";
  return {
      {"a list", assemble("[]"), "must be a JSON object and start with '{'"},
      {"a number", assemble("7"), "must be a JSON object and start with '{'"},
      {"a byte-order mark", assemble("\xEF\xBB\xBF{}"), "must be a JSON object and start with '{'"},
      {"space before", assemble(" {}"), "must be a JSON object and start with '{'"},
      {"an open object", assemble("{"), json},
      {"two objects", assemble("{}{}"), json},
      {"a comment", assemble("{}//"), json},
      {"a zero byte", assemble(std::string("{}\0{", 4)), "has a zero byte"},
      {"not UTF-8", assemble("{\"\xFF\":{}}"), "must be JSON in UTF-8 but is not at its byte 3"},
      {"an overlong UTF-8 form", assemble("{\"\xC0\xAF\":{}}"), "must be JSON in UTF-8"},
      {"half a surrogate pair", assemble(R"({"\ud800":{}})"), json},
      {"a number beyond double", assemble(x("F32", "[1e999]", "[0,4]"), "abcd"), json},
      {"deep lists", assemble("{\"x\":" + repeated("[", 1'000'000)), "'x': it must be an object"},
      {"deep objects", assemble(repeated("{\"x\":", 1'000'000)), "it must have dtype, shape and data_offsets but has"},
      {"deep shapes", assemble(R"({"x":{"shape":)" + repeated("[", 1'000'000)), "'x': shape must hold whole numbers"},
  };
}

std::vector<Damage> damaged_fields() {
  const std::string lacks = "'x': it must have dtype, shape and data_offsets but lacks one of them";
  return {
      {"no fields", assemble(R"({"x":{}})"), lacks},
      {"no dtype", assemble(R"({"x":{"shape":[],"data_offsets":[0,0]}})"), lacks},
      {"no shape", assemble(R"({"x":{"dtype":"F32","data_offsets":[0,4]}})", "abcd"), lacks},
      {"no offsets", assemble(R"({"x":{"dtype":"F32","shape":[0]}})"), lacks},
      {"another field", assemble(R"({"x":{"dtyp":"F32"}})"), "but has 'dtyp'"},
      {"a tensor that is null", assemble(R"({"x":null})"), "'x': it must be an object with dtype, shape and"},
      {"a tensor that is text", assemble(R"({"x":"F32"})"), "but is a string"},
      {"an unknown dtype", assemble(x("F31", "[1]", "[0,4]"), "abcd"), "'x': its dtype must be one of BOOL, U8"},
      {"a dtype that torch has not all of", assemble(x("F8_E4M3", "[1]", "[0,1]"), "a"), "but is 'F8_E4M3'"},
      {"a dtype of lower case", assemble(x("f32", "[1]", "[0,4]"), "abcd"), "but is 'f32'"},
      {"a dtype that is a number", assemble(R"({"x":{"dtype":32}})"), "'x': dtype must be a string but is a number"},
      {"a shape that is a number", assemble(x("F32", "1", "[0,4]"), "abcd"), "'x': shape must be a list of whole"},
      {"a negative shape", assemble(x("F32", "[-1]", "[0,4]"), "abcd"), "'x': shape must hold whole numbers from 0"},
      {"a shape of fractions", assemble(x("F32", "[1.0]", "[0,4]"), "abcd"), "that is too large or not whole"},
      {"a shape of text", assemble(x("F32", "[\"1\"]", "[0,4]"), "abcd"), "2^63-1 but holds a string"},
      {"a shape beyond int64", assemble(x("U8", "[9223372036854775808]", "[0,1]"), "a"), "that is too large"},
      {"a shape beyond uint64", assemble(x("U8", "[18446744073709551616]", "[0,1]"), "a"), "that is too large"},
      {"an overflowing product", assemble(x("U8", "[4294967296,4294967296]", "[0,0]")), "larger than any memory"},
      {"an overflow that comes out right", assemble(x("F32", "[4611686018427387905]", "[0,4]"), "abcd"),
       "'x': its shape [4611686018427387905] is larger than any memory"},
      {"an overflow beside a zero", assemble(x("U8", "[0,4294967296,4294967296]", "[0,0]")), "larger than any memory"},
      {"65 dimensions", assemble(x("U8", "[" + repeated("1,", 64) + "1]", "[0,1]"), "a"), "at most 64 dimensions"},
      {"metadata that is a list", assemble(R"({"__metadata__":[]})"), "__metadata__ must be an object of strings"},
      {"metadata that is a number", assemble(R"({"__metadata__":{"epoch":1}})"),
       "__metadata__: 'epoch' must be a string but is a number"},
      {"metadata that is an object", assemble(R"({"__metadata__":{"a":{}}})"), "'a' must be a string but is an object"},
  };
}

std::vector<Damage> damaged_offsets() {
  const std::string both = ",\"y\":";
  const auto two = [&](std::string_view first, std::string_view second) {
    return "{\"x\":" + tensor("U8", "[2]", first) + both + tensor("U8", "[2]", second) + "}";
  };
  const std::string fields = R"("dtype":"U8","shape":[0],"data_offsets":[0,0])";
  return {
      {"too long", assemble(x("F32", "[1]", "[0,8]"), "abcdefgh"),
       "'x': F32 of shape [1] takes 4 bytes but data_offsets are 0 and 8"},
      {"too short", assemble(x("F32", "[2]", "[0,4]"), "abcd"), "takes 8 bytes but data_offsets are 0 and 4"},
      {"backwards", assemble(x("F32", "[1]", "[4,0]"), "abcd"), "takes 4 bytes but data_offsets are 4 and 0"},
      {"one", assemble(x("F32", "[1]", "[4]"), "abcd"), "data_offsets must be two numbers but are fewer"},
      {"three", assemble(x("F32", "[1]", "[0,4,4]"), "abcd"), "data_offsets must be two numbers but are more"},
      {"negative", assemble(x("F32", "[1]", "[-4,0]"), "abcd"), "data_offsets must hold whole numbers"},
      {"out of range", assemble(x("F32", "[1]", "[4,8]"), "abcd"), "'x': it ends at byte 8 of the data, which has"},
      {"at the end of numbers", assemble(x("F32", "[1]", "[18446744073709551611,18446744073709551615]"), "abcd"),
       "it ends at byte 18446744073709551615"},
      {"overlapping", assemble(two("[0,2]", "[1,3]"), "abc"), "'y': it starts at byte 1 of the data but must start at"},
      {"the same", assemble(two("[0,2]", "[0,2]"), "ab"), "tensors must not overlap"},
      {"a hole", assemble(two("[0,2]", "[3,5]"), "abcde"), "tensors must not leave holes"},
      {"a hole before the first", assemble(x("U8", "[2]", "[1,3]"), "abc"), "'x': it starts at byte 1 of the data but"},
      {"nothing inside something",
       assemble("{\"x\":" + tensor("U8", "[2]", "[0,2]") + both + tensor("U8", "[0]", "[1,1]") + "}", "ab"),
       "'y': it starts at byte 1 of the data but must start at 2"},
      {"a tensor twice", assemble("{\"x\":{" + fields + "},\"x\":{" + fields + "}}"), "'x': it stands twice"},
      {"a field twice", assemble("{\"x\":{" + fields + R"(,"shape":[0]}})"), "'x': shape stands twice"},
      {"a name twice, written differently", assemble("{\"x\":{" + fields + R"(},"\u0078":{)" + fields + "}}"),
       "'x': it stands twice"},
      {"metadata twice", assemble(R"({"__metadata__":{},"__metadata__":{}})"), "__metadata__ stands twice"},
      {"a key of metadata twice", assemble(R"({"__metadata__":{"a":"1","a":"2"}})"), "__metadata__ names 'a' twice"},
  };
}

class DamagedFile : public FolderTest {
 protected:
  // Both from memory and from a file.
  void expect_refused(const std::vector<Damage>& damages) const {
    for (const auto& damage : damages) {
      const auto path = folder_ / "damaged.safetensors";
      put(path, damage.file);
      const auto from_memory = error_of([&] { parse(bytes_of(damage.file)); });
      const auto from_file = error_of([&] { File file(path); });
      EXPECT_NE(from_memory.find(damage.sentence), std::string::npos) << damage.what << "\n" << from_memory;
      EXPECT_TRUE(from_memory.starts_with("[safetensors] the buffer: ")) << damage.what << "\n" << from_memory;
      EXPECT_NE(from_file.find(damage.sentence), std::string::npos) << damage.what << "\n" << from_file;
      EXPECT_TRUE(from_file.starts_with("[safetensors] " + path.string() + ": ")) << damage.what << "\n" << from_file;
    }
  }
};

TEST_F(DamagedFile, WithAWrongLengthIsRefused) { expect_refused(damaged_frames()); }
TEST_F(DamagedFile, WithAHeaderThatIsNotJsonIsRefused) { expect_refused(damaged_json()); }
TEST_F(DamagedFile, WithFieldsOfAWrongKindIsRefused) { expect_refused(damaged_fields()); }
TEST_F(DamagedFile, WithTensorsInTheWrongPlaceOrTwiceIsRefused) { expect_refused(damaged_offsets()); }

TEST(DamagedBuffer, CutAnywhereIsRefused) {
  const auto file = python_file();
  for (size_t length = 0; length < file.size(); ++length) {
    EXPECT_NE(error_of([&] { parse(bytes_of(file.substr(0, length))); }), "no error") << length;
  }
}

TEST(DamagedBuffer, AMessageShowsOnlyTheStartOfALongNameAndNoControlCharacters) {
  const auto message =
      error_of([] { parse(bytes_of(assemble("{\"\\u001b[2J" + repeated("\u00e9", 100'000) + "\":1}"))); });
  EXPECT_NE(message.find("tensor '?[2J\u00e9"), std::string::npos) << message;
  EXPECT_NE(message.find("\u00e9...': it must be an object"), std::string::npos) << message;
  EXPECT_LT(message.size(), 300);
}

TEST_F(DamagedFile, ThatIsNotThereOrNoFileSaysSo) {
  const auto open = [](const std::filesystem::path& path) { return error_of([&] { File file(path); }); };
  EXPECT_NE(open(folder_ / "none").find("none: cannot open: No such file"), std::string::npos);
  EXPECT_NE(open(folder_).find("is a folder or a device"), std::string::npos);
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_NE(open(folder_ / "pipe").find("is a folder or a device"), std::string::npos) << "or waits forever";
}

TEST_F(DamagedFile, CutShorterWhileItIsReadSaysSo) {
  put(folder_ / "f", assemble(x("F32", "[1]", "[0,4]"), "abcd"));
  const File file(folder_ / "f");
  std::filesystem::resize_file(folder_ / "f", 60);
  std::array<std::byte, 4> bytes{};
  EXPECT_NE(error_of([&] { file.read("x", bytes); }).find("became shorter while it was read"), std::string::npos);
}

TEST_F(DamagedFile, WithABoolThatIsNeitherFalseNorTrueIsRefused) {
  put(folder_ / "f", assemble(x("BOOL", "[2]", "[0,2]"), "\x01\x02"));
  const File file(folder_ / "f");
  std::array<std::byte, 2> bytes{};
  EXPECT_NE(error_of([&] { file.read("x", bytes); }).find("'x': bytes of a BOOL must be 0 or 1"), std::string::npos);
}

}  // namespace
}  // namespace frn::safetensors
