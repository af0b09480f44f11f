// What the tests of the format share: files in memory.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "tests/core/files.h"
#include "tests/core/python_file.h"

namespace frn {

// A file of this header, whatever it says, and this data.
inline std::string assemble(std::string_view header, std::string_view data = "") {
  const uint64_t length = header.size();
  std::string file(sizeof(length), '\0');
  std::memcpy(file.data(), &length, sizeof(length));
  return file.append(header).append(data);
}

inline std::string python_file() {
  std::string data;
  for (size_t i = 0; i < kPythonDataInHex.size(); i += 2) {
    data += static_cast<char>(std::stoi(std::string(kPythonDataInHex.substr(i, 2)), nullptr, 16));
  }
  return assemble(kPythonHeader, data);
}

inline std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

}  // namespace frn
