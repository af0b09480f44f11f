// Files of the IDX format, as MNIST and Fashion-MNIST come: two zeros, a type, the number of dimensions, their sizes
// (32 bits, most significant byte first), the values. Without torch, so that a fuzzer can build it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "frn/data/bytes.h"

namespace frn::data {

struct IdxArray {
  std::vector<int64_t> shape;
  Bytes memory;  // the unpacked file, where the values start at `begin`
  size_t begin = 0;
  size_t count = 0;

  std::span<const uint8_t> values() const { return memory.span().subspan(begin, count); }
};

// Unsigned bytes of that many dimensions, from a file that may be gzipped. Throws frn::Error for anything else, and
// never asks for more memory than the file can fill.
IdxArray parse_idx(Bytes file, size_t dimensions, std::string_view source);

}  // namespace frn::data
