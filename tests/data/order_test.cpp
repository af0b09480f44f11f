#include "frn/data/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "frn/core/error.h"

namespace frn::data {
namespace {

std::vector<int64_t> indices_of(const std::vector<SampleKey>& samples) {
  std::vector<int64_t> indices;
  for (const auto& sample : samples) indices.push_back(sample.index);
  return indices;
}

std::vector<int64_t> epoch_of(BatchOrder& order, int64_t epoch) {
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < order.batches_per_epoch(); ++i) {
    for (const auto& sample : order.batch(epoch * order.batches_per_epoch() + i)) indices.push_back(sample.index);
  }
  return indices;
}

TEST(BatchOrder, AnEpochHoldsEverySampleOnceInAnotherOrderEachTime) {
  BatchOrder order({.samples = 103, .batch_global = 10, .seed = 1, .keep_last = true});
  std::vector<int64_t> everything(103);
  std::iota(everything.begin(), everything.end(), 0);
  const auto first = epoch_of(order, 0);
  const auto second = epoch_of(order, 1);
  EXPECT_NE(first, second);
  for (auto indices : {first, second}) {
    EXPECT_NE(indices, everything);
    std::sort(indices.begin(), indices.end());
    EXPECT_EQ(indices, everything);
  }
}

TEST(BatchOrder, ABatchDoesNotDependOnWhichWereAskedForBefore) {
  BatchOrder one({.samples = 100, .batch_global = 8, .seed = 5});
  BatchOrder other({.samples = 100, .batch_global = 8, .seed = 5});
  std::vector<std::vector<SampleKey>> forwards;
  for (int64_t i = 0; i < 40; ++i) forwards.push_back(one.batch(i));
  for (int64_t i = 39; i >= 0; --i) {
    const auto samples = other.batch(i);
    EXPECT_EQ(indices_of(samples), indices_of(forwards[static_cast<size_t>(i)]));
    EXPECT_EQ(samples[3].random, forwards[static_cast<size_t>(i)][3].random);
  }
}

TEST(BatchOrder, ASamplesKeyFollowsFromSeedEpochAndIndexAlone) {
  BatchOrder small({.samples = 12, .batch_global = 3, .seed = 9});
  BatchOrder large({.samples = 12, .batch_global = 12, .seed = 9});
  const auto key_in = [](BatchOrder& order, int64_t epoch, int64_t index) {
    for (int64_t i = 0; i < order.batches_per_epoch(); ++i) {
      for (const auto& sample : order.batch(epoch * order.batches_per_epoch() + i)) {
        if (sample.index == index) return sample.random.value();
      }
    }
    return uint64_t{0};
  };
  EXPECT_EQ(key_in(small, 2, 7), key_in(large, 2, 7));
  EXPECT_NE(key_in(small, 1, 7), key_in(large, 2, 7));
  EXPECT_NE(key_in(small, 2, 7), key_in(small, 2, 8));
}

TEST(BatchOrder, KeepsDropsOrCutsTheLastBatch) {
  BatchOrder dropped({.samples = 23, .batch_global = 8});
  EXPECT_EQ(dropped.batches_per_epoch(), 2);
  EXPECT_EQ(dropped.samples_per_epoch(), 16);
  BatchOrder kept({.samples = 23, .batch_global = 8, .shuffle = false, .keep_last = true, .epochs = 1});
  EXPECT_EQ(kept.batches_per_epoch(), 3);
  EXPECT_EQ(kept.samples_per_epoch(), 23);
  EXPECT_EQ(indices_of(kept.batch(2)), (std::vector<int64_t>{16, 17, 18, 19, 20, 21, 22}));
  EXPECT_TRUE(kept.batch(3).empty());
  BatchOrder cut({.samples = 23, .batch_global = 8, .keep_last = true, .divisor = 4});
  EXPECT_EQ(cut.samples_per_epoch(), 20);
  EXPECT_EQ(cut.batch(2).size(), 4U);
}

TEST(BatchOrder, RefusesAnEpochWithoutABatch) {
  EXPECT_THROW(BatchOrder({.samples = 7, .batch_global = 8}), Error);
  EXPECT_THROW(BatchOrder({.samples = 3, .batch_global = 8, .keep_last = true, .divisor = 4}), Error);
  EXPECT_THROW(BatchOrder({.samples = 0, .batch_global = 8}), Error);
  EXPECT_THROW(BatchOrder({.samples = 8, .batch_global = 6, .divisor = 4}), Error);
  EXPECT_NO_THROW(BatchOrder({.samples = 7, .batch_global = 8, .keep_last = true}));
}

// 5 cells with 4,000 draws each on average: 6 standard deviations are 6*sqrt(4000*0.8) < 340.
TEST(BatchOrder, EveryPlaceIsEquallyLikely) {
  BatchOrder order({.samples = 5, .batch_global = 5, .seed = 2});
  std::array<int64_t, 5> counts{};
  for (int64_t epoch = 0; epoch < 20000; ++epoch) ++counts[static_cast<size_t>(order.batch(epoch)[0].index)];
  for (const auto count : counts) EXPECT_NEAR(static_cast<double>(count), 4000, 340);
}

}  // namespace
}  // namespace frn::data
