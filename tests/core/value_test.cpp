// What is written as JSON or TOML is read back the same, and what is neither is refused with its place.
#include "frn/core/value.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "frn/core/text.h"

namespace frn {
namespace {

Value sample() {
  return {{"text", "a \"b\"\n\\ ü"},
          {"whole", 9007199254740993},  // no double has it
          {"number", 0.1},
          {"flag", true},
          {"list", Value::list_of(std::vector<double>{1.0, 2.5})},
          {"table", {{"z", 1}, {"a", Value::empty_list()}}}};
}

template <typename Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const ValueError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Json, IsReadBackAsItWasWrittenAndInItsOrder) {
  EXPECT_EQ(parse_json(to_json(sample())), sample());
  EXPECT_EQ(parse_json(to_json(sample(), 2)), sample());
  EXPECT_EQ(to_json({{"z", 1}, {"a", nullptr}}), R"({"z":1,"a":null})");
}

TEST(Json, CannotFailForAText) {
  EXPECT_EQ(to_json({{"\xff", "a\xc3"}}), "{\"\xf4\x8f\xbf\xbf\":\"a\xf4\x8f\xbf\x83\"}");
  EXPECT_EQ(to_json(std::nan("")), "null");
  EXPECT_EQ(to_json(-std::numeric_limits<double>::infinity()), "null");
}

// Well-formed, cut, too long, a surrogate, beyond Unicode, a zero, and the private characters that stand for bytes.
const std::vector<std::string> kNames{"",
                                      "plain",
                                      "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
                                      "caf\xe9",
                                      "\xc3",
                                      "\xe2\x82",
                                      "\xc0\xaf",
                                      "\xed\xa0\x80",
                                      "\xf4\x90\x80\x80",
                                      std::string("\0\x01\x7f\x80\xff\n", 6),
                                      "\xf4\x8f\xbf\xa9",
                                      "\xf4\x8f\xbe\x80\xe9"};

TEST(Json, AnyBytesComeBackAsTheyWere) {
  for (const auto& name : kNames) {
    const Value value{{name, name}};
    EXPECT_EQ(parse_json(to_json(value)), value) << to_json(value);
  }
}

TEST(Toml, AnyBytesComeBackAsTheyWere) {
  for (const auto& name : kNames) {
    const Value value{{"key", name}, {name + "x", 1}};
    EXPECT_EQ(parse_toml(to_toml_file(value)).at("key"), value.at("key")) << to_toml_file(value);
    EXPECT_EQ(parse_toml(to_toml_file(value)).at(name + "x"), Value(1)) << to_toml_file(value);
    EXPECT_EQ(parse_toml("key = " + to_toml(name)).at("key").as_text(), name) << to_toml(name);
  }
}

TEST(Json, NumbersKeepTheirKind) {
  EXPECT_EQ(parse_json("1").as_whole(), 1);
  EXPECT_EQ(parse_json("1.0").whole(), nullptr);
  EXPECT_EQ(parse_json("18446744073709551615").as_number(), 18446744073709551615.0);
  EXPECT_EQ(parse_json("-9223372036854775808").as_whole(), std::numeric_limits<int64_t>::min());
}

TEST(Json, WhatIsNoneIsRefusedWithItsPlace) {
  EXPECT_EQ(error_of([] { parse_json(R"({"a": )"); }), "not JSON at byte 7");
  for (const auto* text : {"", "{} {}", "[1,]", "{\"a\"}", "nul", "\"\xff\"", "1e999"}) {
    EXPECT_NE(error_of([&] { parse_json(text); }).find("not JSON at byte "), std::string::npos) << text;
  }
  EXPECT_NE(error_of([] { parse_json(std::string(100000, '[')); }).find("deeper than"), std::string::npos);
}

TEST(Toml, IsReadBackAsItWasWritten) {
  const auto written = sample();
  const auto again = parse_toml(to_toml_file(written));
  for (const auto& [key, value] : written.as_table()) EXPECT_EQ(to_toml(again[key]), to_toml(value)) << key;
  EXPECT_EQ(again["whole"].as_whole(), 9007199254740993);
  EXPECT_EQ(again["text"], sample()["text"]);
}

TEST(Toml, AFileKeepsTablesInTablesAndListsOfThem) {
  const Value value{
      {"a.b", 1},
      {"'''", "'''"},
      {"", {{"in", {{"x y", true}, {"none", Value::empty_table()}}}}},
      {"rows", Value::list_of(std::vector<Value>{Value{{"name", "r"}, {"sub", {{"k", -1.5}}}}, Value{{"name", "s"}}})},
      {"mixed", Value::list_of(std::vector<Value>{Value{{"t", 1}}, Value(2)})}};
  const auto again = parse_toml(to_toml_file(value));
  ASSERT_EQ(again.as_table().size(), value.as_table().size()) << to_toml_file(value);
  for (const auto& [key, entry] : value.as_table()) EXPECT_EQ(again[key], entry) << to_toml_file(value);
}

TEST(Toml, AValueIsOneLineWhateverIsInIt) {
  const Value value{{"a\nb", Value::list_of(std::vector<const char*>{"x\ny", "\t\x1b'\"\\", "\u0085\u00e9", "plain"})},
                    {"", Value::list_of(std::vector<double>(60, 0.001))}};
  const auto line = to_toml(value);
  EXPECT_FALSE(has_control_characters(line)) << line;
  EXPECT_EQ(parse_toml("v = " + line)["v"], value);
  EXPECT_EQ(to_toml(Value::list_of(std::vector<double>{0.01, 0.5})), "[ 0.01, 0.5 ]");
  EXPECT_EQ(to_toml("it is"), "'it is'");
}

TEST(Toml, IsInTheOrderOfTheFile) {
  const auto file = parse_toml("z = 1\na = 2\n[m]\nx = 1\n[b]\n");
  std::string order;
  for (const auto& [key, value] : file.as_table()) order += key;
  EXPECT_EQ(order, "zamb");
}

TEST(Toml, WhatIsNoneIsRefusedWithItsLine) {
  EXPECT_NE(error_of([] { parse_toml("a = 1\nb ="); }).find("line 2 is not TOML: "), std::string::npos);
  EXPECT_NE(error_of([] { parse_toml("a = 1\nb = 2020-01-01"); }).find("line 2 has a date"), std::string::npos);
  // What once ended the program, or made a message of two lines.
  for (const auto* text : {"[\n", "[[\n", "[a.\n", "a = i\n", "a = 1\x1b", "a =\u03e01", "\u00e9 = 1"}) {
    const auto error = error_of([&] { parse_toml(text); });
    EXPECT_TRUE(error.starts_with("line 1 is not TOML: ") && !has_control_characters(error)) << error;
  }
}

TEST(Value, SaysWhatIsMissingOrOfAnotherType) {
  EXPECT_EQ(error_of([] { sample().at("nothing"); }), "nothing is missing");
  EXPECT_EQ(error_of([] { sample().at("text").as_whole(); }), "must be a whole number but is a text");
  EXPECT_EQ(error_of([] { sample().at("number").as_whole(); }), "must be a whole number but is a number");
  EXPECT_EQ(sample().at("whole").number(), 9007199254740992.0);
  EXPECT_EQ(sample().at("table").find("y"), nullptr);
  EXPECT_EQ(sample().at("text").find("y"), nullptr);
}

}  // namespace
}  // namespace frn
