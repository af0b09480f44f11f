#include "frn/data/loader.h"

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "tests/data/fake_set.h"

namespace frn::data {
namespace {

constexpr int64_t kSamples = 37;
constexpr int64_t kBatch = 5;

Pipeline small_pipeline() {
  return {.augmentation = Augmentation::kPadCropFlip, .colour = false, .size = 8, .channels = 1, .mean = {}};
}

BatchOrder order_of(int64_t epochs, bool keep_last = false, bool shuffle = true) {
  return BatchOrder({.samples = kSamples,
                     .batch_global = kBatch,
                     .seed = 3,
                     .shuffle = shuffle,
                     .keep_last = keep_last,
                     .epochs = epochs});
}

std::vector<Batch> all_batches(const std::shared_ptr<const Dataset>& set, const BatchOrder& order,
                               const LoaderOptions& options) {
  Loader loader(set, small_pipeline(), order, options);
  std::vector<Batch> batches;
  while (auto batch = loader.next()) batches.push_back(std::move(*batch));
  EXPECT_FALSE(loader.next()) << "after the end there must be no more";
  return batches;
}

void expect_equal(const Batch& a, const Batch& b) {
  EXPECT_EQ(a.number, b.number);
  EXPECT_EQ(a.indices, b.indices);
  EXPECT_TRUE(at::equal(a.labels, b.labels));
  EXPECT_TRUE(at::equal(a.images, b.images));
}

std::string message_of(Loader& loader) {
  try {
    while (loader.next()) {
    }
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Loader, GivesTheSameBatchesWhateverTheNumberOfWorkers) {
  const auto set = std::make_shared<FakeSet>(kSamples, std::set<int64_t>{4, 11});
  const auto expected = all_batches(set, order_of(3), {.workers = 0});
  ASSERT_EQ(expected.size(), 3U * (kSamples / kBatch));
  for (const int64_t workers : {1, 4}) {
    const auto batches = all_batches(set, order_of(3), {.workers = workers, .batches_ahead = 3});
    ASSERT_EQ(batches.size(), expected.size());
    for (size_t i = 0; i < batches.size(); ++i) expect_equal(batches[i], expected[i]);
  }
}

TEST(Loader, StartsAtAnyBatch) {
  const auto set = std::make_shared<FakeSet>(kSamples, std::set<int64_t>{4});
  const auto expected = all_batches(set, order_of(2), {.workers = 0});
  for (const int64_t first : {1, 6, 7, 8, 13, 14, 100}) {
    const auto batches = all_batches(set, order_of(2), {.workers = 2, .first_batch = first});
    const int64_t left = std::max<int64_t>(0, static_cast<int64_t>(expected.size()) - first);
    ASSERT_EQ(static_cast<int64_t>(batches.size()), left);
    for (size_t i = 0; i < batches.size(); ++i) expect_equal(batches[i], expected[static_cast<size_t>(first) + i]);
  }
}

TEST(Loader, ChannelsLastHoldsTheSameValues) {
  const auto set = std::make_shared<FakeSet>(kSamples);
  Pipeline pipeline = small_pipeline();
  pipeline.channels = 3;
  Loader planes(set, pipeline, order_of(1), {.workers = 0});
  Loader interleaved(set, pipeline, order_of(1), {.workers = 0, .channels_last = true});
  const auto a = planes.next()->images;
  const auto b = interleaved.next()->images;
  EXPECT_TRUE(a.is_contiguous());
  EXPECT_TRUE(b.is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(at::equal(a, b));
}

TEST(Loader, ReplacesABrokenSampleAndTellsOfItOnce) {
  const auto set = std::make_shared<FakeSet>(kSamples, std::set<int64_t>{4, 11});
  Loader loader(set, small_pipeline(), order_of(3), {.workers = 2});
  std::vector<std::string> told;
  while (auto batch = loader.next()) {
    EXPECT_EQ(batch->images.size(0), kBatch);
    for (size_t i = 0; i < batch->indices.size(); ++i) {
      EXPECT_TRUE(batch->indices[i] != 4 && batch->indices[i] != 11);
      EXPECT_EQ(batch->labels[static_cast<int64_t>(i)].item<int64_t>(), batch->indices[i] % 3);
    }
    for (const auto& broken : loader.newly_broken()) told.push_back(broken.name + ": " + broken.reason);
  }
  std::sort(told.begin(), told.end());
  EXPECT_EQ(told,
            (std::vector<std::string>{"image 11: [fake] image 11 is broken", "image 4: [fake] image 4 is broken"}));
}

TEST(Loader, LeavesABrokenSampleOutWhenAsked) {
  const auto set = std::make_shared<FakeSet>(kSamples, std::set<int64_t>{5, 6, 7, 8, 9, 36});
  const auto batches = all_batches(set, order_of(1, true, false), {.workers = 2, .on_broken = OnBroken::kSkip});
  std::vector<int64_t> seen;
  for (const auto& batch : batches) {
    EXPECT_EQ(batch.images.size(0), static_cast<int64_t>(batch.indices.size()));
    EXPECT_EQ(batch.labels.size(0), static_cast<int64_t>(batch.indices.size()));
    seen.insert(seen.end(), batch.indices.begin(), batch.indices.end());
  }
  EXPECT_EQ(batches.size(), 7U) << "a batch of broken samples alone is left out";
  EXPECT_EQ(seen.size(), 31U);
}

TEST(Loader, TooManyBrokenSamplesEndTheRunAtTheSameBatchWithAList) {
  const auto set = std::make_shared<FakeSet>(kSamples, std::set<int64_t>{1, 2, 3, 20});
  std::string expected;
  for (const int64_t workers : {0, 1, 3}) {
    Loader loader(set, small_pipeline(), order_of(1, false, false), {.workers = workers, .broken_limit = 2});
    const auto message = message_of(loader);
    EXPECT_NE(message.find("at most 2 samples may be broken but"), std::string::npos) << message;
    EXPECT_NE(message.find("image 3: [fake] image 3 is broken"), std::string::npos) << message;
    EXPECT_EQ(message_of(loader), message) << "it stays ended";
    if (workers == 0) expected = message;
    EXPECT_EQ(message, expected);
  }
}

TEST(Loader, ASetWithoutAnyWholeImageIsAnErrorNotAnEndlessSearch) {
  std::set<int64_t> all;
  for (int64_t i = 0; i < kSamples; ++i) all.insert(i);
  const auto set = std::make_shared<FakeSet>(kSamples, all);
  Loader loader(set, small_pipeline(), order_of(1), {.workers = 1, .broken_limit = 1000});
  EXPECT_NE(message_of(loader).find("others drawn in its place"), std::string::npos);
}

TEST(Loader, RethrowsWhatAWorkerThrew) {
  const auto set = std::make_shared<FakeSet>(kSamples);
  set->throws_other = true;
  Loader loader(set, small_pipeline(), order_of(1), {.workers = 2});
  EXPECT_THROW(loader.next(), std::logic_error);
  EXPECT_THROW(loader.next(), std::logic_error);
}

TEST(Loader, PreparesNoMoreThanTheBoundAhead) {
  const auto set = std::make_shared<FakeSet>(kSamples);
  Loader loader(set, small_pipeline(), order_of(-1), {.workers = 3, .batches_ahead = 2});
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_LE(set->opened, 2 * kBatch);
  loader.next();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_LE(set->opened, 3 * kBatch);
}

TEST(Loader, StopsWithinASampleOfBeingDestroyed) {
  const auto set = std::make_shared<FakeSet>(kSamples);
  set->pause = std::chrono::milliseconds(20);
  {
    Loader loader(set, small_pipeline(), order_of(-1), {.workers = 2, .batches_ahead = 8});
    while (set->opened == 0) std::this_thread::yield();
  }
  EXPECT_LT(set->opened, 2 * kBatch) << "whole batches were finished first";
}

TEST(Loader, SaysWhatIsWrongWithItsOptions) {
  const auto set = std::make_shared<FakeSet>(kSamples);
  EXPECT_THROW(Loader(set, small_pipeline(), order_of(1), {.workers = -1}), Error);
  EXPECT_THROW(Loader(set, small_pipeline(), order_of(1), {.workers = 1, .batches_ahead = 0}), Error);
  EXPECT_THROW(Loader(set, small_pipeline(), order_of(1), {.workers = 1, .first_batch = -1}), Error);
}

}  // namespace
}  // namespace frn::data
