// How a stored image is to be turned before a person sees it (EXIF's tag 0x0112).
#pragma once

#include <cstdint>
#include <span>

#include "frn/data/image.h"

namespace frn::data {

// A viewed pixel (row, column) is the stored one at (column, row) if `swap`, counted from the other end if the flag of
// its direction says so.
struct Orientation {
  bool swap = false;
  bool from_bottom = false;  // of the stored rows
  bool from_right = false;   // of the stored columns

  bool is_plain() const { return !swap && !from_bottom && !from_right; }
  Size viewed(const Size& stored) const { return swap ? Size{stored.width, stored.height} : stored; }
  // Where the pixels of a viewed region are stored.
  Region stored(const Region& viewed, const Size& stored_size) const;
  // Turns stored pixels.
  Image apply(Image image) const;
};

// EXIF's numbers 1 to 8; any other is plain.
Orientation orientation_of(int exif);

// From the TIFF structure that EXIF is: plain when it has no such tag or is damaged.
Orientation read_orientation(std::span<const uint8_t> tiff);

}  // namespace frn::data
