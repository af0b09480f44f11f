#include "tests/kernels/case_file.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace frn::kernels {

std::vector<Shape> read_shapes(const std::string& file, int64_t max_samples) {
  std::ifstream stream(std::string(FRN_CASES) + "/" + file);
  if (!stream) throw std::runtime_error("cannot read " + file);
  std::vector<Shape> shapes;
  for (std::string line; std::getline(stream, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    Shape shape{0, 0, 1};
    words >> shape.samples >> shape.channels;
    for (int64_t size = 0; words >> size;) shape.positions *= size;
    shape.samples = std::min(shape.samples, max_samples);
    shapes.push_back(shape);
  }
  if (shapes.empty()) throw std::runtime_error("no shapes in " + file);
  return shapes;
}

}  // namespace frn::kernels
