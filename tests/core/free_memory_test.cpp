#include "frn/core/free_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace frn {
namespace {

// A machine of files: /proc/meminfo and control groups as Linux writes them.
class FreeMemory : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(root_); }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  void write_machine() const {
    write("proc/meminfo",
          "MemTotal: 24000 kB\nMemFree: 1 kB\nMemAvailable: 2000 kB\nHugePages_Total: 0\nSwapFree: 48 kB\n");
  }
  std::filesystem::path root_ = std::filesystem::path(testing::TempDir()) / "frn-free-memory";
};

TEST_F(FreeMemory, IsWhatTheMachineCanGiveWithSwap) {
  write_machine();
  EXPECT_EQ(free_memory(root_), 2048 * 1024);
}

TEST_F(FreeMemory, IsWhatTheTightestGroupAroundTheProcessLeaves) {
  write_machine();
  write("proc/self/cgroup", "0::/job/step\n");
  write("sys/fs/cgroup/job/step/memory.max", "max\n");
  write("sys/fs/cgroup/job/step/memory.current", "5\n");
  write("sys/fs/cgroup/job/memory.max", "1000000\n");
  write("sys/fs/cgroup/job/memory.current", "400000\n");
  EXPECT_EQ(free_memory(root_), 600000);
}

TEST_F(FreeMemory, KnowsTheFirstVersionOfGroupsToo) {
  write_machine();
  write("proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/job\n0::/a\n");
  write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "900000\n");
  write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "400000\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "400000\n");
  EXPECT_EQ(free_memory(root_), 500000);
}

// A container that has read a large data set is full of its files.
TEST_F(FreeMemory, CountsWhatAGroupHoldsOfFilesAsFree) {
  write_machine();
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/memory.max", "1000000\n");
  write("sys/fs/cgroup/memory.current", "990000\n");
  write("sys/fs/cgroup/memory.stat",
        "anon 300000\nfile 690000\nshmem 40000\ninactive_file 500000\nactive_file 150000\n");
  EXPECT_EQ(free_memory(root_), 660000);
}

TEST_F(FreeMemory, CountsFilesInTheFirstVersionOfGroupsToo) {
  write_machine();
  write("proc/self/cgroup", "4:memory:/\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "1000000\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "990000\n");
  write("sys/fs/cgroup/memory/memory.stat",
        "inactive_file 1\nactive_file 2\ntotal_inactive_file 500000\ntotal_active_file 150000\n");
  EXPECT_EQ(free_memory(root_), 660000);
}

TEST_F(FreeMemory, OfAGroupThatIsFullIsNone) {
  write_machine();
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/memory.max", "100\n");
  write("sys/fs/cgroup/memory.current", "130\n");
  EXPECT_EQ(free_memory(root_), 0);
}

TEST_F(FreeMemory, IsUnknownWhereNothingTells) { EXPECT_EQ(free_memory(root_), std::nullopt); }

}  // namespace
}  // namespace frn
