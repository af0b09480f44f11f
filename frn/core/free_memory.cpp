#include "frn/core/free_memory.h"

#include <algorithm>
#include <fstream>
#include <string>

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

// Of the process's own group and of those around it the tightest counts.
std::optional<int64_t> free_of_groups(const std::filesystem::path& root) {
  std::ifstream in(root / "proc/self/cgroup");
  std::optional<int64_t> least;
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("0::/")) continue;  // version 2; version 1 has a line for each kind of limit
    const auto top = root / "sys/fs/cgroup";
    std::filesystem::path group = line.substr(4);
    while (true) {
      const auto limit = number_in(top / group / "memory.max");
      const auto used = number_in(top / group / "memory.current");
      if (limit && used) {
        const int64_t left = std::max<int64_t>(0, *limit - *used);
        least = std::min(least.value_or(left), left);
      }
      if (group.empty()) break;
      group = group.parent_path();
    }
  }
  return least;
}

}  // namespace

std::optional<int64_t> free_memory(const std::filesystem::path& root) {
  const auto machine = free_of_machine(root);
  const auto groups = free_of_groups(root);
  if (machine && groups) return std::min(*machine, *groups);
  return machine ? machine : groups;
}

}  // namespace frn
