// core/ holds what every folder may use and what needs no torch: errors, and later random numbers, logs and JSON
// helpers.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace frn {

// An error a user can act on. The text reads "[operation] what was expected, what came, what to do".
class Error : public std::runtime_error {
 public:
  Error(std::string_view operation, std::string_view sentence);
};

}  // namespace frn
