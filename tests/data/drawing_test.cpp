// Pictures for people: boxes where they belong, and PNG files that others can read.
#include "frn/data/drawing.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "frn/core/error.h"
#include "frn/data/decode.h"

namespace frn::data {
namespace {

Image grey(int64_t height, int64_t width) {
  return {{height, width}, 1, std::vector<uint8_t>(static_cast<size_t>(height * width), 90)};
}

Colour pixel(const Image& image, int64_t y, int64_t x) {
  Colour out{};
  std::copy_n(image.pixels.begin() + 3 * (y * image.size.width + x), 3, out.begin());
  return out;
}

TEST(Drawing, ABoxIsAFrameOfItsColour) {
  const Colour red{255, 0, 0};
  const auto image = drawn(grey(40, 60), {{.left = 10, .top = 5, .right = 30, .bottom = 25, .colour = red}});
  EXPECT_EQ(image.channels, 3);
  for (const auto& [y, x] : {std::pair<int64_t, int64_t>{5, 10}, {5, 29}, {24, 10}, {15, 10}, {24, 29}}) {
    EXPECT_EQ(pixel(image, y, x), red) << y << ", " << x;
  }
  EXPECT_EQ(pixel(image, 15, 20), (Colour{90, 90, 90}));
  EXPECT_EQ(pixel(image, 4, 10), (Colour{90, 90, 90}));
  EXPECT_EQ(pixel(image, 25, 10), (Colour{90, 90, 90}));
}

TEST(Drawing, WhatLiesOutsideTheImageIsCutOff) {
  const auto image = drawn(grey(20, 20), {{-100, -5, 1000, 30, "a long name that does not fit at all", {0, 0, 255}},
                                          {50, 50, 60, 60, "x", {0, 255, 0}}});
  EXPECT_EQ(image.pixels.size(), 20U * 20 * 3);
}

TEST(Drawing, ATextIsWrittenOnABarOfTheBoxsColour) {
  const Colour yellow{240, 228, 66};
  const auto plain = drawn(grey(60, 200), {{20, 30, 180, 55, "", yellow}});
  const auto named = drawn(grey(60, 200), {{20, 30, 180, 55, "cat 97%", yellow}});
  EXPECT_NE(plain.pixels, named.pixels);
  int64_t ink = 0;
  for (int64_t y = 0; y < 30; ++y) {
    for (int64_t x = 0; x < 200; ++x) ink += pixel(named, y, x) == Colour{0, 0, 0} ? 1 : 0;
  }
  EXPECT_GT(ink, 30);  // dark letters on a light ground
}

TEST(Drawing, AnyBytesCanBeAName) {
  const std::string strange = "\xff\xfe caf\xc3\xa9 \x01\n";
  EXPECT_NO_THROW(drawn(grey(40, 40), {{5, 20, 30, 35, strange, {1, 2, 3}}}));
}

TEST(Drawing, APngComesBackAsItWas) {
  auto image = drawn(grey(17, 23), {{2, 2, 9, 9, "", {10, 200, 30}}});
  const auto text = to_png(image);
  Bytes bytes(text.size());
  std::copy(text.begin(), text.end(), bytes.span().begin());
  const auto source = open_image(std::move(bytes), "drawn");
  ASSERT_EQ(source->size(), image.size);
  EXPECT_EQ(source->read({0, 0, 17, 23}, image.size).pixels, image.pixels);
  EXPECT_THROW(to_png({}), Error);
}

TEST(Drawing, TwoImagesStandBesideEachOther) {
  const auto left = drawn(grey(10, 6), {});
  const auto right = drawn(grey(10, 8), {{0, 0, 8, 10, "", {255, 0, 0}}});
  const auto both = side_by_side(left, right);
  EXPECT_EQ(both.size, (Size{10, 18}));
  EXPECT_EQ(pixel(both, 5, 5), (Colour{90, 90, 90}));
  EXPECT_EQ(pixel(both, 5, 7), (Colour{255, 255, 255}));
  EXPECT_EQ(pixel(both, 5, 10), (Colour{255, 0, 0}));
  EXPECT_THROW(side_by_side(left, drawn(grey(11, 8), {})), Error);
}

}  // namespace
}  // namespace frn::data
