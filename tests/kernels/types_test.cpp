// 16-bit conversions against arithmetic definitions, for every bit pattern.
#include <gtest/gtest.h>

#include <cmath>

#include "frn/kernels/types.h"

namespace frn::kernels {
namespace {

TEST(Float16, EveryPatternSurvivesWideningAndNarrowing) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Float16 half{static_cast<uint16_t>(bits)};
    const float wide = to_float(half);
    Float16 back;
    from_float(wide, back);
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(to_float(back)));
    } else {
      ASSERT_EQ(back.bits, half.bits) << bits;
    }
  }
}

TEST(Float16, WideningGivesTheDefinedValue) {
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const int exponent = static_cast<int>(bits >> 10);
    const double fraction = static_cast<double>(bits & 0x3ff) / 1024;
    const double want = exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1 + fraction, exponent - 15);
    ASSERT_EQ(static_cast<double>(to_float(Float16{static_cast<uint16_t>(bits)})), want) << bits;
  }
}

// Between two neighbours, the nearer one; half-way, the even one.
template <typename H>
void expect_nearest(uint16_t lower) {
  const double a = static_cast<double>(to_float(H{lower}));
  const double b = static_cast<double>(to_float(H{static_cast<uint16_t>(lower + 1)}));
  if (!std::isfinite(b)) return;
  const auto narrow = [](double v) {
    H out;
    from_float(static_cast<float>(v), out);
    return out.bits;
  };
  ASSERT_EQ(narrow(a + (b - a) * 0.25), lower);
  ASSERT_EQ(narrow(a + (b - a) * 0.75), lower + 1);
  ASSERT_EQ(narrow(a + (b - a) * 0.5), lower % 2 == 0 ? lower : lower + 1);
}

TEST(Float16, NarrowingRoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) expect_nearest<Float16>(static_cast<uint16_t>(bits));
}
TEST(BFloat16, NarrowingRoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x7f80; ++bits) expect_nearest<BFloat16>(static_cast<uint16_t>(bits));
}
TEST(BFloat16, NaNStaysNaN) {
  BFloat16 out;
  uint32_t bits = 0x7f800001;  // a NaN whose upper half alone would read as infinity
  float nan;
  std::memcpy(&nan, &bits, sizeof nan);
  from_float(nan, out);
  EXPECT_TRUE(std::isnan(to_float(out)));
}

}  // namespace
}  // namespace frn::kernels
