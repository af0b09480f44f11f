#include "frn/detection/box_code.h"

#include <gtest/gtest.h>

#include <cmath>

#include "frn/core/random.h"

namespace frn::detection {
namespace {

TEST(BoxCode, ComesBackAsTheBox) {
  Random random(RandomKey(1));
  for (int i = 0; i < 1000; ++i) {
    const auto box = [&] {
      const auto x = static_cast<float>(random.uniform(-50, 500));
      const auto y = static_cast<float>(random.uniform(-50, 500));
      return Corners{x, y, x + static_cast<float>(random.uniform(8, 400)),
                     y + static_cast<float>(random.uniform(8, 400))};
    };
    const auto truth = box();
    const auto anchor = box();
    for (const auto style : {Style::kPaper, Style::kTorchvision}) {
      const auto back = decode(encode(truth, anchor, weights_of(style)), anchor, weights_of(style));
      // A dozen roundings relative to numbers of up to 1000.
      EXPECT_NEAR(back.left, truth.left, 1e-3);
      EXPECT_NEAR(back.bottom, truth.bottom, 1e-3);
    }
  }
}

TEST(BoxCode, OfTheAnchorItselfIsZero) {
  const Corners box{3, 5, 10, 29};
  EXPECT_EQ(encode(box, box, weights_of(Style::kPaper)), (BoxCode{0, 0, 0, 0}));
}

TEST(BoxCode, HasThePapersWeights) {
  const auto code = encode({10, 0, 20, 20}, {0, 0, 10, 10}, weights_of(Style::kPaper));
  EXPECT_FLOAT_EQ(code[0], 10);
  EXPECT_FLOAT_EQ(code[1], 5);
  EXPECT_FLOAT_EQ(code[2], 0);
  EXPECT_FLOAT_EQ(code[3], 5 * std::log(2.0F));
}

TEST(BoxCode, ThatIsWildGivesAFiniteBox) {
  const auto box = decode({0, 0, 1e30F, 1e30F}, {0, 0, 16, 16}, weights_of(Style::kTorchvision));
  EXPECT_NEAR(box.right - box.left, 1000, 0.1);
}

}  // namespace
}  // namespace frn::detection
