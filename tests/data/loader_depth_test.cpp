// How far ahead workers prepare: enough that none of them idles, and no more than memory has.
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "frn/data/loader.h"
#include "tests/data/fake_set.h"

namespace frn::data {
namespace {

TEST(LoaderDepth, FollowsTheWorkersWithinABoundOfMemory) {
  constexpr int64_t kSmall = 1000;
  EXPECT_EQ(batches_ahead_of(1, kSmall), 4);
  EXPECT_EQ(batches_ahead_of(2, kSmall), 4);
  EXPECT_EQ(batches_ahead_of(16, kSmall), 32);
  EXPECT_EQ(batches_ahead_of(16, kMostAhead / 10), 10);
  EXPECT_EQ(batches_ahead_of(16, 2 * kMostAhead), 2);
}

// Its images are given when so many are waited for at once, each by a worker of its own.
class MeetingSet : public FakeSet {
 public:
  MeetingSet(int64_t size, int64_t all) : FakeSet(size), all_(all) {}
  std::unique_ptr<ImageSource> open(int64_t index) const override {
    std::unique_lock lock(mutex_);
    ++waiting_;
    met_ = met_ || waiting_ == all_;
    everybody_.notify_all();
    everybody_.wait_for(lock, std::chrono::seconds(20), [this] { return met_; });
    --waiting_;
    lock.unlock();
    return FakeSet::open(index);
  }
  bool met() const {
    const std::lock_guard lock(mutex_);
    return met_;
  }

 private:
  int64_t all_;
  mutable std::mutex mutex_;
  mutable std::condition_variable everybody_;
  mutable int64_t waiting_ = 0;
  mutable bool met_ = false;
};

TEST(LoaderDepth, EightWorkersAreAtWorkAtOnce) {
  const auto set = std::make_shared<MeetingSet>(32, 8);
  Loader loader(set, {.augmentation = Augmentation::kNone, .colour = false, .size = 8, .channels = 1, .mean = {}},
                BatchOrder({.samples = 32, .batch_global = 1, .epochs = 1}), {.workers = 8});
  while (loader.next()) {
  }
  EXPECT_TRUE(set->met());
}

}  // namespace
}  // namespace frn::data
