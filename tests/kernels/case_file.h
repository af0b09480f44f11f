// The shapes of tests/cases, as the kernels see them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace frn::kernels {

struct Shape {
  int64_t samples;
  int64_t channels;
  int64_t positions;
};

// Every line `N C [spatial...]`; N at most `max_samples`.
std::vector<Shape> read_shapes(const std::string& file, int64_t max_samples);

}  // namespace frn::kernels
