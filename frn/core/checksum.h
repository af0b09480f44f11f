// Checksums that find damaged files: fast, and no protection against intent.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace frn {

// XXH3, 64 bits.
uint64_t checksum(std::string_view bytes);

// A file's, as it is written down: "xxh3:" and 16 hexadecimal digits. Throws frn::Error when the file cannot be read.
std::string checksum_of_file(const std::filesystem::path& path);

// Whether a file is the one whose checksum was written down: as above, or as frn up to 0.2 did, the digits alone and of
// a hash of its own. Throws frn::Error when the file cannot be read.
bool has_checksum(const std::filesystem::path& path, std::string_view written);

}  // namespace frn
