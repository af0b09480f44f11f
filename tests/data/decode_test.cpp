#include "frn/data/decode.h"

#include <gtest/gtest.h>

#include "frn/core/error.h"
#include "frn/core/random.h"
#include "tests/data/made_images.h"

namespace frn::data {
namespace {

Image read_all(const ImageSource& source) {
  return source.read({0, 0, source.size().height, source.size().width}, source.size());
}

Image part_of(const Image& image, const Region& region) {
  Image part{{region.height, region.width}, image.channels, {}};
  for (int64_t row = region.top; row < region.top + region.height; ++row) {
    const auto* from = image.pixels.data() + (row * image.size.width + region.left) * image.channels;
    part.pixels.insert(part.pixels.end(), from, from + region.width * image.channels);
  }
  return part;
}

std::string complaint(const std::string& file) {
  try {
    read_all(*open_image(bytes_of(file), "some file"));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Png, EveryPixelComesBack) {
  for (const int64_t channels : {1, 3}) {
    for (const bool interlaced : {false, true}) {
      const auto image = made_image({37, 51}, channels);
      const auto source = open_image(bytes_of(to_png(image, interlaced)), "png");
      EXPECT_EQ(source->size(), image.size);
      const auto whole = read_all(*source);
      EXPECT_EQ(whole.channels, channels);
      EXPECT_EQ(whole.pixels, image.pixels);
      const Region region{5, 7, 20, 31};
      EXPECT_EQ(source->read(region, {1, 1}).pixels, part_of(image, region).pixels);
    }
  }
}

// Bitwise and everywhere, borders included. 4:4:4, 4:2:2, 4:4:0, 4:2:0, and two kinds that are decoded in full width.
TEST(Jpeg, ARegionIsThePartOfTheWhole) {
  const Size size{119, 175};
  const auto image = made_image(size, 3);
  Random random(RandomKey(1));
  for (const auto& [h, v] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {1, 4}}) {
    for (const bool progressive : {false, true}) {
      const auto source = open_image(bytes_of(to_jpeg(image, {h, v, progressive})), "jpeg");
      const auto whole = read_all(*source);
      for (int i = 0; i < 40; ++i) {
        const int64_t height = 1 + random.below(size.height);
        const int64_t width = 1 + random.below(size.width);
        const Region region{random.below(size.height - height + 1), random.below(size.width - width + 1), height,
                            width};
        const auto part = source->read(region, {height, width});
        ASSERT_EQ(part.pixels, part_of(whole, region).pixels)
            << h << "x" << v << " " << region.top << " " << region.left << " " << height << " " << width;
      }
    }
  }
}

TEST(Jpeg, IsScaledDownByTheLargestPowerOfTwoThatLeavesEnough) {
  const auto source = open_image(bytes_of(to_jpeg(made_image({200, 300}, 3), {})), "jpeg");
  const Region region{10, 20, 160, 240};
  const auto size_for = [&](const Size& enough) { return source->read(region, enough).size; };
  EXPECT_EQ(size_for({81, 1}), (Size{160, 240}));
  EXPECT_EQ(size_for({80, 120}), (Size{80, 120}));
  EXPECT_EQ(size_for({80, 121}), (Size{160, 240}));
  EXPECT_EQ(size_for({40, 60}), (Size{40, 60}));
  EXPECT_EQ(size_for({1, 1}), (Size{20, 30})) << "8 is the largest reduction there is";
  EXPECT_EQ(source->read({0, 0, 1, 1}, {1, 1}).size, (Size{1, 1}));
}

TEST(Jpeg, GreyStaysGrey) {
  const auto image = read_all(*open_image(bytes_of(to_jpeg(made_image({20, 20}, 1), {})), "jpeg"));
  EXPECT_EQ(image.channels, 1);
  EXPECT_EQ(image.pixels.size(), 400U);
}

TEST(Image, ARegionOutsideIsAnError) {
  const auto source = open_image(bytes_of(to_png(made_image({10, 12}, 3), false)), "png");
  for (const Region& region : {Region{0, 0, 11, 1}, {0, 0, 1, 13}, {-1, 0, 5, 5}, {0, 0, 0, 5}, {10, 0, 1, 1}}) {
    EXPECT_THROW(source->read(region, {1, 1}), Error);
  }
}

TEST(Image, SaysWhatADamagedFileIs) {
  EXPECT_NE(complaint("").find("but is empty"), std::string::npos);
  EXPECT_NE(complaint("GIF89a").find("does not start as one"), std::string::npos);
  for (const bool progressive : {false, true}) {
    const auto jpeg = to_jpeg(made_image({64, 64}, 3), {2, 2, progressive});
    EXPECT_NE(complaint(jpeg.substr(0, jpeg.size() / 2)).find("some file: it is broken: Premature end"),
              std::string::npos);
    EXPECT_NE(complaint(jpeg.substr(0, 100)), "");
  }
  auto png = to_png(made_image({64, 64}, 3), false);
  EXPECT_NE(complaint(png.substr(0, png.size() / 2)).find("ends too early"), std::string::npos);
  png[png.size() / 2] ^= 0x55;
  EXPECT_NE(complaint(png).find("it is broken"), std::string::npos);
}

// A JPEG whose middle was overwritten decodes to something; a warning of the decoder is enough to call it broken.
TEST(Image, DamageWithinAJpegIsSeen) {
  auto jpeg = to_jpeg(made_image({64, 64}, 3), {});
  for (size_t i = jpeg.size() / 2; i < jpeg.size() / 2 + 40; ++i) jpeg[i] = static_cast<char>(0xff);
  EXPECT_NE(complaint(jpeg), "");
}

TEST(Image, MorePixelsThanTheLimitAreRefusedByTheHeaderAlone) {
  EXPECT_THROW(check_pixels({13'378, 13'378}, "x"), Error);
  EXPECT_NO_THROW(check_pixels({13'377, 13'377}, "x"));
  EXPECT_THROW(check_pixels({int64_t{1} << 40, int64_t{1} << 40}, "x"), Error);
  EXPECT_THROW(check_pixels({0, 5}, "x"), Error);
}

}  // namespace
}  // namespace frn::data
