#include "frn/data/loader.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <c10/util/ParallelGuard.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "frn/core/error.h"
#include "frn/core/text.h"

namespace frn::data {
namespace {

constexpr uint64_t kReplacement = 0x7265706c616365;  // apart from what the pipeline draws from the same key
constexpr int kMostReplacements = 16;

struct BrokenIndex {
  int64_t index;
  std::string reason;
};

// A batch as a worker leaves it: whole, or what went wrong.
struct Prepared {
  Batch batch;
  std::vector<BrokenIndex> broken;
  std::exception_ptr error;
  bool end = false;
};

// Makes batches of samples; may be used from many threads.
class Preparer {
 public:
  Preparer(std::shared_ptr<const Dataset> dataset, const Pipeline& pipeline, const LoaderOptions& options)
      : dataset_(std::move(dataset)), pipeline_(pipeline), options_(options) {}

  // `stop` is asked between samples.
  template <class Stop>
  void prepare(std::span<const SampleKey> samples, Prepared& result, const Stop& stop) const {
    Images images(*this, static_cast<int64_t>(samples.size()));
    for (const auto& sample : samples) {
      if (stop()) return;
      read(sample, images, result);
    }
    result.batch.images = images.take(result.batch);
  }

  std::string name(int64_t index) const { return dataset_->name(index); }

 private:
  // The inputs of a batch: written in place by the pipeline, or, of a set that prepares its samples itself, stacked.
  class Images {
   public:
    Images(const Preparer& preparer, int64_t count) : preparer_(preparer), count_(count) {}

    // Where the pipeline writes the next image.
    std::span<float> next() {
      const auto& pipeline = preparer_.pipeline_;
      const auto format =
          preparer_.options_.channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
      if (!written_.defined()) {
        written_ = at::empty({count_, pipeline.channels, pipeline.size, pipeline.size},
                             at::TensorOptions(at::kFloat).memory_format(format));
      }
      const auto values = static_cast<size_t>(pipeline.channels * pipeline.size * pipeline.size);
      return {written_.mutable_data_ptr<float>() + static_cast<size_t>(kept_) * values, values};
    }
    void keep() { ++kept_; }
    void keep(at::Tensor input) { given_.push_back(std::move(input)); }

    at::Tensor take(const Batch& batch) const {
      if (!given_.empty()) return stacked(batch);
      return !written_.defined() || kept_ == count_ ? written_ : written_.narrow(0, 0, kept_);
    }

   private:
    at::Tensor stacked(const Batch& batch) const {
      for (size_t i = 0; i < given_.size(); ++i) {
        if (given_[i].sizes() == given_.front().sizes()) continue;
        throw Error("loader", "the samples of a batch must have one shape, " + shape_text(given_.front().sizes()) +
                                  " as " + batch.names.front() + " has, but " + batch.names[i] + " has " +
                                  shape_text(given_[i].sizes()));
      }
      auto out = at::stack(given_);
      const bool last = preparer_.options_.channels_last && out.dim() == 4;
      return last ? out.contiguous(at::MemoryFormat::ChannelsLast) : out;
    }

    const Preparer& preparer_;
    int64_t count_;
    int64_t kept_ = 0;
    at::Tensor written_;
    std::vector<at::Tensor> given_;
  };

  // Adds the sample, or another in its place, or nothing when it is broken and left out.
  void read(const SampleKey& sample, Images& images, Prepared& result) const {
    Random others(sample.random.with(kReplacement));
    int64_t index = sample.index;
    for (int attempt = 0; attempt <= kMostReplacements; ++attempt) {
      try {
        read_one(index, sample.random, images, result.batch);
        return;
      } catch (const Error& error) {
        result.broken.push_back({index, error.what()});
      }
      if (options_.on_broken == OnBroken::kSkip) return;
      index = others.below(dataset_->size());
    }
    throw Error("loader", dataset_->name(sample.index) + " is broken, and so are " + std::to_string(kMostReplacements) +
                              " others drawn in its place, the last one by: " + result.broken.back().reason);
  }

  // Changes the batch only when nothing was thrown.
  void read_one(int64_t index, RandomKey key, Images& images, Batch& batch) const {
    Geometry geometry;
    Target target;
    if (auto own = dataset_->sample(index, key)) {
      target = std::move(own->target);
      images.keep(std::move(own->input));
    } else {
      const auto layout = options_.channels_last ? PixelLayout::kInterleaved : PixelLayout::kPlanes;
      target = dataset_->target(index);
      geometry = pipeline_.run(*dataset_->open(index), key, images.next(), layout);
      target = moved(std::move(target), geometry);
      images.keep();
    }
    batch.targets.push_back(std::move(target));
    batch.indices.push_back(index);
    batch.geometries.push_back(geometry);
    batch.names.push_back(dataset_->name(index));
  }

  std::shared_ptr<const Dataset> dataset_;
  Pipeline pipeline_;
  LoaderOptions options_;
};

void check(const LoaderOptions& options) {
  if (options.workers < 0) {
    throw Error("loader", "workers must be at least 0 but are " + std::to_string(options.workers));
  }
  if (options.workers > 0 && options.batches_ahead && *options.batches_ahead < 1) {
    throw Error("loader", "batches_ahead must be at least 1 but is " + std::to_string(*options.batches_ahead));
  }
  if (options.first_batch < 0) {
    throw Error("loader", "first_batch must be at least 0 but is " + std::to_string(options.first_batch));
  }
}

LoaderOptions with_depth(LoaderOptions options, const Pipeline& pipeline, BatchOrder& order) {
  if (options.workers <= 0 || options.batches_ahead) return options;
  const auto samples = static_cast<int64_t>(order.batch(std::max<int64_t>(0, options.first_batch)).size());
  const int64_t image = pipeline.channels * pipeline.size * pipeline.size * static_cast<int64_t>(sizeof(float));
  options.batches_ahead = batches_ahead_of(options.workers, samples * image);
  return options;
}

}  // namespace

int64_t batches_ahead_of(int64_t workers, int64_t batch_bytes) {
  const int64_t fitting = std::max<int64_t>(2, kMostAhead / std::max<int64_t>(1, batch_bytes));
  return std::min(std::max<int64_t>(4, 2 * workers), fitting);
}

class Loader::Impl {
 public:
  Impl(std::shared_ptr<const Dataset> dataset, const Pipeline& pipeline, const BatchOrder& order,
       const LoaderOptions& options)
      : preparer_(std::move(dataset), pipeline, options),
        order_(order),
        options_(with_depth(options, pipeline, order_)),
        next_to_start_(options.first_batch),
        next_to_give_(options.first_batch) {
    check(options);
    for (const auto& sample : options.known_broken) {
      if (known_.insert(sample.name).second) count_broken(sample);
    }
    try {
      for (int64_t i = 0; i < options.workers; ++i) workers_.emplace_back([this] { work(); });
    } catch (...) {
      stop();
      throw;
    }
  }
  ~Impl() { stop(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  std::optional<Batch> next() {
    while (true) {
      if (failure_) std::rethrow_exception(failure_);
      auto prepared = options_.workers == 0 ? prepare_now() : wait_for_next();
      if (prepared.end) return std::nullopt;
      try {
        note_broken(prepared);
        if (prepared.error) std::rethrow_exception(prepared.error);
      } catch (...) {
        failure_ = std::current_exception();
        throw;
      }
      if (!prepared.batch.indices.empty()) return std::move(prepared.batch);
      // Every sample of it was left out.
    }
  }

  std::vector<BrokenSample> newly_broken() { return std::exchange(newly_broken_, {}); }
  double seconds_waited() const { return seconds_waited_; }

 private:
  Prepared prepare_now() {
    Prepared result;
    result.batch.number = next_to_give_;
    const auto samples = order_.batch(next_to_give_);
    result.end = samples.empty();
    if (result.end) return result;
    ++next_to_give_;
    const auto start = std::chrono::steady_clock::now();
    prepare(samples, result, [] { return false; });
    seconds_waited_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return result;
  }

  Prepared wait_for_next() {
    std::unique_lock lock(mutex_);
    if (!ready_.contains(next_to_give_)) {
      const auto start = std::chrono::steady_clock::now();
      batch_ready_.wait(lock, [this] { return ready_.contains(next_to_give_); });
      seconds_waited_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
    const auto found = ready_.find(next_to_give_);
    if (found->second.end) {  // stays, for whoever asks again
      Prepared end;
      end.end = true;
      return end;
    }
    Prepared result = std::move(found->second);
    ready_.erase(found);
    ++next_to_give_;
    lock.unlock();
    room_.notify_one();
    return result;
  }

  // Workers start batches in order, and none that is further ahead than the bound, so the queue cannot fill up with
  // later ones while an earlier one has no place.
  void work() {
    const c10::ParallelGuard serial(true);  // ATen must not start a team of threads under each worker
    std::unique_lock lock(mutex_);
    while (true) {
      room_.wait(lock, [this] { return stopping_ || next_to_start_ < next_to_give_ + *options_.batches_ahead; });
      if (stopping_ || ended_) return;
      Prepared result;
      result.batch.number = next_to_start_++;
      std::vector<SampleKey> samples;
      try {
        samples = order_.batch(result.batch.number);  // under the lock: it is not for many threads
      } catch (...) {
        result.error = std::current_exception();
      }
      ended_ = ended_ || samples.empty();
      result.end = samples.empty() && !result.error;
      if (!samples.empty()) {
        lock.unlock();
        prepare(samples, result, [this] { return stopping_.load(); });
        lock.lock();
      }
      const auto number = result.batch.number;
      ready_.emplace(number, std::move(result));
      batch_ready_.notify_one();
      if (ended_) room_.notify_all();
    }
  }

  template <class Stop>
  void prepare(std::span<const SampleKey> samples, Prepared& result, const Stop& stop) const {
    const c10::ParallelGuard serial(true);
    try {
      preparer_.prepare(samples, result, stop);
    } catch (...) {
      result.error = std::current_exception();
    }
  }

  void count_broken(const BrokenSample& sample) {
    ++broken_count_;
    list_ += "\n  " + sample.name + ": " + sample.reason;
  }

  // When a batch is given, not when it is prepared: so the batch at which a run ends does not depend on the workers.
  void note_broken(const Prepared& prepared) {
    for (const auto& [index, reason] : prepared.broken) {
      if (!broken_.insert(index).second) continue;
      const BrokenSample sample{preparer_.name(index), reason};
      if (known_.contains(sample.name)) continue;
      count_broken(sample);
      newly_broken_.push_back(sample);
    }
    if (broken_count_ <= options_.broken_limit) return;
    throw Error("loader", "at most " + std::to_string(options_.broken_limit) + " samples may be broken but " +
                              std::to_string(broken_count_) + " are; repair or remove them:" + list_);
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    room_.notify_all();
    for (auto& worker : workers_) worker.join();
  }

  const Preparer preparer_;
  BatchOrder order_;
  const LoaderOptions options_;

  std::mutex mutex_;  // of what follows up to workers_
  std::condition_variable room_;
  std::condition_variable batch_ready_;
  std::map<int64_t, Prepared> ready_;
  int64_t next_to_start_;
  int64_t next_to_give_;
  std::atomic<bool> stopping_ = false;
  bool ended_ = false;
  std::vector<std::thread> workers_;

  // Of the caller's thread alone.
  std::set<int64_t> broken_;     // of this sitting: a set may give several samples one name
  std::set<std::string> known_;  // of those before, of which a log has the names alone
  int64_t broken_count_ = 0;     // of all sittings
  std::vector<BrokenSample> newly_broken_;
  std::string list_;
  std::exception_ptr failure_;
  double seconds_waited_ = 0;
};

Loader::Loader(std::shared_ptr<const Dataset> dataset, const Pipeline& pipeline, const BatchOrder& order,
               const LoaderOptions& options)
    : impl_(std::make_unique<Impl>(std::move(dataset), pipeline, order, options)) {}
Loader::~Loader() = default;
std::optional<Batch> Loader::next() { return impl_->next(); }
std::vector<BrokenSample> Loader::newly_broken() { return impl_->newly_broken(); }
double Loader::seconds_waited() const { return impl_->seconds_waited(); }

}  // namespace frn::data
