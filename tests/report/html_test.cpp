// Pieces of a page hold what they are given, and nothing in it becomes markup.
#include "frn/report/html.h"

#include <gtest/gtest.h>
#include <array>

namespace frn::report::html {
namespace {

constexpr const char* kHostile = "<script>alert(\"1\")</script> & 'x'";

bool holds(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST(Html, EverySpecialCharacterIsEscaped) {
  EXPECT_EQ(escape(kHostile), "&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt; &amp; &#39;x&#39;");
  EXPECT_EQ(escape("größe – 1"), "größe – 1");
}

TEST(Html, NoPieceLetsTextBecomeMarkup) {
  for (const auto& piece :
       {table({{{kHostile}}, {{kHostile}}}), properties({{kHostile, kHostile}}), figure("<svg></svg>", "a", kHostile),
        paragraph(kHostile), section(kHostile, ""), page(kHostile, kHostile, "", kHostile)}) {
    EXPECT_FALSE(holds(piece, "<script>")) << piece;
    EXPECT_TRUE(holds(piece, "&lt;script&gt;")) << piece;
  }
}

TEST(Html, NumbersAreSetToTheRightAndSharesAreBars) {
  const auto text = table({{{"name"}, {"share", true}}, {{"a", Cell("43.00 %", 0.43)}, {"b", Cell("x", 7.0)}}});
  EXPECT_TRUE(holds(text, "<td>a</td><td class=\"number share\" style=\"background-size: 21.5% 70%\">43.00 %</td>"));
  EXPECT_TRUE(holds(text, "background-size: 50.0%")) << "a share is at most the whole";
}

TEST(Html, NamesInsideFiguresDoNotMeet) {
  const auto svg = R"(<?xml version="1.0"?><svg><g id="a"/><use xlink:href='#a' id='b' color='#ffffff'/></svg>)";
  EXPECT_TRUE(
      holds(figure(svg, "one", "c"), R"(<svg><g id="one-a"/><use xlink:href='#one-a' id='one-b' color='#ffffff'/>)"));
  EXPECT_FALSE(holds(figure(svg, "one", "c"), "<?xml"));
}

TEST(Html, APictureIsInsideThePageAsRfc4648WritesIt) {
  const std::array<std::pair<std::string_view, std::string_view>, 5> cases{
      {{"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"\xff\xfe", "//4="}}};
  for (const auto& [bytes, letters] : cases) {
    EXPECT_TRUE(holds(picture(bytes, "a \"c\""), "base64," + std::string(letters) + "\"")) << letters;
  }
  EXPECT_FALSE(holds(picture("f", "a \"c\""), "\"c\""));
}

TEST(Html, APageFitsNarrowScreensAndBothSchemes) {
  const auto text = page("t", "s", "", "f");
  EXPECT_TRUE(holds(text, "<!DOCTYPE html>"));
  EXPECT_TRUE(holds(text, "width=device-width"));
  EXPECT_TRUE(holds(text, "prefers-color-scheme: dark"));
  EXPECT_FALSE(holds(text, "http")) << "it asks the network for nothing";
}

}  // namespace
}  // namespace frn::report::html
