// What the tests of the format share: files in memory and in a folder that goes away, and the text of an error.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

#include "frn/core/error.h"
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

inline std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void put(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

template <typename Function>
std::string error_of(const Function& function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

class FolderTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  int64_t files() const { return std::distance(std::filesystem::directory_iterator(folder_), {}); }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("frn's test of files " + std::to_string(getpid()));
};

}  // namespace frn
