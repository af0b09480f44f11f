#include "frn/detection/anchors.h"

#include <gtest/gtest.h>

#include <cmath>

#include "frn/core/error.h"

namespace frn::detection {
namespace {

TEST(Anchors, AreAsManyAsThePaperHasAt1024Pixels) {
  EXPECT_EQ(make_anchors(Style::kPaper, 1024, 1024).boxes.size(), 130'944U);
}

TEST(Anchors, OfThePaperLieAroundTheMiddleOfTheirCell) {
  const auto anchors = make_anchors(Style::kPaper, 256, 384);
  EXPECT_EQ(anchors.per_level[0], 32 * 48 * 6);
  EXPECT_EQ(anchors.per_level[4], 2 * 3 * 6);
  const auto& second_cell = anchors.boxes[6];  // of P3: row 0, column 1
  EXPECT_FLOAT_EQ((second_cell.left + second_cell.right) / 2, 12);
  EXPECT_FLOAT_EQ((second_cell.top + second_cell.bottom) / 2, 4);
  EXPECT_FLOAT_EQ(second_cell.right - second_cell.left, 32);
}

TEST(Anchors, OfThePaperHaveTheAreaOfTheirScaleWhateverTheirShape) {
  const auto anchors = make_anchors(Style::kPaper, 128, 128);
  for (size_t i = 0; i < 6; ++i) {
    const auto& box = anchors.boxes[i];
    const double side = i % 2 == 0 ? 32 : 32 * std::sqrt(2.0);
    EXPECT_NEAR((box.right - box.left) * (box.bottom - box.top), side * side, 1e-2) << i;
  }
}

// The first nine of AnchorGenerator(((32, 40, 50), ...), ((0.5, 1.0, 2.0),) * 5), and two cells further on.
TEST(Anchors, OfTorchvisionAreWholeNumbersAroundTheCornerOfTheirCell) {
  const auto anchors = make_anchors(Style::kTorchvision, 256, 256);
  EXPECT_EQ(anchors.boxes[0], (Corners{-23, -11, 23, 11}));
  EXPECT_EQ(anchors.boxes[1], (Corners{-28, -14, 28, 14}));
  EXPECT_EQ(anchors.boxes[3], (Corners{-16, -16, 16, 16}));
  EXPECT_EQ(anchors.boxes[18 + 3], (Corners{0, -16, 32, 16}));
}

TEST(Anchors, OfSizesThatNoStrideDividesCoverTheWholeImage) {
  const auto anchors = make_anchors(Style::kPaper, 130, 100);
  EXPECT_EQ(anchors.per_level[0], 17 * 13 * 6);
  EXPECT_EQ(anchors.per_level[4], 2 * 1 * 6);
}

TEST(Anchors, OfAnImageWithoutPixelsAreRefused) { EXPECT_THROW(make_anchors(Style::kPaper, 0, 8), Error); }

}  // namespace
}  // namespace frn::detection
