// A file read as a stream is told of in its order, and what is not wanted is passed over, wherever pieces end.
#include "frn/core/json_stream.h"

#include "frn/core/value.h"
#include "tests/core/files.h"

namespace frn {
namespace {

// Writes down what it is told. Keys that begin with "no" are not wanted.
class Scribe : public JsonHandler {
 public:
  void begin_table() override { told += "{"; }
  bool key(std::string_view name) override {
    if (name.starts_with("no")) return false;
    told += std::string(name) + ":";
    return true;
  }
  void end_table() override { told += "}"; }
  void begin_list() override { told += "["; }
  void end_list() override { told += "]"; }
  void null() override { told += "null "; }
  void flag(bool flag) override { told += flag ? "true " : "false "; }
  void whole(int64_t number) override { told += std::to_string(number) + " "; }
  void number(double number) override { told += to_json(number) + " "; }
  void text(std::string_view text) override { told += "'" + std::string(text) + "' "; }

  std::string told;
};

class JsonStream : public FolderTest {
 protected:
  std::string told_of(std::string_view json) {
    put(folder_ / "file.json", json);
    Scribe scribe;
    read_json_file(folder_ / "file.json", "test", scribe);
    return scribe.told;
  }
  std::string error_for(std::string_view json) {
    return error_of([&] { told_of(json); });
  }
};

TEST_F(JsonStream, TellsOfEverythingInOrder) {
  EXPECT_EQ(told_of(R"( {"a": [1, -2, 0.5, "x", true, false, null], "b": {"c": {}}} )"),
            "{a:[1 -2 0.5 'x' true false null ]b:{c:{}}}");
  EXPECT_EQ(told_of("[9223372036854775807, 18446744073709551615]"), "[9223372036854775807 1.8446744073709552e+19 ]");
  EXPECT_EQ(told_of("5"), "5 ");
}

TEST_F(JsonStream, PassesOverWhatIsNotWanted) {
  for (const std::string value : {"1", "-1.5e3", "null", "true", R"("text")", R"("a\"b]}\\")", "[]", "{}",
                                  "[[1,2],[3]]", R"({"a":[{"b":"]"}]})"}) {
    EXPECT_EQ(told_of("{\"no\":" + value + ",\"a\":1}"), "{a:1 }") << value;
    EXPECT_EQ(told_of("{\"a\":1,\"no\" : " + value + " }"), "{a:1 }") << value;
    EXPECT_EQ(told_of("[{\"no\":\n" + value + "\n}]"), "[{}]") << value;
  }
  EXPECT_EQ(told_of(R"({"no": 1, "b": null})"), "{b:null }");
}

// The file is read in pieces of 2^18 bytes: every part of this stands once on their border.
TEST_F(JsonStream, DoesNotCareWherePiecesEnd) {
  const std::string json = R"([{"no":[["]",2.25],{"c":"\\"}],"a":1.25},{"no":"x\"y","b":"\u00e9","no2":17}])";
  for (size_t shift = 0; shift < json.size(); ++shift) {
    ASSERT_EQ(told_of(std::string((1 << 18) - shift, ' ') + json), "[{a:1.25 }{b:'\xc3\xa9' }]") << shift;
  }
  const std::string much(600'000, '7');
  EXPECT_EQ(told_of("{\"no\":[" + much + ",\"" + much + "\"],\"a\":2}"), "{a:2 }");
}

TEST_F(JsonStream, WhatIsNotJsonIsNamedWithItsPlace) {
  const auto path = (folder_ / "file.json").string();
  EXPECT_EQ(error_for("[1, 2"), "[test] " + path + ": not JSON at byte 5");
  EXPECT_EQ(error_for("[1, x]"), "[test] " + path + ": not JSON at byte 5");
  EXPECT_EQ(error_for(""), "[test] " + path + ": not JSON at byte 0");
  EXPECT_EQ(error_for(std::string(101, '[')), "[test] " + path + ": lists or tables in each other deeper than 100");
  for (const std::string json : {R"({"no")", R"({"no":)", R"({"no":[1)", R"({"no":"a)", R"({"no":1)", R"({"no" 1})",
                                 R"({"no":"a\)", R"({"no":[1}]})", "[NaN]", "[1e999]"}) {
    EXPECT_NE(error_for(json).find("not JSON at byte"), std::string::npos) << json;
  }
}

TEST_F(JsonStream, AFileThatCannotBeReadIsNamed) {
  Scribe scribe;
  EXPECT_EQ(error_of([&] { read_json_file(folder_ / "none", "test", scribe); }),
            "[test] " + (folder_ / "none").string() + ": cannot open: No such file or directory");
  EXPECT_EQ(error_of([&] { read_json_file(folder_, "test", scribe); }),
            "[test] " + folder_.string() + ": cannot read: Is a directory");
}

}  // namespace
}  // namespace frn
