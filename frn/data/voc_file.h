// One annotation file of Pascal VOC. Without torch, so that a fuzzer can build it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frn/data/image.h"

namespace frn::data {

// As the file has it: pixels are counted from 1, and the last ones belong to the object.
struct VocObject {
  std::string name;
  double xmin = 0;
  double ymin = 0;
  double xmax = 0;
  double ymax = 0;
  bool difficult = false;
};

struct VocFile {
  Size size;  // 0 x 0 when the file does not say
  std::vector<VocObject> objects;
};

// Throws frn::Error, as "[voc] source: ...", for what is no XML, has no <annotation>, or has an object without a name
// or a box of four numbers. Entities that the file defines itself are not expanded.
VocFile parse_voc(std::span<const uint8_t> bytes, std::string_view source);

}  // namespace frn::data
