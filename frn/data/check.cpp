#include "frn/data/check.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>

#include "frn/core/error.h"

namespace frn::data {
namespace {

constexpr int64_t kMostTogether = 64;  // images that a thread takes at a time

class Check {
 public:
  Check(const Dataset& dataset, const std::function<void(int64_t, int64_t)>& progress)
      : dataset_(dataset), progress_(progress), step_(std::max<int64_t>(1, dataset.size() / 100)) {
    report_.images = dataset.size();
    report_.per_class.resize(dataset.classes().size());
    report_.has_boxes = dataset.has_boxes();
    report_.problems.assign(dataset.problems().begin(), dataset.problems().end());
    constexpr auto kMost = std::numeric_limits<int64_t>::max();
    report_.smallest = {kMost, kMost};
  }

  CheckReport run(int64_t threads) {
    std::vector<std::thread> helpers;
    try {
      for (int64_t i = 1; i < threads; ++i) helpers.emplace_back([this] { work(); });
    } catch (...) {
      note_failure();
    }
    work();
    for (auto& helper : helpers) helper.join();
    if (failure_) std::rethrow_exception(failure_);
    std::sort(report_.broken.begin(), report_.broken.end(),
              [](const BrokenImage& a, const BrokenImage& b) { return a.index < b.index; });
    if (static_cast<int64_t>(report_.broken.size()) == report_.images) report_.smallest = {};
    return std::move(report_);
  }

 private:
  void work() {
    try {
      while (!stop_) {
        const int64_t first = next_.fetch_add(kMostTogether);
        if (first >= report_.images) return;
        look_at(first, std::min(first + kMostTogether, report_.images));
      }
    } catch (...) {
      note_failure();
    }
  }

  void look_at(int64_t first, int64_t last) {
    for (int64_t i = first; i < last && !stop_; ++i) {
      try {
        const auto source = dataset_.open(i);
        const Size size = source->size();
        const auto image = source->read({0, 0, size.height, size.width}, size);
        note(i, image);
      } catch (const Error& error) {
        note_broken(i, error.what());
      }
    }
  }

  void note(int64_t index, const Image& image) {
    const std::lock_guard lock(mutex_);
    report_.smallest = {std::min(report_.smallest.height, image.size.height),
                        std::min(report_.smallest.width, image.size.width)};
    report_.largest = {std::max(report_.largest.height, image.size.height),
                       std::max(report_.largest.width, image.size.width)};
    report_.grey += image.channels == 1 ? 1 : 0;
    count(index);
  }

  void note_broken(int64_t index, const std::string& reason) {
    const std::lock_guard lock(mutex_);
    report_.broken.push_back({index, dataset_.name(index), reason});
    count(index);
  }

  // Under the lock.
  void count(int64_t index) {
    count_classes(dataset_.target(index));
    ++done_;
    if (progress_ && (done_ % step_ == 0 || done_ == report_.images)) progress_(done_, report_.images);
  }

  void count_classes(const Target& target) {
    if (report_.per_class.empty()) return;
    if (!report_.has_boxes) {
      ++report_.per_class.at(static_cast<size_t>(target.label));
      return;
    }
    report_.without_boxes += target.boxes.empty() ? 1 : 0;
    for (const auto& box : target.boxes) ++report_.per_class.at(static_cast<size_t>(box.label));
  }

  void note_failure() {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::current_exception();
    stop_ = true;
  }

  const Dataset& dataset_;
  const std::function<void(int64_t, int64_t)>& progress_;
  const int64_t step_;
  std::atomic<int64_t> next_ = 0;
  std::atomic<bool> stop_ = false;
  std::mutex mutex_;  // of what follows
  CheckReport report_;
  int64_t done_ = 0;
  std::exception_ptr failure_;
};

}  // namespace

CheckReport check_dataset(const Dataset& dataset, int64_t threads,
                          const std::function<void(int64_t done, int64_t all)>& progress) {
  if (threads < 1) throw Error("check", "threads must be at least 1 but are " + std::to_string(threads));
  return Check(dataset, progress).run(threads);
}

}  // namespace frn::data
