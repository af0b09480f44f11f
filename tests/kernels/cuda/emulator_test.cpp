// The emulator finds what it is there for: kernels with one mistake each, beside the same kernel without it.
#include "frn/kernels/emulation/emulator.h"

#include <gtest/gtest.h>

#include <numeric>

#include "frn/kernels/cuda/arguments.h"
#include "frn/kernels/cuda/device.cuh"

namespace frn::kernels::cuda {
namespace {

using emulation::Order;

class EmulatorTest : public testing::Test {
 protected:
  static constexpr int64_t kThreads = 64;

  EmulatorTest() : in_(kThreads * 4 + 4), out_(kThreads * 4) { std::iota(in_.begin(), in_.end(), 1.0f); }

  float* aligned_in() {
    const auto past = reinterpret_cast<uintptr_t>(in_.data()) % kPackBytes / sizeof(float);
    return in_.data() + (past == 0 ? 0 : 4 - past);
  }
  double* shared() { return reinterpret_cast<double*>(shared_memory()); }

  emulation::Memory memory() {
    emulation::Memory memory;
    memory.add("in", aligned_in(), sizeof(float) * kThreads * 4, false);
    memory.add("out", out_.data(), sizeof(double) * out_.size(), true);
    return memory;
  }

  // In every order a mistake must show and a right kernel must run.
  void expect_failure(const std::string& message, const std::function<void()>& kernel, int64_t blocks = 1) {
    for (const auto order : {Order::kAscending, Order::kDescending, Order::kShuffled}) {
      auto all = memory();
      try {
        emulation::launch({blocks, kThreads, sizeof(double) * kThreads, order, 7}, all, kernel);
        ADD_FAILURE() << "not found: " << message;
      } catch (const emulation::Failure& failure) {
        EXPECT_NE(std::string(failure.what()).find(message), std::string::npos) << failure.what();
      }
    }
  }
  void expect_success(const std::function<void()>& kernel, int64_t blocks = 1) {
    for (const auto order : {Order::kAscending, Order::kDescending, Order::kShuffled}) {
      auto all = memory();
      EXPECT_NO_THROW(emulation::launch({blocks, kThreads, sizeof(double) * kThreads, order, 7}, all, kernel));
    }
  }

  // Every thread gives its number to its left neighbour.
  void pass_left(bool barrier) {
    const int i = thread_index();
    store_shared(shared() + i, static_cast<double>(i));
    if (barrier) block_barrier();
    store_global(out_.data() + i, load_shared(shared() + (i + 1) % kThreads));
  }

  std::vector<float> in_;
  std::vector<double> out_;
};

TEST_F(EmulatorTest, RunsEveryThreadOfEveryBlock) {
  expect_success([&] { store_global(out_.data() + block_index() * kThreads + thread_index(), 1.0 + thread_index()); },
                 4);
  for (size_t i = 0; i < out_.size(); ++i) EXPECT_EQ(out_[i], 1.0 + static_cast<double>(i % kThreads));
}

TEST_F(EmulatorTest, FindsAMissingBarrier) {
  expect_success([&] { pass_left(true); });
  EXPECT_EQ(out_[0], 1.0);
  EXPECT_EQ(out_[kThreads - 1], 0.0);
  // In some orders the value is not there yet, in others it is there by luck.
  const auto fails_somehow = [&](Order order) {
    auto all = memory();
    EXPECT_THROW(emulation::launch({1, kThreads, sizeof(double) * kThreads, order, 7}, all, [&] { pass_left(false); }),
                 emulation::Failure);
  };
  for (const auto order : {Order::kAscending, Order::kDescending, Order::kShuffled}) fails_somehow(order);
}

TEST_F(EmulatorTest, FindsAWriteAfterAReadOfReusedSharedMemory) {
  const auto twice = [&](bool barrier) {
    pass_left(true);
    if (barrier) block_barrier();
    pass_left(true);
  };
  expect_success([&] { twice(true); });
  expect_failure("races", [&] { twice(false); });
}

TEST_F(EmulatorTest, FindsAThreadThatLeavesBeforeABarrier) {
  expect_failure("waits for ever: of 64 threads 63 are at a barrier, 0 in a shuffle, and 1 have left", [&] {
    if (thread_index() == 40) return;
    block_barrier();
  });
}

TEST_F(EmulatorTest, FindsTwoBlocksThatWriteToOneAddress) {
  expect_success([&] { store_global(out_.data() + block_index() * kThreads + thread_index(), 1.0); }, 2);
  expect_failure(
      "races with block", [&] { store_global(out_.data() + thread_index(), 1.0); }, 2);
}

TEST_F(EmulatorTest, FindsABlockThatReadsWhatAnotherWrites) {
  expect_failure(
      "races",
      [&] {
        if (block_index() == 0) store_global(out_.data() + thread_index(), 1.0);
        if (block_index() == 1) load_global(out_.data() + thread_index());
      },
      2);
}

TEST_F(EmulatorTest, FindsTwoThreadsThatWriteToOneAddress) {
  expect_failure("races with block 0", [&] { store_shared(shared() + thread_index() / 2, 1.0); });
}

TEST_F(EmulatorTest, FindsAMisalignedAccess) {
  expect_success([&] { load_global(reinterpret_cast<const Pack*>(aligned_in()) + thread_index()); });
  expect_failure("accesses 16 bytes at an address that is 4 bytes past such a unit",
                 [&] { load_global(reinterpret_cast<const Pack*>(aligned_in() + 1)); });
}

TEST_F(EmulatorTest, FindsAnAccessOutOfRange) {
  expect_failure("outside of every buffer", [&] { load_global(aligned_in() + kThreads * 4); });
  expect_failure("outside of every buffer", [&] { store_global(out_.data() - 1, 0.0); });
  expect_failure("goes beyond the 512 bytes of shared memory", [&] { store_shared(shared() + kThreads, 0.0); });
}

TEST_F(EmulatorTest, FindsAWriteToAnInput) {
  expect_failure("writes to in", [&] { store_global(aligned_in() + thread_index(), 0.0f); });
}

TEST_F(EmulatorTest, FindsSharedMemoryThatNobodyWrote) {
  expect_failure("reads shared memory that nobody wrote", [&] { load_shared(shared() + thread_index()); });
}

TEST_F(EmulatorTest, FindsAShuffleWithAWrongMask) {
  expect_success([&] {
    const int team = thread_index() / 8;
    store_global(out_.data() + thread_index(), team_sum(1.0 + team, 8));
  });
  EXPECT_EQ(out_[0], 8.0);
  EXPECT_EQ(out_[63], 64.0);
  expect_failure("is not in the mask of its own shuffle", [&] { shuffle_xor(0x0000ffffu, 1.0, 1); });
  expect_failure("whose mask lacks it", [&] { shuffle_xor(1u << thread_index() % 32, 1.0, 1); });
  // Half of the warp never comes.
  expect_failure("32 in a shuffle, and 32 have left", [&] {
    if (thread_index() % 32 < 16) shuffle_xor(~0u, 1.0, 1);
  });
}

TEST_F(EmulatorTest, AShuffleOrdersNoMemory) {
  expect_failure("races", [&] {
    const int i = thread_index();
    store_shared(shared() + i, 1.0);
    shuffle_xor(~0u, 1.0, 1);
    load_shared(shared() + (i ^ 1));
  });
}

TEST_F(EmulatorTest, CountsSectorsOnceAndRequestsPerWarp) {
  auto all = memory();
  emulation::Grid grid{2, kThreads, 0};
  grid.count_requests = true;
  emulation::launch(grid, all, [&] { load_global(aligned_in() + thread_index()); });
  const auto in = all.traffic("in");
  const auto first_sector = reinterpret_cast<uintptr_t>(aligned_in()) % 32 == 0 ? 8 : 9;
  EXPECT_EQ(in.sectors_read, first_sector);  // 64 floats; both blocks read them
  EXPECT_EQ(in.read_requests, 4);            // two warps of two blocks
  EXPECT_EQ(in.sectors_written, 0);
}

}  // namespace
}  // namespace frn::kernels::cuda
