// Element types, layouts and the vocabulary of the kernels. Knows nothing of torch, threads or memory.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace frn::kernels {

// 16-bit storage formats. Values are widened to float before any arithmetic.
struct BFloat16 {
  uint16_t bits;
};
struct Float16 {
  uint16_t bits;
};

// The type in which a value of type T is computed with, and in which its parameters come.
template <typename T>
struct AccumulateOf {
  using type = float;
};
template <>
struct AccumulateOf<double> {
  using type = double;
};
template <typename T>
using Accumulate = typename AccumulateOf<T>::type;

// kContiguous: [samples, channels, positions]. kChannelsLast: [samples, positions, channels].
enum class Layout : uint8_t { kContiguous, kChannelsLast };
inline constexpr int kLayouts = 2;

// What is subtracted and divided by before gamma and beta.
enum class Norm : uint8_t { kIdentity, kUncentered, kCentered };
inline constexpr int kNorms = 3;

// z = max(y, threshold): no threshold, tau alone (ReLU is tau = 0), or kappa*y + tau (PReLU is tau = 0).
enum class Threshold : uint8_t { kNone, kConstant, kAffine };
inline constexpr int kThresholds = 3;

// What is added to y before its threshold: nothing, or a shortcut of x's shape (networks with residual additions).
enum class Addition : uint8_t { kNone, kShortcut };
inline constexpr int kAdditions = 2;
// The types whose loops can add a shortcut; the tables of the others are null there. Each variant takes seconds to
// compile, and networks are trained in these two.
template <typename T>
inline constexpr bool kAddsShortcut = std::is_same_v<T, float> || std::is_same_v<T, BFloat16>;

// Per-channel sums that backward needs: of dy, of dy*(x - mean), and over the blocked values of dz and dz*y.
enum GradientSum : int { kSumDy, kSumDyD, kSumBlockedDz, kSumBlockedDzY, kGradientSums };

inline float to_float(BFloat16 v) {
  const uint32_t bits = static_cast<uint32_t>(v.bits) << 16;
  float out;
  std::memcpy(&out, &bits, sizeof out);
  return out;
}
inline float to_float(Float16 v) {
  const uint32_t sign = static_cast<uint32_t>(v.bits & 0x8000u) << 16;
  const uint32_t exponent = (v.bits >> 10) & 0x1fu;
  const uint32_t fraction = v.bits & 0x3ffu;
  uint32_t bits;
  if (exponent == 0x1f) {
    bits = sign | 0x7f800000u | (fraction << 13);
  } else if (exponent == 0) {
    const float small = static_cast<float>(fraction) * 0x1p-24f;  // exact
    std::memcpy(&bits, &small, sizeof bits);
    bits |= sign;
  } else {
    bits = sign | ((exponent + 112) << 23) | (fraction << 13);
  }
  float out;
  std::memcpy(&out, &bits, sizeof out);
  return out;
}
inline float to_float(float v) { return v; }
inline double to_float(double v) { return v; }

// Narrowing rounds to nearest, ties to even, as PyTorch does; NaN stays NaN.
inline void from_float(double v, double& out) { out = v; }
inline void from_float(float v, float& out) { out = v; }
inline void from_float(float v, BFloat16& out) {
  uint32_t bits;
  std::memcpy(&bits, &v, sizeof bits);
  if (v != v) {
    out.bits = static_cast<uint16_t>((bits >> 16) | 0x40u);
    return;
  }
  bits += 0x7fffu + ((bits >> 16) & 1u);
  out.bits = static_cast<uint16_t>(bits >> 16);
}
inline void from_float(float v, Float16& out) {
  uint32_t bits;
  std::memcpy(&bits, &v, sizeof bits);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    out.bits = sign | 0x7e00u;
    return;
  }
  if (magnitude >= 0x477ff000u) {  // 65520 and above round to infinity
    out.bits = sign | 0x7c00u;
    return;
  }
  if (magnitude < 0x38800000u) {  // below 2^-14: a subnormal half; adding 0.5 makes the float unit round for us
    float absolute;
    std::memcpy(&absolute, &magnitude, sizeof absolute);
    absolute += 0.5f;
    uint32_t rounded;
    std::memcpy(&rounded, &absolute, sizeof rounded);
    out.bits = static_cast<uint16_t>(sign | (rounded - 0x3f000000u));
    return;
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  out.bits = static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

}  // namespace frn::kernels
