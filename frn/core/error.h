// core/ holds what every folder may use and what needs no torch: errors, random numbers, files, logs, JSON and TOML.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace frn {

// An error a user can act on. The text reads "[operation] what was expected, what came, what to do". It is the one type
// for callers to catch: all of frn throws it, and nothing else of its own, but for two. Operators throw c10::Error, as
// all of LibTorch's do, and the parsers of frn/core/value.h throw ValueError, which knows no file yet.
class Error : public std::runtime_error {
 public:
  Error(std::string_view operation, std::string_view sentence);
};

}  // namespace frn
