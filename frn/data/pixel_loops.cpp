#include "frn/data/pixel_loops.h"

#include <algorithm>
#include <array>
#include <cmath>

#undef HWY_TARGET_INCLUDE
// Highway's name.
// NOLINTNEXTLINE(readability-identifier-naming)
#define HWY_TARGET_INCLUDE "frn/data/pixel_loops.cpp"
#include "hwy/foreach_target.h"
// foreach_target.h goes before the rest: it sets the target that the rest is compiled for.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace frn::data::loops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Product and sum are rounded apart, as the scalar ends of the rows do it.
template <class Bytes>
HWY_INLINE V normalised(Bytes bytes, V scale, V offset) {
  const hn::Rebind<int32_t, D> d32;
  return hn::Add(hn::Mul(hn::ConvertTo(D(), hn::PromoteTo(d32, bytes)), scale), offset);
}

template <bool kFlip>
HWY_INLINE V in_order(V v) {
  if constexpr (kFlip) return hn::Reverse(D(), v);
  return v;
}

// kStep 1: planes; 3: interleaved, and plane is 1.
template <bool kFlip, int64_t kStep>
void colour_row(const uint8_t* row, int64_t width, const float* scale, const float* offset, float* out, int64_t plane) {
  const D d;
  const hn::Rebind<uint8_t, D> d8;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const V scales[3] = {hn::Set(d, scale[0]), hn::Set(d, scale[1]), hn::Set(d, scale[2])};
  const V offsets[3] = {hn::Set(d, offset[0]), hn::Set(d, offset[1]), hn::Set(d, offset[2])};
  int64_t i = 0;
  for (; i + lanes <= width; i += lanes) {
    hn::Vec<decltype(d8)> r8;
    hn::Vec<decltype(d8)> g8;
    hn::Vec<decltype(d8)> b8;
    hn::LoadInterleaved3(d8, row + 3 * (kFlip ? width - i - lanes : i), r8, g8, b8);
    const V r = in_order<kFlip>(normalised(r8, scales[0], offsets[0]));
    const V g = in_order<kFlip>(normalised(g8, scales[1], offsets[1]));
    const V b = in_order<kFlip>(normalised(b8, scales[2], offsets[2]));
    if constexpr (kStep == 3) {
      hn::StoreInterleaved3(r, g, b, d, out + 3 * i);
    } else {
      hn::StoreU(r, d, out + i);
      hn::StoreU(g, d, out + plane + i);
      hn::StoreU(b, d, out + 2 * plane + i);
    }
  }
  for (; i < width; ++i) {
    const uint8_t* pixel = row + 3 * (kFlip ? width - 1 - i : i);
    for (int64_t c = 0; c < 3; ++c) {
      out[c * plane + i * kStep] = static_cast<float>(pixel[c]) * scale[c] + offset[c];
    }
  }
}

void row_to_planes(const uint8_t* row, int64_t width, const float* scale, const float* offset, bool flip, float* red,
                   int64_t plane) {
  flip ? colour_row<true, 1>(row, width, scale, offset, red, plane)
       : colour_row<false, 1>(row, width, scale, offset, red, plane);
}

void row_to_interleaved(const uint8_t* row, int64_t width, const float* scale, const float* offset, bool flip,
                        float* out) {
  flip ? colour_row<true, 3>(row, width, scale, offset, out, 1)
       : colour_row<false, 3>(row, width, scale, offset, out, 1);
}

// The loops below are plain: without branches the compiler makes vector instructions of the target from them.

void grey_row(const uint8_t* row, int64_t width, float scale, float offset, bool flip, float* out) {
  if (flip) {
    for (int64_t i = 0; i < width; ++i) out[i] = static_cast<float>(row[width - 1 - i]) * scale + offset;
  } else {
    for (int64_t i = 0; i < width; ++i) out[i] = static_cast<float>(row[i]) * scale + offset;
  }
}

void add(float value, float* values, int64_t count) {
  for (int64_t i = 0; i < count; ++i) values[i] += value;
}

void scale_and_add(float factor, float summand, float* values, int64_t count) {
  for (int64_t i = 0; i < count; ++i) values[i] = values[i] * factor + summand;
}

void cut_to_unit(float* values, int64_t count) {
  for (int64_t i = 0; i < count; ++i) values[i] = std::min(std::max(values[i], 0.0F), 1.0F);
}

double sum(const float* values, int64_t count) {
  constexpr int64_t kLanes = 16;
  double sums[kLanes] = {};
  const int64_t whole = count / kLanes * kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) sums[lane] += static_cast<double>(values[i + lane]);
  }
  double total = 0;
  for (const double lane : sums) total += lane;
  for (int64_t i = whole; i < count; ++i) total += static_cast<double>(values[i]);
  return total;
}

// With hue and value kept, value - channel is proportional to the saturation, range/value: the factor is cut so that it
// does not exceed 1. Black has none.
void scale_saturation(float factor, float* HWY_RESTRICT red, float* HWY_RESTRICT green, float* HWY_RESTRICT blue,
                      int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const float r = red[i];
    const float g = green[i];
    const float b = blue[i];
    const float value = std::max(r, std::max(g, b));
    const float range = value - std::min(r, std::min(g, b));
    const float by = std::min(factor, std::max(value, 0.0F) / std::max(range, 1e-30F));
    red[i] = value - (value - r) * by;
    green[i] = value - (value - g) * by;
    blue[i] = value - (value - b) * by;
  }
}

// Hue in sixths of a turn: a channel is the smallest value plus the range times how near the hue is to that channel.
void turn_hue(float turn, float* HWY_RESTRICT red, float* HWY_RESTRICT green, float* HWY_RESTRICT blue, int64_t count) {
  const float sixths = 6 * turn;
  const auto near = [](float x) { return std::min(std::max(x, 0.0F), 1.0F); };
  for (int64_t i = 0; i < count; ++i) {
    const float r = red[i];
    const float g = green[i];
    const float b = blue[i];
    const float value = std::max(r, std::max(g, b));
    const float least = std::min(r, std::min(g, b));
    const float range = value - least;
    const float one_by_range = 1 / std::max(range, 1e-30F);
    const float of_red = (g - b) * one_by_range;
    const float of_green = 2 + (b - r) * one_by_range;
    const float of_blue = 4 + (r - g) * one_by_range;
    const float not_red = value == g ? of_green : of_blue;
    float hue = (value == r ? of_red : not_red) + sixths;
    hue += hue < 0 ? 6.0F : 0.0F;
    hue -= hue >= 6 ? 6.0F : 0.0F;
    red[i] = least + range * near(std::abs(hue - 3) - 1);
    green[i] = least + range * near(2 - std::abs(hue - 2));
    blue[i] = least + range * near(2 - std::abs(hue - 4));
  }
}

}  // namespace frn::data::loops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace frn::data::loops {

HWY_EXPORT(row_to_planes);
HWY_EXPORT(row_to_interleaved);
HWY_EXPORT(grey_row);
HWY_EXPORT(add);
HWY_EXPORT(scale_and_add);
HWY_EXPORT(cut_to_unit);
HWY_EXPORT(sum);
HWY_EXPORT(scale_saturation);
HWY_EXPORT(turn_hue);

void row_to_planes(const uint8_t* row, int64_t width, const float* scale, const float* offset, bool flip, float* red,
                   int64_t plane) {
  HWY_DYNAMIC_DISPATCH(row_to_planes)(row, width, scale, offset, flip, red, plane);
}
void row_to_interleaved(const uint8_t* row, int64_t width, const float* scale, const float* offset, bool flip,
                        float* out) {
  HWY_DYNAMIC_DISPATCH(row_to_interleaved)(row, width, scale, offset, flip, out);
}
void grey_row(const uint8_t* row, int64_t width, float scale, float offset, bool flip, float* out) {
  HWY_DYNAMIC_DISPATCH(grey_row)(row, width, scale, offset, flip, out);
}
void add(float value, float* values, int64_t count) { HWY_DYNAMIC_DISPATCH(add)(value, values, count); }
void scale_and_add(float factor, float summand, float* values, int64_t count) {
  HWY_DYNAMIC_DISPATCH(scale_and_add)(factor, summand, values, count);
}
void cut_to_unit(float* values, int64_t count) { HWY_DYNAMIC_DISPATCH(cut_to_unit)(values, count); }
double sum(const float* values, int64_t count) { return HWY_DYNAMIC_DISPATCH(sum)(values, count); }
void scale_saturation(float factor, float* red, float* green, float* blue, int64_t count) {
  HWY_DYNAMIC_DISPATCH(scale_saturation)(factor, red, green, blue, count);
}
void turn_hue(float turn, float* red, float* green, float* blue, int64_t count) {
  HWY_DYNAMIC_DISPATCH(turn_hue)(turn, red, green, blue, count);
}

}  // namespace frn::data::loops
#endif
