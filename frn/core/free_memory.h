// How much memory this process can still have.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace frn {

// Bytes that the machine has free (swap included) or, where that is less, that the process's control group leaves, as
// containers and batch systems set one. What caches of files can give back counts as free. None where neither is known.
// `root` is the file system that /proc and /sys are in.
std::optional<int64_t> free_memory(const std::filesystem::path& root = "/");

}  // namespace frn
