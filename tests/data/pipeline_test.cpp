#include "frn/data/pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "frn/core/error.h"
#include "frn/data/pixels.h"
#include "tests/data/fake_set.h"

namespace frn::data {
namespace {

std::vector<float> run(const Pipeline& pipeline, const ImageSource& source, RandomKey key,
                       PixelLayout layout = PixelLayout::kPlanes) {
  std::vector<float> out(static_cast<size_t>(pipeline.channels * pipeline.size * pipeline.size));
  pipeline.run(source, key, out, layout);
  return out;
}

TEST(Pipeline, NormalisesEveryChannelByItsOwnMeanAndDeviation) {
  const MemorySource source(numbered_image(1, {2, 2}, 3));
  const Pipeline pipeline{.size = 2, .channels = 3, .mean = {0.1F, 0.2F, 0.3F}, .deviation = {1, 2, 4}};
  const auto planes = run(pipeline, source, RandomKey(0));
  const auto pixels = numbered_image(1, {2, 2}, 3).pixels;
  const auto interleaved = run(pipeline, source, RandomKey(0), PixelLayout::kInterleaved);
  for (size_t i = 0; i < 4; ++i) {
    for (size_t channel = 0; channel < 3; ++channel) {
      const double expected = (pixels[3 * i + channel] / 255.0 - pipeline.mean[channel]) / pipeline.deviation[channel];
      // Three roundings of values up to 1: scale, product, sum.
      EXPECT_NEAR(planes[channel * 4 + i], expected, 3 * 0x1p-24);
      EXPECT_EQ(planes[channel * 4 + i], interleaved[3 * i + channel]);
    }
  }
}

TEST(Pipeline, GreyBecomesThreeEqualChannelsAndColoursTheirLuma) {
  const MemorySource grey(numbered_image(3, {4, 4}, 1));
  const auto three = run({.size = 4, .channels = 3}, grey, RandomKey(0));
  EXPECT_TRUE(std::equal(three.begin(), three.begin() + 16, three.begin() + 16));
  EXPECT_TRUE(std::equal(three.begin(), three.begin() + 16, three.begin() + 32));
  const MemorySource red(Image{{1, 1}, 3, {255, 0, 0}});
  EXPECT_NEAR(run({.size = 1, .channels = 1}, red, RandomKey(0))[0], 76 / 255.0, 1e-7);  // 0.299*255 = 76.2
}

TEST(Pipeline, OtherChannelsThanOneOrThreeAreRefusedBeforeAnythingIsWritten) {
  for (const int64_t source_channels : {1, 3}) {
    const MemorySource source(numbered_image(1, {4, 4}, source_channels));
    for (const int64_t channels : {2, 4}) {
      EXPECT_THROW(run({.size = 4, .channels = channels}, source, RandomKey(0)), Error) << channels;
    }
  }
}

TEST(Pipeline, AnEvaluationCropOfAVeryLongImageIsRefusedNotAllocated) {
  const MemorySource source(numbered_image(1, {1, 20'000'000}, 1));
  EXPECT_THROW(run({.size = 64, .crop = 0.875, .channels = 1}, source, RandomKey(0)), Error);
}

TEST(Pipeline, EvaluationResizesTheWholeImage) {
  const Image image{{2, 2}, 1, {0, 100, 100, 200}};
  const auto out = run({.size = 4, .channels = 1}, MemorySource(image), RandomKey(0));
  EXPECT_NEAR(out[0], 0, 1e-7);
  EXPECT_NEAR(out[15], 200 / 255.0, 1e-7);
  EXPECT_NEAR(out[5], 50 / 255.0, 1e-7);  // a quarter of the way in both directions
}

// Every shift by up to size/8 with and without mirroring, and nothing else.
TEST(Pipeline, PadCropFlipGivesShiftsAndMirrorImagesWithBlackBorders) {
  const Image image = numbered_image(2, {8, 8}, 1);
  std::set<std::vector<float>> expected;
  for (int64_t down = -1; down <= 1; ++down) {
    for (int64_t right = -1; right <= 1; ++right) {
      std::vector<float> plain;
      for (int64_t row = 0; row < 8; ++row) {
        for (int64_t column = 0; column < 8; ++column) {
          const int64_t r = row - down;
          const int64_t c = column - right;
          const bool inside = r >= 0 && r < 8 && c >= 0 && c < 8;
          plain.push_back(inside ? static_cast<float>(image.pixels[static_cast<size_t>(r * 8 + c)]) *
                                       static_cast<float>(1.0 / 255)
                                 : 0.0F);
        }
      }
      expected.insert(plain);
      for (auto row = plain.begin(); row != plain.end(); row += 8) std::reverse(row, row + 8);
      expected.insert(plain);
    }
  }
  const Pipeline pipeline{.augmentation = Augmentation::kPadCropFlip, .size = 8, .channels = 1};
  std::set<std::vector<float>> seen;
  for (uint64_t key = 0; key < 1000; ++key) {
    seen.insert(run(pipeline, MemorySource(image), RandomKey(key)));
    ASSERT_EQ(run(pipeline, MemorySource(image), RandomKey(key)), run(pipeline, MemorySource(image), RandomKey(key)));
  }
  EXPECT_EQ(seen, expected);
}

}  // namespace
}  // namespace frn::data
