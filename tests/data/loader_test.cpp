#include "frn/data/loader.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>

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
  EXPECT_TRUE(at::equal(a.labels(), b.labels()));
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
      EXPECT_EQ(batch->labels()[static_cast<int64_t>(i)].item<int64_t>(), batch->indices[i] % 3);
    }
    for (const auto& broken : loader.newly_broken()) told.push_back(broken.name + ": " + broken.reason);
  }
  std::sort(told.begin(), told.end());
  EXPECT_EQ(told,
            (std::vector<std::string>{"image 11: [fake] image 11 is broken", "image 4: [fake] image 4 is broken"}));
}

TEST(Loader, BrokenSamplesThatWereToldBeforeCountAndAreNotToldAgain) {
  const auto set = std::make_shared<FakeSet>(kSamples, std::set<int64_t>{4, 11});
  const std::vector<BrokenSample> known{{"image 4", "[fake] image 4 is broken"}};
  Loader loader(set, small_pipeline(), order_of(3), {.workers = 0, .known_broken = known});
  std::vector<std::string> told;
  while (loader.next()) {
    for (const auto& broken : loader.newly_broken()) told.push_back(broken.name);
  }
  EXPECT_EQ(told, std::vector<std::string>{"image 11"});
  Loader limited(set, small_pipeline(), order_of(3), {.workers = 0, .broken_limit = 1, .known_broken = known});
  const auto message = message_of(limited);
  EXPECT_NE(message.find("image 4"), std::string::npos) << message;
  EXPECT_NE(message.find("image 11"), std::string::npos) << message;
}

// As a program's own set may have it.
class SetOfOneName : public FakeSet {
 public:
  using FakeSet::FakeSet;
  std::string name(int64_t) const override { return "a sample"; }
};

TEST(Loader, BrokenSamplesOfOneNameCountEach) {
  const auto set = std::make_shared<SetOfOneName>(kSamples, std::set<int64_t>{1, 2, 3});
  Loader loader(set, small_pipeline(), order_of(1, false, false), {.workers = 0, .broken_limit = 2});
  EXPECT_NE(message_of(loader).find("at most 2 samples may be broken but 3 are"), std::string::npos);
}

TEST(Loader, LeavesABrokenSampleOutWhenAsked) {
  const auto set = std::make_shared<FakeSet>(kSamples, std::set<int64_t>{5, 6, 7, 8, 9, 36});
  const auto batches = all_batches(set, order_of(1, true, false), {.workers = 2, .on_broken = OnBroken::kSkip});
  std::vector<int64_t> seen;
  for (const auto& batch : batches) {
    EXPECT_EQ(batch.images.size(0), static_cast<int64_t>(batch.indices.size()));
    EXPECT_EQ(batch.labels().size(0), static_cast<int64_t>(batch.indices.size()));
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

// Every sample that is opened is checked when it is opened: it must not belong to a batch further ahead than the bound
// of what was asked for by then. Each batch is asked for once the loader has come to its bound, so one that went
// further would be at it; it has a hundred chances to be seen there.
TEST(Loader, PreparesAsFarAsTheBoundAheadAndNoFurther) {
  constexpr int64_t kAhead = 2;
  const auto set = std::make_shared<FakeSet>(kSamples);
  std::atomic<int64_t> asked = 0;
  std::atomic<int64_t> too_early = 0;
  set->on_open = [&, opened = &set->opened] {
    const int64_t now = *opened;  // first this: what is asked for may only grow meanwhile
    if (now > (asked + kAhead) * kBatch) ++too_early;
  };
  Loader loader(set, small_pipeline(), order_of(-1), {.workers = 3, .batches_ahead = kAhead});
  while (asked < 100) {
    while (set->opened < (asked + kAhead) * kBatch) std::this_thread::yield();  // for ever: it stops short of its bound
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    ++asked;
    loader.next();
  }
  EXPECT_EQ(too_early, 0);
}

// Whether the thread waits for something, and has nothing left to do by itself.
bool sleeps(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto name_end = text.rfind(") ");
  return name_end != std::string::npos && text[name_end + 2] == 'S';
}

TEST(Loader, StopsWithinASampleOfBeingDestroyed) {
  constexpr int64_t kWorkers = 2;
  const auto set = std::make_shared<FakeSet>(kSamples);
  std::atomic<bool> may_go_on = false;
  set->on_open = [&] { may_go_on.wait(false); };
  auto loader = std::make_unique<Loader>(set, small_pipeline(), order_of(-1),
                                         LoaderOptions{.workers = kWorkers, .batches_ahead = 8});
  while (set->opened < kWorkers) std::this_thread::yield();  // each is held in its first sample
  std::atomic<pid_t> destroyer = 0;
  std::thread thread([&] {
    destroyer = gettid();
    loader.reset();
  });
  // It sleeps once it has told the workers and waits for them to end.
  while (destroyer == 0 || !sleeps(destroyer)) std::this_thread::yield();
  may_go_on = true;
  may_go_on.notify_all();
  thread.join();
  EXPECT_EQ(set->opened, kWorkers) << "further samples were read first";
}

TEST(Loader, SaysWhatIsWrongWithItsOptions) {
  const auto set = std::make_shared<FakeSet>(kSamples);
  EXPECT_THROW(Loader(set, small_pipeline(), order_of(1), {.workers = -1}), Error);
  EXPECT_THROW(Loader(set, small_pipeline(), order_of(1), {.workers = 1, .batches_ahead = 0}), Error);
  EXPECT_THROW(Loader(set, small_pipeline(), order_of(1), {.workers = 1, .first_batch = -1}), Error);
}

// A set that prepares its samples itself: signals of 6 values, some broken, one of another length.
class SignalSet : public Dataset {
 public:
  explicit SignalSet(int64_t odd = -1) : odd_(odd) {}
  int64_t size() const override { return kSamples; }
  Target target(int64_t index) const override { return {.numbers = {static_cast<double>(index)}}; }
  std::string name(int64_t index) const override { return "signal " + std::to_string(index); }
  std::unique_ptr<ImageSource> open(int64_t) const override { throw std::logic_error("no image here"); }
  std::optional<Sample> sample(int64_t index, RandomKey key) const override {
    if (index == 7) throw Error("signal", "signal 7 is broken");
    Random random(key);
    return Sample{at::full({index == odd_ ? 5 : 6}, random.uniform() + static_cast<double>(index)), target(index)};
  }

 private:
  int64_t odd_;
};

TEST(Loader, SamplesThatASetPreparesItselfAreStackedWhateverTheWorkers) {
  const auto set = std::make_shared<SignalSet>();
  const auto none = all_batches(set, order_of(2), {.workers = 0});
  const auto three = all_batches(set, order_of(2), {.workers = 3});
  ASSERT_EQ(none.size(), three.size());
  for (size_t i = 0; i < none.size(); ++i) {
    expect_equal(none[i], three[i]);
    EXPECT_EQ(none[i].images.sizes(), (std::vector<int64_t>{kBatch, 6}));
    for (size_t j = 0; j < none[i].indices.size(); ++j) {
      const auto index = static_cast<double>(none[i].indices[j]);
      EXPECT_NE(index, 7) << "another takes its place";
      EXPECT_EQ(none[i].targets[j].numbers, (std::vector<double>{index}));
      EXPECT_EQ(std::floor(none[i].images[static_cast<int64_t>(j)][0].item<double>()), index);
    }
  }
}

TEST(Loader, SamplesOfUnequalShapesAreNamed) {
  Loader loader(std::make_shared<SignalSet>(3), small_pipeline(), order_of(1), {.workers = 0});
  const auto message = message_of(loader);
  EXPECT_NE(message.find("must have one shape"), std::string::npos) << message;
  EXPECT_NE(message.find("signal 3"), std::string::npos) << message;
}

}  // namespace
}  // namespace frn::data
