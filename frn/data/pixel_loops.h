// The loops over pixels that take time, compiled once per SIMD target (Highway) and chosen when the program runs. Every
// target does the same operations in the same order, so results do not depend on the machine.
#pragma once

#include <cstdint>

namespace frn::data::loops {

// out = value*scale[channel] + offset[channel] for one row of `width` pixels with 3 interleaved channels, mirrored when
// `flip`: to one plane per channel (red, red + plane, red + 2*plane), or interleaved.
void row_to_planes(const uint8_t* row, int64_t width, const float* scale, const float* offset, bool flip, float* red,
                   int64_t plane);
void row_to_interleaved(const uint8_t* row, int64_t width, const float* scale, const float* offset, bool flip,
                        float* out);
void grey_row(const uint8_t* row, int64_t width, float scale, float offset, bool flip, float* out);

// In place on `count` values.
void add(float value, float* values, int64_t count);
void scale_and_add(float factor, float summand, float* values, int64_t count);
void cut_to_unit(float* values, int64_t count);
// In double, in an order that depends on count alone.
double sum(const float* values, int64_t count);
// HSV's saturation times factor (up to 1), HSV's hue plus turn (from -1 to 1, of full turns).
void scale_saturation(float factor, float* red, float* green, float* blue, int64_t count);
void turn_hue(float turn, float* red, float* green, float* blue, int64_t count);

}  // namespace frn::data::loops
