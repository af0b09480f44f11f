// Where sets of real images lie that tests use when they are there.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace frn::data {

inline std::filesystem::path shared_data(const std::string& name) {
  const char* folder = std::getenv("FRN_SHARED_DATA");
  return std::filesystem::path(folder != nullptr ? folder : FRN_SHARED_DATA_DEFAULT) / name;
}

}  // namespace frn::data
