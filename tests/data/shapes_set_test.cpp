// The made set of shapes: boxes that lie where the pixels are, and images that follow from their index.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "frn/data/check.h"
#include "frn/data/dataset.h"
#include "tests/core/files.h"

namespace frn::data {
namespace {

std::shared_ptr<const Dataset> open(const std::string& name, Split split = Split::kTrain) {
  return open_dataset(parse_data_name(name), split);
}

Image read(const Dataset& set, int64_t index) {
  const auto source = set.open(index);
  return source->read({0, 0, source->size().height, source->size().width}, source->size());
}

// The median of a row's values outside a box: the ground there, but for noise.
int ground_of(const Image& image, int64_t row, int64_t channel, const Box& box) {
  std::vector<int> values;
  for (int64_t x = 0; x < image.size.width; ++x) {
    if (static_cast<double>(x) >= box.left && static_cast<double>(x) < box.right) continue;
    values.push_back(image.pixels[static_cast<size_t>((row * image.size.width + x) * 3 + channel)]);
  }
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// The box around everything that is not ground. Noise is up to 24, the contrast of shapes at least 110 - 30 - 24.
Box found_box(const Image& image, const Box& box) {
  Box found{1e9, 1e9, -1, -1, box.label};
  for (int64_t y = 0; y < image.size.height; ++y) {
    const std::array ground{ground_of(image, y, 0, box), ground_of(image, y, 1, box), ground_of(image, y, 2, box)};
    for (int64_t x = 0; x < image.size.width; ++x) {
      int most = 0;
      for (size_t c = 0; c < 3; ++c) {
        const auto place = static_cast<size_t>((y * image.size.width + x) * 3) + c;
        most = std::max(most, std::abs(image.pixels[place] - ground[c]));
      }
      if (most < 48) continue;
      found.left = std::min(found.left, static_cast<double>(x));
      found.top = std::min(found.top, static_cast<double>(y));
      found.right = std::max(found.right, static_cast<double>(x + 1));
      found.bottom = std::max(found.bottom, static_cast<double>(y + 1));
    }
  }
  return found;
}

TEST(Shapes, ABoxLiesExactlyAroundItsPixels) {
  const auto set = open("shapes");
  std::set<int64_t> seen;
  int alone = 0;
  for (int64_t i = 0; i < 200; ++i) {
    const auto boxes = set->target(i).boxes;
    if (boxes.size() != 1) continue;
    ++alone;
    seen.insert(boxes[0].label);
    EXPECT_EQ(found_box(read(*set, i), boxes[0]), boxes[0]) << i;
  }
  EXPECT_GT(alone, 10);
  EXPECT_EQ(seen.size(), 3U);
}

TEST(Shapes, AreFewManyOrNoneOfManySizes) {
  const auto set = open("shapes");
  ASSERT_EQ(set->size(), 1000);
  EXPECT_TRUE(set->has_boxes());
  EXPECT_EQ(set->classes(), (std::vector<std::string>{"disc", "square", "triangle"}));
  std::vector<int> counts(7);
  std::vector<int> labels(3);
  double smallest = 1e9;
  double largest = 0;
  int overlapping = 0;
  for (int64_t i = 0; i < set->size(); ++i) {
    const auto target = set->target(i);
    ++counts.at(target.boxes.size());
    ASSERT_EQ(target.truths.size(), target.boxes.size());
    EXPECT_EQ(target.image_id, i + 1);
    for (size_t k = 0; k < target.boxes.size(); ++k) {
      const auto& box = target.boxes[k];
      const auto& truth = target.truths[k];
      EXPECT_EQ(box, (Box{truth.left, truth.top, truth.left + truth.width, truth.top + truth.height, truth.label}));
      EXPECT_EQ(truth.area, truth.width * truth.height);
      EXPECT_TRUE(box.left >= 0 && box.top >= 0 && box.right <= 128 && box.bottom <= 128);
      ++labels.at(static_cast<size_t>(box.label));
      smallest = std::min(smallest, truth.width);
      largest = std::max(largest, truth.width);
      for (size_t other = 0; other < k; ++other) {
        const auto& b = target.boxes[other];
        overlapping += box.left < b.right && b.left < box.right && box.top < b.bottom && b.top < box.bottom ? 1 : 0;
      }
    }
  }
  for (const int count : counts) EXPECT_GT(count, 50);
  EXPECT_LT(*std::max_element(labels.begin(), labels.end()), 1.2 * *std::min_element(labels.begin(), labels.end()));
  EXPECT_LT(smallest, 14);
  EXPECT_GT(largest, 50);
  EXPECT_GT(overlapping, 100);
}

TEST(Shapes, FollowFromTheIndexAndTheSplit) {
  const auto set = open("shapes");
  const auto validation = open("shapes", Split::kValidation);
  EXPECT_EQ(validation->size(), 200);
  const auto image = read(*set, 3);
  EXPECT_EQ(read(*open("shapes"), 3).pixels, image.pixels);
  EXPECT_NE(read(*set, 4).pixels, image.pixels);
  EXPECT_NE(read(*validation, 3).pixels, image.pixels);
  EXPECT_NE(validation->target(3).boxes, set->target(3).boxes);
  EXPECT_EQ(read(*open("shapes:128x3x7"), 3).pixels, image.pixels) << "the number of images changes none of them";
  const auto part = set->open(3)->read({20, 30, 10, 5}, {1, 1});
  constexpr ptrdiff_t kPlace = 20 * 128 + 30;
  const auto begin = image.pixels.begin() + 3 * kPlace;
  EXPECT_TRUE(std::equal(part.pixels.begin(), part.pixels.begin() + 15, begin));
  // The same on every machine.
  EXPECT_EQ(std::accumulate(image.pixels.begin(), image.pixels.end(), int64_t{0}), 6'607'368);
}

TEST(Shapes, AreOfTheSizeClassesAndNumberThatTheNameSays) {
  const auto set = open("shapes:64x2x10");
  EXPECT_EQ(set->size(), 10);
  EXPECT_EQ(open("shapes:64x2x10", Split::kValidation)->size(), 2);
  EXPECT_EQ(open("shapes:64x2x1", Split::kValidation)->size(), 1);
  EXPECT_EQ(set->facts().image_size, 64);
  EXPECT_EQ(set->facts().augmentation, Augmentation::kDetection);
  EXPECT_EQ(set->open(0)->size(), (Size{64, 64}));
  EXPECT_EQ(set->classes(), (std::vector<std::string>{"disc", "square"}));
  for (const auto* name : {"shapes:x", "shapes:64", "shapes:64x1001x10", "shapes:64x0x10", "shapes:31x3x10",
                           "shapes:64x3x0", "shapes:64x3x10x", "shapes:64x3x10 "}) {
    EXPECT_NE(error_of([&] { open(name); }).find("stands SIZExCLASSESxIMAGES"), std::string::npos) << name;
  }
}

TEST(Shapes, OfManyClassesHaveTheirOwnColours) {
  const auto set = open("shapes:64x80x400");
  EXPECT_EQ(std::set(set->classes().begin(), set->classes().end()).size(), 80U);
  EXPECT_EQ(set->classes()[4], "square 2");
  std::map<int64_t, std::array<int, 3>> colours;  // of squares, at their middle, give or take the noise
  for (int64_t i = 0; i < set->size(); ++i) {
    const auto target = set->target(i);
    if (target.boxes.size() != 1) continue;
    const auto& box = target.boxes[0];
    ASSERT_LT(box.label, 80);
    if (box.label < 3) continue;
    const auto image = read(*set, i);
    const auto x = static_cast<size_t>((box.left + box.right) / 2);
    const auto y = static_cast<size_t>((box.top + box.bottom) / 2);
    std::array<int, 3> colour{};
    for (size_t c = 0; c < 3; ++c) colour[c] = image.pixels[(y * 64 + x) * 3 + c];
    const auto [place, is_new] = colours.emplace(box.label, colour);
    for (size_t c = 0; c < 3; ++c) EXPECT_NEAR(place->second[c], colour[c], 2 * 24) << box.label;
  }
  EXPECT_GT(colours.size(), 20U);
}

TEST(Shapes, ACheckCountsBoxes) {
  const auto set = open("shapes:64x3x50");
  const auto report = check_dataset(*set, 2);
  EXPECT_TRUE(report.has_boxes);
  EXPECT_EQ(report.images, 50);
  EXPECT_TRUE(report.broken.empty());
  int64_t boxes = 0;
  int64_t empty = 0;
  for (int64_t i = 0; i < 50; ++i) {
    boxes += static_cast<int64_t>(set->target(i).boxes.size());
    empty += set->target(i).boxes.empty() ? 1 : 0;
  }
  EXPECT_EQ(std::accumulate(report.per_class.begin(), report.per_class.end(), int64_t{0}), boxes);
  EXPECT_EQ(report.without_boxes, empty);
}

}  // namespace
}  // namespace frn::data
