#include "frn/kernels/emulation/emulator.h"

#include <algorithm>
#include <exception>
#include <random>

#include "frn/kernels/emulation/device.h"
#include "frn/kernels/emulation/fiber.h"

#ifdef FRN_EMULATION_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
#endif

namespace frn::kernels::emulation {
namespace {

constexpr int kLanes = 32;
constexpr size_t kSectorBytes = 32;
constexpr size_t kSharedAlignment = 16;

enum class State : uint8_t { kReady, kAtBarrier, kInShuffle, kDone };

struct Visit {
  uint64_t place;
  uint32_t count;
};

struct Thread {
  int index = 0;
  State state = State::kReady;
  unsigned mask = 0;  // of the shuffle that it waits in
  int step = 0;
  uint64_t bits = 0;
  std::vector<Visit> visits;
};

struct Request {
  uint64_t warp_and_visit;
  uint64_t place;
  uint64_t sector;
  uint32_t buffer;
  Access access;
  auto operator<=>(const Request&) const = default;
};

// Only these edges order memory for the thread sanitizer.
void happens_before([[maybe_unused]] char& edge) {
#ifdef FRN_EMULATION_THREAD_SANITIZER
  __tsan_release(&edge);
#endif
}
void happens_after([[maybe_unused]] char& edge) {
#ifdef FRN_EMULATION_THREAD_SANITIZER
  __tsan_acquire(&edge);
#endif
}

// The thread sanitizer takes what the library copies for the emulator, on a kernel's fiber, for the kernel's own.
class Unseen {
 public:
#ifdef FRN_EMULATION_THREAD_SANITIZER
  Unseen() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~Unseen() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
#else
  Unseen() = default;
  ~Unseen() = default;
#endif
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;
};

class Emulator;
Emulator* emulator = nullptr;

std::string where(const Place& place) {
  const std::string file = place.file_name();
  return file.substr(file.find_last_of('/') + 1) + ":" + std::to_string(place.line());
}

class Emulator {
 public:
  Emulator(const Grid& grid, Memory& memory, const std::function<void()>& kernel)
      : grid_(grid), memory_(memory), kernel_(kernel), random_(grid.seed) {
    for (auto& buffer : memory.buffers()) {
      buffer.touches.assign(buffer.bytes / Memory::kGrain + 1, {});
      buffer.sectors.assign(buffer.bytes / kSectorBytes + 2, 0);
      buffer.requests = {};
    }
  }

  void run() {
    std::vector<int64_t> blocks(static_cast<size_t>(grid_.blocks));
    for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<int64_t>(i);
    put_in_order(blocks);
    for (const int64_t block : blocks) run_block(block);
  }

  Thread& current() { return threads_[static_cast<size_t>(current_)]; }
  const Grid& grid() const { return grid_; }
  int64_t block() const { return block_; }
  unsigned char* shared() {
    const auto address = reinterpret_cast<uintptr_t>(shared_.data());
    return shared_.data() + (kSharedAlignment - address % kSharedAlignment) % kSharedAlignment;
  }

  void barrier() {
    happens_before(barrier_);
    wait(State::kAtBarrier);
    happens_after(barrier_);
  }

  uint64_t exchange(unsigned mask, uint64_t bits, int step, const Place& place) {
    Thread& me = current();
    const int lane = me.index % kLanes;
    const int source = lane ^ step;
    if ((mask >> lane & 1) == 0) fail("is not in the mask of its own shuffle", place);
    if (source >= kLanes || (mask >> source & 1) == 0) {
      fail("reads lane " + std::to_string(source) + " in a shuffle whose mask lacks it", place);
    }
    me.mask = mask;
    me.step = step;
    me.bits = bits;
    me.state = State::kInShuffle;
    if (all_have_come(me)) {
      finish_shuffle(me);
    } else {
      wait(State::kInShuffle);
    }
    return current().bits;
  }

  void touch_global(uintptr_t address, size_t bytes, Access access, const Place& place) {
    check_alignment(address, bytes, place);
    Memory::Buffer* const buffer = memory_.find(address);
    const char* const verb = access == Access::kRead ? "reads " : "writes ";
    if (buffer == nullptr || address + bytes > buffer->first + buffer->bytes) {
      fail(verb + std::to_string(bytes) + " bytes outside of every buffer" +
               (buffer == nullptr ? "" : ", at the end of " + buffer->name),
           place);
    }
    if (access == Access::kWrite && !buffer->writable) fail("writes to " + buffer->name, place);
    const size_t first = (address - buffer->first) / Memory::kGrain;
    for (size_t i = first; i < first + bytes / Memory::kGrain; ++i) {
      note(buffer->touches[i], access, buffer->name.c_str(), i * Memory::kGrain, place);
    }
    const uintptr_t base = buffer->first / kSectorBytes;
    for (uintptr_t s = address / kSectorBytes; s <= (address + bytes - 1) / kSectorBytes; ++s) {
      buffer->sectors[s - base] |= access == Access::kRead ? 1 : 2;
      if (!grid_.count_requests) continue;
      note_request(static_cast<uint32_t>(buffer - memory_.buffers().data()), s, access, place);
    }
  }

  void touch_shared(uintptr_t address, size_t bytes, Access access, const Place& place) {
    check_alignment(address, bytes, place);
    const auto base = reinterpret_cast<uintptr_t>(shared());
    if (address < base || address + bytes > base + grid_.shared_bytes) {
      fail("goes beyond the " + std::to_string(grid_.shared_bytes) + " bytes of shared memory", place);
    }
    const size_t first = (address - base) / Memory::kGrain;
    for (size_t i = first; i < first + bytes / Memory::kGrain; ++i) {
      Memory::Touch& touch = shared_touches_[i];
      if (access == Access::kRead && touch.write_block == Memory::kNobody) {
        fail("reads shared memory that nobody wrote, at " + std::to_string(i * Memory::kGrain), place);
      }
      note(touch, access, "shared memory", i * Memory::kGrain, place);
    }
  }

  void run_thread() {
    fiber().entered();
    happens_after(block_begins_);
    try {
      kernel_();
    } catch (...) {
      failure_ = std::current_exception();
    }
    wait(State::kDone);
  }

 private:
  [[noreturn]] void fail(const std::string& what, const Place& place) {
    throw Failure("block " + std::to_string(block_) + ", thread " + std::to_string(current_) + " " + what + " (" +
                  where(place) + ")");
  }

  void check_alignment(uintptr_t address, size_t bytes, const Place& place) {
    if (address % bytes == 0) return;
    fail("accesses " + std::to_string(bytes) + " bytes at an address that is " + std::to_string(address % bytes) +
             " bytes past such a unit",
         place);
  }

  // Two blocks are never ordered; two threads of a block are if a barrier lies between them.
  void note(Memory::Touch& touch, Access access, const char* memory, size_t at, const Place& place) {
    const auto what = [&] { return "byte " + std::to_string(at) + " of " + memory; };
    const auto block_number = static_cast<int32_t>(block_);
    const auto other = [&](int block, int thread, int epoch) {
      return block != Memory::kNobody && (block != block_number || (thread != current_ && epoch == epoch_));
    };
    if (other(touch.write_block, touch.write_thread, touch.write_epoch)) {
      fail("races with block " + std::to_string(touch.write_block) + ", thread " + std::to_string(touch.write_thread) +
               ", which wrote " + what(),
           place);
    }
    if (access == Access::kWrite) {
      if (other(touch.read_block, touch.read_thread, touch.read_epoch)) {
        fail("races: it writes " + what() + ", which another thread read", place);
      }
      touch.write_block = block_number;
      touch.write_thread = static_cast<int16_t>(current_);
      touch.write_epoch = static_cast<int16_t>(epoch_);
      return;
    }
    const bool first = touch.read_block == Memory::kNobody;
    const bool mine = touch.read_block == block_number;
    if (first || (mine && touch.read_epoch != epoch_)) {
      touch.read_thread = static_cast<int16_t>(current_);
    } else if (touch.read_thread != current_ || !mine) {
      touch.read_thread = Memory::kMany;
    }
    touch.read_block = first || mine ? block_number : Memory::kMany;
    touch.read_epoch = static_cast<int16_t>(epoch_);
  }

  void note_request(uint32_t buffer, uint64_t sector, Access access, const Place& place) {
    [[maybe_unused]] const Unseen unseen;
    // The lanes' n-th visits to one place of the source are one request.
    const uint64_t key =
        uint64_t{place.line()} * 1024 + place.column() + reinterpret_cast<uintptr_t>(place.file_name());
    Thread& me = current();
    auto visit = std::find_if(me.visits.begin(), me.visits.end(), [&](const Visit& v) { return v.place == key; });
    if (visit == me.visits.end()) visit = me.visits.insert(visit, Visit{key, 0});
    const uint64_t warp = static_cast<uint64_t>(me.index / kLanes);
    requests_.push_back({warp << 32 | visit->count++, key, sector, buffer, access});
  }

  void count_requests() {
    std::sort(requests_.begin(), requests_.end());
    requests_.erase(std::unique(requests_.begin(), requests_.end()), requests_.end());
    for (size_t i = 0; i < requests_.size(); ++i) {
      const Request& r = requests_[i];
      Traffic& traffic = memory_.buffers()[r.buffer].requests;
      ++traffic.request_sectors;
      const bool same = i > 0 && requests_[i - 1].warp_and_visit == r.warp_and_visit &&
                        requests_[i - 1].place == r.place && requests_[i - 1].buffer == r.buffer;
      if (!same) ++(r.access == Access::kRead ? traffic.read_requests : traffic.write_requests);
    }
    requests_.clear();
  }

  template <typename V>
  void put_in_order(std::vector<V>& values) {
    if (grid_.order == Order::kDescending) std::reverse(values.begin(), values.end());
    if (grid_.order == Order::kShuffled) std::shuffle(values.begin(), values.end(), random_);
  }

  // Stacks are kept for the next block and the next launch.
  static std::vector<Fiber>& fibers() {
    static std::vector<Fiber> all(1024);
    return all;
  }
  Fiber& fiber() { return fibers()[static_cast<size_t>(current_)]; }

  static void enter() { emulator->run_thread(); }

  // Blocks are ordered here, whatever a GPU does: what they share is `note`'s to see.
  void run_block(int64_t block) {
    block_ = block;
    epoch_ = 0;
    // Memory that a kernel forgets to write holds no number.
    shared_.assign(grid_.shared_bytes + kSharedAlignment, 0xff);
    shared_touches_.assign(grid_.shared_bytes / Memory::kGrain + 1, {});
    threads_.assign(static_cast<size_t>(grid_.threads), {});
    for (int i = 0; i < grid_.threads; ++i) {
      threads_[static_cast<size_t>(i)].index = i;
      fibers()[static_cast<size_t>(i)].start(&Emulator::enter);
    }
    happens_before(block_begins_);
    while (run_ready_threads()) {
    }
    happens_after(thread_waits_);
    count_requests();
  }

  // Each thread that can go on, up to where it waits next; false when all are done.
  bool run_ready_threads() {
    ready_.clear();
    size_t done = 0;
    size_t at_barrier = 0;
    for (const Thread& t : threads_) {
      if (t.state == State::kReady) ready_.push_back(t.index);
      done += t.state == State::kDone ? 1 : 0;
      at_barrier += t.state == State::kAtBarrier ? 1 : 0;
    }
    if (done == threads_.size()) return false;
    if (ready_.empty()) {
      if (at_barrier != threads_.size()) throw_deadlock(done, at_barrier);
      ++epoch_;
      for (Thread& t : threads_) t.state = State::kReady;
      return true;
    }
    put_in_order(ready_);
    for (const int index : ready_) {
      current_ = index;
      fiber().resume();
      if (!failure_) continue;
      happens_after(thread_waits_);
      std::rethrow_exception(failure_);
    }
    return true;
  }

  [[noreturn]] void throw_deadlock(size_t done, size_t at_barrier) {
    happens_after(thread_waits_);
    const size_t in_shuffle = threads_.size() - done - at_barrier;
    throw Failure("block " + std::to_string(block_) + " waits for ever: of " + std::to_string(threads_.size()) +
                  " threads " + std::to_string(at_barrier) + " are at a barrier, " + std::to_string(in_shuffle) +
                  " in a shuffle, and " + std::to_string(done) + " have left");
  }

  void wait(State state) {
    happens_before(thread_waits_);
    current().state = state;
    fiber().leave();
  }

  Thread* lane_of(const Thread& thread, int lane) {
    const int first = thread.index / kLanes * kLanes;
    const auto index = static_cast<size_t>(first) + static_cast<size_t>(lane);
    return index < threads_.size() ? &threads_[index] : nullptr;
  }
  bool all_have_come(const Thread& me) {
    for (int lane = 0; lane < kLanes; ++lane) {
      if ((me.mask >> lane & 1) == 0) continue;
      const Thread* const other = lane_of(me, lane);
      if (other == nullptr || other->state != State::kInShuffle || other->mask != me.mask || other->step != me.step) {
        return false;
      }
    }
    return true;
  }
  void finish_shuffle(const Thread& me) {
    uint64_t bits[kLanes] = {};
    for (int lane = 0; lane < kLanes; ++lane) {
      if (me.mask >> lane & 1) bits[lane] = lane_of(me, lane ^ me.step)->bits;
    }
    for (int lane = 0; lane < kLanes; ++lane) {
      if ((me.mask >> lane & 1) == 0) continue;
      lane_of(me, lane)->bits = bits[lane];
      lane_of(me, lane)->state = State::kReady;
    }
  }

  const Grid& grid_;
  Memory& memory_;
  const std::function<void()>& kernel_;
  std::mt19937_64 random_;
  std::vector<Thread> threads_;
  std::vector<int> ready_;
  std::vector<unsigned char> shared_;
  std::vector<Memory::Touch> shared_touches_;
  std::vector<Request> requests_;
  std::exception_ptr failure_;
  int64_t block_ = 0;
  int current_ = 0;
  int epoch_ = 0;  // barriers that the block has passed
  char block_begins_ = 0;
  char thread_waits_ = 0;
  char barrier_ = 0;
};

}  // namespace

void Memory::add(std::string name, const void* first, size_t bytes, bool writable) {
  if (first == nullptr || bytes == 0) return;
  buffers_.push_back({std::move(name), reinterpret_cast<uintptr_t>(first), bytes, writable, {}, {}, {}});
}

Memory::Buffer* Memory::find(uintptr_t address) {
  for (auto& buffer : buffers_) {
    if (address >= buffer.first && address < buffer.first + buffer.bytes) return &buffer;
  }
  return nullptr;
}

Traffic Memory::traffic(const std::string& name) const {
  for (const auto& buffer : buffers_) {
    if (buffer.name != name) continue;
    Traffic traffic = buffer.requests;
    for (const uint8_t bits : buffer.sectors) {
      traffic.sectors_read += bits & 1;
      traffic.sectors_written += bits >> 1;
    }
    return traffic;
  }
  return {};
}

void launch(const Grid& grid, Memory& memory, const std::function<void()>& kernel) {
  Emulator run(grid, memory, kernel);
  emulator = &run;
  run.run();
  emulator = nullptr;
}

int thread_index() { return emulator->current().index; }
int block_threads() { return emulator->grid().threads; }
int64_t block_index() { return emulator->block(); }
void block_barrier() { emulator->barrier(); }
unsigned char* shared_memory() { return emulator->shared(); }
uint64_t exchange(unsigned mask, uint64_t bits, int step, const Place& place) {
  return emulator->exchange(mask, bits, step, place);
}
void touch_global(const void* p, size_t bytes, Access access, const Place& place) {
  emulator->touch_global(reinterpret_cast<uintptr_t>(p), bytes, access, place);
}
void touch_shared(const void* p, size_t bytes, Access access, const Place& place) {
  emulator->touch_shared(reinterpret_cast<uintptr_t>(p), bytes, access, place);
}

}  // namespace frn::kernels::emulation
