// A 64-bit checksum that finds damaged files: fast, and no protection against intent.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace frn {

uint64_t checksum(std::string_view bytes);
// Throws frn::Error when the file cannot be read.
uint64_t checksum_of_file(const std::filesystem::path& path);

}  // namespace frn
