// Targets follow their images: what a box encloses before the pipeline it encloses afterwards.
#include "frn/data/target.h"

#include <gtest/gtest.h>

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "frn/data/batch.h"
#include "frn/data/pipeline.h"
#include "tests/core/files.h"
#include "tests/data/fake_set.h"

namespace frn::data {
namespace {

// Black but for a white rectangle.
Image with_rectangle(const Size& size, const Box& box) {
  Image image{size, 1, {}};
  for (int64_t y = 0; y < size.height; ++y) {
    for (int64_t x = 0; x < size.width; ++x) {
      const bool inside = static_cast<double>(x) >= box.left && static_cast<double>(x) < box.right &&
                          static_cast<double>(y) >= box.top && static_cast<double>(y) < box.bottom;
      image.pixels.push_back(inside ? 255 : 0);
    }
  }
  return image;
}

// The box around what is more white than black in the result.
Box box_of(const std::vector<float>& values, int64_t size) {
  Box box{1e9, 1e9, -1, -1};
  for (int64_t y = 0; y < size; ++y) {
    for (int64_t x = 0; x < size; ++x) {
      if (values[static_cast<size_t>(y * size + x)] < 0.5F) continue;
      box.left = std::min(box.left, static_cast<double>(x));
      box.top = std::min(box.top, static_cast<double>(y));
      box.right = std::max(box.right, static_cast<double>(x + 1));
      box.bottom = std::max(box.bottom, static_cast<double>(y + 1));
    }
  }
  return box;
}

// An edge of the white part lies within a pixel of the result of where the box says: half a pixel where it is cut into
// pixels, half by interpolation.
void expect_followed(const Pipeline& pipeline, const Size& size, const Box& box, int keys) {
  int seen = 0;
  for (int i = 0; i < keys; ++i) {
    std::vector<float> out(static_cast<size_t>(pipeline.size * pipeline.size));
    const auto geometry =
        pipeline.run(MemorySource(with_rectangle(size, box)), RandomKey(static_cast<uint64_t>(i)), out);
    EXPECT_EQ(geometry.source, size);
    EXPECT_EQ(geometry.result, (Size{pipeline.size, pipeline.size}));
    const auto target = moved({.boxes = {box}}, geometry);
    const auto found = box_of(out, pipeline.size);
    if (target.boxes.empty() || found.right < 0) continue;
    ++seen;
    const auto& expected = target.boxes[0];
    EXPECT_NEAR(found.left, expected.left, 1) << i;
    EXPECT_NEAR(found.top, expected.top, 1) << i;
    EXPECT_NEAR(found.right, expected.right, 1) << i;
    EXPECT_NEAR(found.bottom, expected.bottom, 1) << i;
  }
  EXPECT_GT(seen, keys / 2);
}

TEST(Target, FollowsEveryPipeline) {
  const Size size{48, 80};
  const Box box{.left = 20, .top = 12, .right = 52, .bottom = 30};
  expect_followed({.size = 40, .channels = 1}, size, box, 1);
  expect_followed({.size = 40, .crop = 0.875, .channels = 1}, size, box, 1);
  expect_followed({.augmentation = Augmentation::kPadCropFlip, .size = 40, .channels = 1}, size, box, 40);
  expect_followed({.augmentation = Augmentation::kInception, .size = 40, .channels = 1}, size, box, 100);
  expect_followed({.augmentation = Augmentation::kDetection, .size = 40, .channels = 1}, size, box, 100);
}

// Enlarged, an edge is seen where it is: half of it shines through up to half a pixel of the result away from it, and
// weights of 8-bit resizing are rounded.
TEST(Target, FollowsDetectionsCropsAndFlipsExactly) {
  const Size size{48, 80};
  const Box box{.left = 20, .top = 12, .right = 52, .bottom = 30};
  const Pipeline pipeline{.augmentation = Augmentation::kDetection, .size = 480, .channels = 1};
  const auto image = with_rectangle(size, box);
  int flips = 0;
  for (uint64_t key = 0; key < 50; ++key) {
    std::vector<float> out(static_cast<size_t>(pipeline.size * pipeline.size));
    const auto geometry = pipeline.run(MemorySource(image), RandomKey(key), out);
    const auto target = moved({.boxes = {box}}, geometry);
    const auto found = box_of(out, pipeline.size);
    ASSERT_EQ(target.boxes.size(), 1U);
    const auto& expected = target.boxes[0];
    EXPECT_NEAR(found.left, expected.left, 0.52) << key;
    EXPECT_NEAR(found.top, expected.top, 0.52) << key;
    EXPECT_NEAR(found.right, expected.right, 0.52) << key;
    EXPECT_NEAR(found.bottom, expected.bottom, 0.52) << key;
    EXPECT_GT(expected.right - expected.left, 32.0 / 80 * 480 - 1) << "a crop enlarges";
    flips += geometry.flip ? 1 : 0;
  }
  EXPECT_NEAR(flips, 25, 21);  // six standard deviations
}

TEST(Target, DetectionLeavesOutWhatIsBelowAPixelAndOthersDoNot) {
  const Box narrow{.left = 20, .top = 10, .right = 21.5, .bottom = 30};
  const Box whole{.left = 10, .top = 10, .right = 50, .bottom = 40, .label = 1};
  const MemorySource source(numbered_image(1, {100, 100}, 1));
  std::vector<float> out(size_t{50} * 50);
  for (const auto augmentation : {Augmentation::kNone, Augmentation::kDetection}) {
    const Pipeline pipeline{.augmentation = augmentation, .size = 50, .channels = 1};
    const auto geometry = pipeline.run(source, RandomKey(3), out);
    ASSERT_LT(1.5 * geometry.x_scale, 1);
    const auto boxes = moved({.boxes = {narrow, whole}}, geometry).boxes;
    EXPECT_EQ(boxes.size(), augmentation == Augmentation::kNone ? 2U : 1U);
    EXPECT_EQ(boxes.back().label, 1);
  }
}

TEST(Target, WhatIsScoredByDoesNotMove) {
  const Truth truth{.id = 4, .label = 2, .left = -3, .top = 1, .width = 50, .height = 0, .area = 7, .crowd = true};
  const Geometry half{.source = {10, 10}, .result = {5, 5}, .x_scale = 0.5, .y_scale = 0.5, .flip = true};
  const auto target = moved({.image_id = 9, .truths = {truth}}, half);
  EXPECT_EQ(target.image_id, 9);
  EXPECT_EQ(target.truths, std::vector<Truth>{truth});
}

TEST(Target, BoxesAreCutAtTheEdgesAndLeftOutBeyondThem) {
  const Geometry half{.source = {10, 10}, .result = {10, 10}, .left = 5, .top = 0, .x_scale = 2, .y_scale = 1};
  const auto target = moved(
      {.label = 3, .numbers = {7}, .boxes = {{0, 0, 5, 5, 1}, {0, 0, 6, 5, 2}, {4, 2, 20, 20, 3}, {7, 3, 7, 5, 4}}},
      half);
  ASSERT_EQ(target.boxes.size(), 2U);
  EXPECT_EQ(target.boxes[0], (Box{0, 0, 2, 5, 2}));
  EXPECT_EQ(target.boxes[1], (Box{0, 2, 10, 10, 3}));
  EXPECT_EQ(target.label, 3);
  EXPECT_EQ(target.numbers, (std::vector<double>{7}));
}

TEST(Target, ABoxComesBackToWhereItWas) {
  const Geometry geometry{
      .source = {30, 40}, .result = {16, 16}, .left = 8, .top = 4, .x_scale = 0.5, .y_scale = 0.8, .flip = true};
  const Box box{.left = 10, .top = 6, .right = 30, .bottom = 20, .label = 5};
  const auto there = moved({.boxes = {box}}, geometry).boxes.at(0);
  const auto back = moved_back(there, geometry);
  EXPECT_NEAR(back.left, box.left, 1e-12);
  EXPECT_NEAR(back.right, box.right, 1e-12);
  EXPECT_NEAR(back.top, box.top, 1e-12);
  EXPECT_NEAR(back.bottom, box.bottom, 1e-12);
  EXPECT_EQ(back.label, 5);
}

TEST(Batch, APartHasItsOwnSamples) {
  auto batch = make_batch(at::arange(12).view({4, 3}), at::tensor({5, 6, 7, 8}, at::kLong));
  batch.indices = {10, 11, 12, 13};
  const auto part = batch.part(1, 2);
  EXPECT_EQ(part.size(), 2);
  EXPECT_TRUE(at::equal(part.images, at::arange(3, 9).view({2, 3})));
  EXPECT_TRUE(at::equal(part.labels(), at::tensor({6, 7}, at::kLong)));
  EXPECT_EQ(part.indices, (std::vector<int64_t>{11, 12}));
  EXPECT_TRUE(part.names.empty());
  EXPECT_NE(error_of([&] { batch.part(3, 2); }).find("must lie within the 4 samples"), std::string::npos);
}

TEST(Batch, NumbersAreOfOneCount) {
  const auto batch = make_batch(at::zeros({2, 1}), {{.numbers = {1, 2}}, {.numbers = {3, 4}}});
  EXPECT_TRUE(at::equal(batch.numbers(), at::tensor({1.0F, 2.0F, 3.0F, 4.0F}).view({2, 2})));
  const auto uneven = make_batch(at::zeros({2, 1}), {{.numbers = {1, 2}}, {.numbers = {3}}});
  EXPECT_NE(error_of([&] { uneven.numbers(); }).find("must have 2 numbers"), std::string::npos);
}

}  // namespace
}  // namespace frn::data
