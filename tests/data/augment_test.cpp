#include "frn/data/augment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "frn/data/pipeline.h"
#include "tests/data/fake_set.h"

namespace frn::data {
namespace {

TEST(InceptionCrop, LiesWithinTheImageWithTheSidesAndAreasPromised) {
  const Size size{300, 400};
  double area = 0;
  double logarithm = 0;
  double middle = 0;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) {
    Random random{RandomKey(static_cast<uint64_t>(i))};
    const Region region = draw_inception_crop(size, random);
    check_region(region, size);
    const double share = static_cast<double>(region.height * region.width) / (300.0 * 400.0);
    const double shape = static_cast<double>(region.width) / static_cast<double>(region.height);
    ASSERT_GE(share, 0.08 * 0.98);  // sides are rounded to pixels
    ASSERT_LE(share, 1);
    ASSERT_GE(shape, 3.0 / 4 * 0.98);
    ASSERT_LE(shape, 4.0 / 3 * 1.02);
    area += share / kDraws;
    logarithm += std::log(shape) / kDraws;
    middle += (static_cast<double>(region.left) + static_cast<double>(region.width) / 2) / 400 / kDraws;
  }
  // Large crops of the wrong shape do not fit and are drawn again, so the mean is below 0.54 and landscape is likelier.
  // Deviations of single draws are below 0.3, 0.2 and 0.3: six standard errors of a mean are 0.013.
  EXPECT_GT(area, 0.40);
  EXPECT_LT(area, 0.54);
  EXPECT_GT(logarithm, -0.013);
  EXPECT_NEAR(middle, 0.5, 0.013);
}

// Sides of a crop differ by less than 80 pixels; their deviation is below 50.
TEST(InceptionCrop, TreatsHeightAndWidthAlike) {
  double difference = 0;
  for (uint64_t i = 0; i < 20000; ++i) {
    Random random{RandomKey(i)};
    const Region region = draw_inception_crop({256, 256}, random);
    difference += static_cast<double>(region.width - region.height) / 20000;
  }
  EXPECT_NEAR(difference, 0, 6 * 50 / std::sqrt(20000.0));
}

TEST(InceptionCrop, TakesTheMiddleOfWhatIsTooNarrow) {
  Random random{RandomKey(1)};
  EXPECT_EQ(draw_inception_crop({1000, 10}, random), (Region{493, 0, 13, 10}));
  EXPECT_EQ(draw_inception_crop({10, 1000}, random), (Region{0, 493, 10, 13}));
  EXPECT_EQ(draw_inception_crop({1, 1}, random), (Region{0, 0, 1, 1}));
}

TEST(DetectionCrop, LiesWithinTheImageWithTheSidesAndAreasPromised) {
  for (const Size& size : {Size{480, 640}, Size{640, 480}, Size{101, 103}}) {
    int whole = 0;
    double left = 0;
    double top = 0;
    constexpr int kDraws = 5000;
    for (int i = 0; i < kDraws; ++i) {
      Random random{RandomKey(static_cast<uint64_t>(i))};
      const Region region = draw_detection_crop(size, random);
      check_region(region, size);
      const double area = static_cast<double>(region.height * region.width);
      const double shape = static_cast<double>(region.width) / static_cast<double>(region.height);
      ASSERT_GE(area / static_cast<double>(size.height * size.width), 0.75);
      ASSERT_GE(shape, 0.75 * 0.98);  // widths are rounded to pixels
      ASSERT_LE(shape, 3 * 1.02);
      whole += region == Region{0, 0, size.height, size.width} ? 1 : 0;
      left += static_cast<double>(region.left) / static_cast<double>(size.width - region.width + 1) / kDraws;
      top += static_cast<double>(region.top) / static_cast<double>(size.height - region.height + 1) / kDraws;
    }
    EXPECT_LT(whole, kDraws / 100);
    // Places from 0 to below 1; on average half a step below the middle, and steps are at least 1 of 2 (no room).
    EXPECT_NEAR(left, 0.5, 0.2);
    EXPECT_NEAR(top, 0.5, 0.2);
  }
}

TEST(DetectionCrop, TakesTheWholeOfWhatIsTooNarrow) {
  Random random{RandomKey(1)};
  EXPECT_EQ(draw_detection_crop({1000, 10}, random), (Region{0, 0, 1000, 10}));
  EXPECT_EQ(draw_detection_crop({10, 1000}, random), (Region{0, 0, 10, 1000}));
  EXPECT_EQ(draw_detection_crop({1, 1}, random), (Region{0, 0, 1, 1}));
}

TEST(ColourChange, IsDrawnFromTheRangesOfInception) {
  std::map<int, int> orders;
  for (uint64_t i = 0; i < 4000; ++i) {
    Random random{RandomKey(i)};
    const auto change = draw_colour_change(random);
    EXPECT_LE(std::abs(change.brightness), 32.0F / 255);
    EXPECT_LE(std::abs(change.hue), 0.2F);
    for (const float factor : {change.saturation, change.contrast}) {
      EXPECT_GE(factor, 0.5F);
      EXPECT_LE(factor, 1.5F);
    }
    ++orders[static_cast<int>(change.order[0])];
  }
  ASSERT_EQ(orders.size(), 4U);
  for (const auto& [first, count] : orders) EXPECT_NEAR(count, 1000, 170);  // six standard deviations
}

ColourChange only(float brightness, float saturation, float hue, float contrast) {
  return {{ColourStep::kBrightness, ColourStep::kSaturation, ColourStep::kHue, ColourStep::kContrast},
          brightness,
          saturation,
          hue,
          contrast};
}

std::array<float, 3> changed(const ColourChange& change, std::array<float, 3> pixel) {
  const std::span<float> values(pixel);
  change_colours(change, values.first(1), values.subspan(1, 1), values.last(1));
  return pixel;
}

TEST(ColourChange, ThirdTurnsOfTheHueExchangeChannels) {
  const std::array<float, 3> pixel{0.75F, 0.25F, 0.5F};
  const auto forwards = changed(only(0, 1, 1.0F / 3, 1), pixel);
  const auto backwards = changed(only(0, 1, -1.0F / 3, 1), pixel);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(forwards[(i + 1) % 3], pixel[i], 1e-6);
    EXPECT_NEAR(backwards[i], pixel[(i + 1) % 3], 1e-6);
  }
}

TEST(ColourChange, SaturationKeepsTheLargestChannelAndStopsAtPureColour) {
  const auto half = changed(only(0, 0.5F, 0, 1), {0.8F, 0.4F, 0.6F});
  EXPECT_NEAR(half[0], 0.8, 1e-6);
  EXPECT_NEAR(half[1], 0.6, 1e-6);
  EXPECT_NEAR(half[2], 0.7, 1e-6);
  const auto pure = changed(only(0, 1.5F, 0, 1), {0.8F, 0.1F, 0.1F});
  EXPECT_NEAR(pure[1], 0, 1e-6);
  EXPECT_EQ(changed(only(0, 1.5F, 0, 1), {0, 0, 0}), (std::array<float, 3>{0, 0, 0}));
}

TEST(ColourChange, GreyHasNoHueAndEveryResultIsWithinTheUnit) {
  const auto grey = changed(only(0, 1.4F, 0.17F, 1), {0.4F, 0.4F, 0.4F});
  EXPECT_EQ(grey, (std::array<float, 3>{0.4F, 0.4F, 0.4F}));
  EXPECT_EQ(changed(only(0.5F, 1, 0, 1), {0.9F, 0.9F, 0.9F}), (std::array<float, 3>{1, 1, 1}));
  EXPECT_EQ(changed(only(-0.5F, 1, 0, 1), {0.1F, 0.1F, 0.1F}), (std::array<float, 3>{0, 0, 0}));
}

TEST(ColourChange, ContrastIsTheDistanceFromTheChannelsMean) {
  std::vector<float> red{0.25F, 0.75F};
  std::vector<float> green{0.5F, 0.5F};
  std::vector<float> blue{0, 1};
  change_colours(only(0, 1, 0, 0.5F), red, green, blue);
  EXPECT_EQ(red, (std::vector<float>{0.375F, 0.625F}));
  EXPECT_EQ(green, (std::vector<float>{0.5F, 0.5F}));
  EXPECT_EQ(blue, (std::vector<float>{0.25F, 0.75F}));
}

TEST(InceptionPipeline, IsAFunctionOfImageAndKey) {
  constexpr size_t kPlane = size_t{29} * 29;
  const MemorySource source(numbered_image(5, {60, 47}, 3));
  for (const bool colour : {false, true}) {
    const Pipeline pipeline{.augmentation = Augmentation::kInception, .colour = colour, .size = 29};
    const auto run = [&](uint64_t key, PixelLayout layout) {
      std::vector<float> out(3 * kPlane);
      pipeline.run(source, RandomKey(key), out, layout);
      return out;
    };
    const auto planes = run(1, PixelLayout::kPlanes);
    EXPECT_EQ(planes, run(1, PixelLayout::kPlanes));
    EXPECT_NE(planes, run(2, PixelLayout::kPlanes));
    const auto interleaved = run(1, PixelLayout::kInterleaved);
    for (size_t i = 0; i < kPlane; ++i) {
      for (size_t channel = 0; channel < 3; ++channel) {
        ASSERT_EQ(planes[channel * kPlane + i], interleaved[3 * i + channel]);
      }
    }
  }
}

// Every width: the ends of rows are written by other instructions than their middles.
TEST(Pixels, AFlipMirrorsEveryRow) {
  for (int64_t width = 1; width < 70; ++width) {
    const Image image = numbered_image(width, {2, width}, 3);
    const auto normalisation = make_normalisation({0.1F, 0.2F, 0.3F}, {0.5F, 0.6F, 0.7F}, 1.0 / 255);
    for (const auto layout : {PixelLayout::kPlanes, PixelLayout::kInterleaved}) {
      std::vector<float> plain(static_cast<size_t>(6 * width));
      std::vector<float> flipped(plain.size());
      write_normalised(image.pixels.data(), image.size, 3, false, normalisation, layout, plain);
      write_normalised(image.pixels.data(), image.size, 3, true, normalisation, layout, flipped);
      for (int64_t row = 0; row < 2; ++row) {
        for (int64_t x = 0; x < width; ++x) {
          for (int64_t c = 0; c < 3; ++c) {
            const auto at = [&](int64_t column) {
              const int64_t place =
                  layout == PixelLayout::kPlanes ? (c * 2 + row) * width + column : (row * width + column) * 3 + c;
              return static_cast<size_t>(place);
            };
            const auto channel = static_cast<size_t>(c);
            const auto byte = image.pixels[static_cast<size_t>((row * width + x) * 3 + c)];
            ASSERT_EQ(plain[at(x)],
                      static_cast<float>(byte) * normalisation.scale[channel] + normalisation.offset[channel]);
            ASSERT_EQ(flipped[at(width - 1 - x)], plain[at(x)]);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace frn::data
