// What is known of a sample and is to be learned from it, and how it follows its image through crops, scales and
// mirrors.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "frn/data/image.h"

namespace frn::data {

// In pixels, from the left and upper edge of the image; right and bottom are outside.
struct Box {
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;
  int64_t label = 0;
  bool crowd = false;  // stands for several objects that nobody counted
  bool operator==(const Box&) const = default;
};

// An object as the set's files have it, for scores, which count every one of them, even those that training leaves out.
struct Truth {
  int64_t id = 0;  // the file's number of it
  int64_t label = 0;
  double left = 0;
  double top = 0;
  double width = 0;
  double height = 0;
  double area = 0;  // the file's, which may be that of an outline within the box
  bool crowd = false;
  bool operator==(const Truth&) const = default;
};

// Each task reads what it needs of it.
struct Target {
  int64_t label = 0;              // the image's class
  std::vector<double> numbers{};  // to be predicted
  std::vector<Box> boxes{};       // to be learned
  at::Tensor extra{};             // anything else; it does not follow the image
  int64_t image_id = 0;           // the file's number of the image, by which detections are written
  std::vector<Truth> truths{};    // to be scored by, in pixels of the source: they do not follow the image
};

// What a pipeline did to an image: a point (x, y) of the source goes to ((x - left)*x_scale, (y - top)*y_scale), and
// then, when the image is mirrored, to (result.width - x, y).
struct Geometry {
  Size source;
  Size result;
  double left = 0;
  double top = 0;
  double x_scale = 1;
  double y_scale = 1;
  bool flip = false;
  double least_side = 0;  // boxes that are narrower or lower in the result are no target
  bool operator==(const Geometry&) const = default;
};

// The target of the image after it was moved: boxes are moved, cut at the edges, and left out when nothing of them is
// within the image, or less than geometry.least_side.
Target moved(Target target, const Geometry& geometry);
// A box of the result where it lies in the source, for predictions.
Box moved_back(const Box& box, const Geometry& geometry);

}  // namespace frn::data
