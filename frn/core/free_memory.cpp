#include "frn/core/free_memory.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <string>
#include <string_view>

namespace frn {
namespace {

constexpr int64_t kKilobyte = 1024;  // of /proc/meminfo

std::optional<int64_t> number_in(const std::filesystem::path& file) {
  std::ifstream in(file);
  int64_t number = 0;
  return in >> number ? std::optional(number) : std::nullopt;  // a group without a limit says "max"
}

std::optional<int64_t> free_of_machine(const std::filesystem::path& root) {
  std::ifstream in(root / "proc/meminfo");
  std::string name;
  std::string rest;
  std::optional<int64_t> available;
  int64_t swap = 0;
  for (int64_t kilobytes = 0; in >> name >> kilobytes; std::getline(in, rest)) {
    if (name == "MemAvailable:") available = kilobytes * kKilobyte;
    if (name == "SwapFree:") swap = kilobytes * kKilobyte;
  }
  return available ? std::optional(*available + swap) : std::nullopt;
}

// A hierarchy of control groups: version 2's, or version 1's for memory.
struct Hierarchy {
  const char* folder;
  const char* limit;
  const char* used;
  std::array<std::string_view, 2> cached;  // lines of memory.stat
};
constexpr Hierarchy kVersion2{"sys/fs/cgroup", "memory.max", "memory.current", {"active_file", "inactive_file"}};
constexpr Hierarchy kVersion1{"sys/fs/cgroup/memory",
                              "memory.limit_in_bytes",
                              "memory.usage_in_bytes",
                              {"total_active_file", "total_inactive_file"}};

// Files that were read stay in memory and count as used, until somebody else needs the room.
int64_t cached_by_group(const std::filesystem::path& folder, const Hierarchy& hierarchy) {
  std::ifstream in(folder / "memory.stat");
  std::string name;
  int64_t total = 0;
  for (int64_t bytes = 0; in >> name >> bytes;) {
    if (std::find(hierarchy.cached.begin(), hierarchy.cached.end(), name) != hierarchy.cached.end()) total += bytes;
  }
  return total;
}

// Of a group and of those around it the tightest counts.
std::optional<int64_t> free_of_group(const std::filesystem::path& root, const Hierarchy& hierarchy,
                                     std::filesystem::path group) {
  std::optional<int64_t> least;
  while (true) {
    const auto folder = root / hierarchy.folder / group;
    const auto limit = number_in(folder / hierarchy.limit);
    const auto used = number_in(folder / hierarchy.used);
    if (limit && used) {
      const int64_t left =
          std::max<int64_t>(0, *limit - std::max<int64_t>(0, *used - cached_by_group(folder, hierarchy)));
      least = std::min(least.value_or(left), left);
    }
    if (group.empty()) return least;
    group = group.parent_path();
  }
}

// /proc/self/cgroup has lines "number:kinds:/group"; version 2's number is 0 and its kinds are empty.
std::optional<int64_t> free_of_groups(const std::filesystem::path& root) {
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("0::/")) {
      if (const auto free = free_of_group(root, kVersion2, line.substr(4))) return free;
    }
    constexpr std::string_view kMemory = ":memory:/";
    if (const auto at = line.find(kMemory); at != std::string::npos) {
      return free_of_group(root, kVersion1, line.substr(at + kMemory.size()));
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<int64_t> free_memory(const std::filesystem::path& root) {
  const auto machine = free_of_machine(root);
  const auto groups = free_of_groups(root);
  if (machine && groups) return std::min(*machine, *groups);
  return machine ? machine : groups;
}

}  // namespace frn
