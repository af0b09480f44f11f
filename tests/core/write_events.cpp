// Writes an event file from lines "tag value step" of its input: write_events FOLDER [RESUMED_AFTER]. Driven by
// tests/parity/test_tensorboard.py.
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>

#include "frn/core/error.h"
#include "frn/core/tensorboard.h"

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  try {
    std::optional<int64_t> resumed_after;
    if (argc > 2) resumed_after = std::stoll(argv[2]);
    frn::tensorboard::EventFile file(argv[1], resumed_after);
    std::string tag;
    std::string value;  // a stream reads no nan
    int64_t step = 0;
    while (std::cin >> tag >> value >> step) file.scalar(tag, std::strtod(value.c_str(), nullptr), step);
    file.flush();
  } catch (const frn::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
