// Runs CUDA kernels on the host, for tests: every CUDA thread is a fiber, resumed in an order that the test chooses.
// Barriers and shuffles wait for all who must come. Blocks run one after the other; what they share is checked by who
// touched what since the last barrier, so that a race is found in any order. What it finds it throws as Failure:
//
//   an access outside of the buffers or of shared memory, or misaligned for its width
//   a read of shared memory that nobody wrote
//   two threads, one of them writing, at one address without a barrier between them; two blocks, in one launch
//   a barrier that some threads never reach, and a shuffle whose mask is not the lanes that come
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace frn::kernels::emulation {

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class Order : uint8_t { kAscending, kDescending, kShuffled };

struct Grid {
  int64_t blocks;
  int threads;
  size_t shared_bytes;
  Order order = Order::kAscending;
  uint64_t seed = 0;            // for kShuffled
  bool count_requests = false;  // it takes time
};

// What a launch moved to or from a buffer. The memory of a GPU moves sectors of 32 bytes; a warp's lanes that execute
// one instruction together make one request.
struct Traffic {
  int64_t sectors_read = 0;  // each counted once however often it is read
  int64_t sectors_written = 0;
  int64_t read_requests = 0;
  int64_t write_requests = 0;
  int64_t request_sectors = 0;  // sectors of all requests, read or written
};

// The global memory that a launch may touch.
class Memory {
 public:
  // A null pointer or no bytes: a buffer that is not there.
  void add(std::string name, const void* first, size_t bytes, bool writable);
  Traffic traffic(const std::string& name) const;

  // The rest is the emulator's.
  struct Touch {
    int32_t write_block = kNobody;
    int32_t read_block = kNobody;
    int16_t write_thread = 0;
    int16_t write_epoch = 0;
    int16_t read_thread = 0;
    int16_t read_epoch = 0;
  };
  static constexpr int kNobody = -1;
  static constexpr int kMany = -2;
  static constexpr size_t kGrain = 2;  // bytes: the smallest value

  struct Buffer {
    std::string name;
    uintptr_t first;
    size_t bytes;
    bool writable;
    std::vector<Touch> touches;
    std::vector<uint8_t> sectors;  // bit 0: read, bit 1: written
    Traffic requests;
  };
  Buffer* find(uintptr_t address);
  std::vector<Buffer>& buffers() { return buffers_; }

 private:
  std::vector<Buffer> buffers_;
};

// Runs kernel() on every thread of the grid. Traffic is that of this launch alone.
void launch(const Grid& grid, Memory& memory, const std::function<void()>& kernel);

}  // namespace frn::kernels::emulation
