// The header of a safetensors file, from text and to text: the inside of frn/core/safetensors.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frn/core/safetensors.h"

namespace frn::safetensors {

inline constexpr size_t kLengthBytes = 8;

// `source` is the file, as messages call it.
[[noreturn]] void fail(std::string_view source, const std::string& sentence);
// A name for a message, shortened and without control characters.
std::string in_quotes(std::string_view name);

// The header's length, from the first kLengthBytes (fewer when the file has fewer) of a file of that size.
uint64_t header_length(std::span<const std::byte> first, uint64_t file_size, std::string_view source);
Header parse_header(std::string_view text, uint64_t file_size, std::string_view source);

// In the order of their bytes.
std::vector<const TensorViews::value_type*> in_file_order(const TensorViews& tensors);
// What stands before those: the length and the header, padded.
std::string opening_bytes(const TensorViews& tensors, const Metadata& metadata, std::string_view source);

}  // namespace frn::safetensors
