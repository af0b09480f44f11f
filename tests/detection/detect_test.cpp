#include "frn/detection/detect.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "frn/core/error.h"
#include "frn/core/random.h"
#include "frn/detection/box_code.h"
#include "frn/detection/matching.h"

namespace frn::detection {
namespace {

struct Numbers {
  Anchors anchors;
  std::vector<float> logits;
  std::vector<float> codes;
  int64_t classes;
};

// Logits of few values when `ties`.
Numbers random_numbers(Random& random, int64_t classes, bool ties) {
  Numbers out{make_anchors(Style::kPaper, 128, 128), {}, {}, classes};
  for (size_t i = 0; i < out.anchors.boxes.size(); ++i) {
    for (int64_t c = 0; c < classes; ++c) {
      const double value = random.uniform(-12, 4);
      out.logits.push_back(static_cast<float>(ties ? std::round(value) : value));
    }
    for (int k = 0; k < 4; ++k) out.codes.push_back(static_cast<float>(random.uniform(-6, 6)));
  }
  return out;
}

Corners box_of(const Numbers& numbers, size_t anchor) {
  BoxCode code{};
  std::copy_n(numbers.codes.begin() + static_cast<int64_t>(4 * anchor), 4, code.begin());
  return decode(code, numbers.anchors.boxes[anchor], weights_of(Style::kPaper));
}

// The definition: all pairs sorted, each against all better ones of its class that stayed.
std::vector<std::pair<size_t, float>> slow_choice(const Numbers& numbers, const DetectOptions& options) {
  std::vector<size_t> order(numbers.logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return numbers.logits[a] > numbers.logits[b]; });
  const auto classes = static_cast<size_t>(numbers.classes);
  std::vector<size_t> kept;
  for (const size_t place : order) {
    if (1 / (1 + std::exp(-double{numbers.logits[place]})) <= options.least_score) continue;
    const auto covered = [&](size_t better) {
      return better % classes == place % classes &&
             iou(box_of(numbers, better / classes), box_of(numbers, place / classes)) >
                 static_cast<float>(options.overlap);
    };
    if (std::none_of(kept.begin(), kept.end(), covered)) kept.push_back(place);
    if (static_cast<int64_t>(kept.size()) == options.most) break;
  }
  std::vector<std::pair<size_t, float>> out;
  for (const size_t place : kept) {
    auto box = box_of(numbers, place / classes);
    box = {std::clamp(box.left, 0.0F, 128.0F), std::clamp(box.top, 0.0F, 128.0F), std::clamp(box.right, 0.0F, 128.0F),
           std::clamp(box.bottom, 0.0F, 128.0F)};
    if (box.left < box.right && box.top < box.bottom) out.emplace_back(place % classes, box.left);
  }
  return out;
}

TEST(Detect, EqualsItsDefinitionWithAllPairsSorted) {
  Random random(RandomKey(3));
  for (int round = 0; round < 12; ++round) {
    const auto numbers = random_numbers(random, 1 + random.below(4), round % 2 == 0);
    for (const int64_t most : {1, 20, 1000}) {
      const DetectOptions options{.least_score = round % 3 == 0 ? 0.3 : 1e-8, .most = most};
      const auto found = detect(numbers.logits, numbers.codes, numbers.anchors, 128, 128, options);
      const auto expected = slow_choice(numbers, options);
      ASSERT_EQ(found.size(), expected.size()) << round << " " << most;
      for (size_t i = 0; i < found.size(); ++i) {
        ASSERT_EQ(static_cast<size_t>(found[i].label), expected[i].first);
        ASSERT_EQ(found[i].box.left, expected[i].second);
        if (i > 0) {
          ASSERT_LE(found[i].score, found[i - 1].score);
        }
      }
    }
  }
}

TEST(Detect, TakesNoMoreThanTheWantedNumberFromALevel) {
  Random random(RandomKey(5));
  auto numbers = random_numbers(random, 2, false);
  auto options = detect_options_of(Style::kPaper);
  options.most_per_level = 1;
  options.most = 1000;
  options.least_score = 0;
  EXPECT_LE(detect(numbers.logits, numbers.codes, numbers.anchors, 128, 128, options).size(), 5U);
}

TEST(Detect, WithoutAScoreAboveTheThresholdFindsNothing) {
  Random random(RandomKey(5));
  auto numbers = random_numbers(random, 2, false);
  std::fill(numbers.logits.begin(), numbers.logits.end(), -30.0F);
  EXPECT_TRUE(detect(numbers.logits, numbers.codes, numbers.anchors, 128, 128, {}).empty());
}

TEST(Detect, RefusesWhatIsNotANumberAndWhatDoesNotFit) {
  Random random(RandomKey(5));
  auto numbers = random_numbers(random, 2, false);
  auto broken = numbers.logits;
  broken[17] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(detect(broken, numbers.codes, numbers.anchors, 128, 128, {}), Error);
  auto codes = numbers.codes;
  std::fill(codes.begin(), codes.end(), std::numeric_limits<float>::quiet_NaN());
  EXPECT_THROW(detect(numbers.logits, codes, numbers.anchors, 128, 128, {}), Error);
  codes.resize(8);
  EXPECT_THROW(detect(numbers.logits, codes, numbers.anchors, 128, 128, {}), Error);
}

}  // namespace
}  // namespace frn::detection
