#include "frn/core/random.h"

namespace frn {
namespace {

// The finaliser of SplitMix64 (Steele, Lea and Flood 2014): a bijection of 64-bit words that passes BigCrush on
// consecutive multiples of kGolden.
constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;
constexpr uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace

RandomKey RandomKey::with(uint64_t part) const { return RandomKey(mix(mix(value_ + kGolden) + part * kGolden + 1)); }

uint64_t Random::bits() { return mix(key_ + kGolden * ++position_); }

double Random::uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }

double Random::uniform(double low, double high) { return low + (high - low) * uniform(); }

// Lemire's multiplication; the few values that would favour some results are drawn again.
int64_t Random::below(int64_t count) {
  const auto n = static_cast<uint64_t>(count);
  const uint64_t reject_below = (0 - n) % n;
  while (true) {
    const auto product = static_cast<unsigned __int128>(bits()) * n;
    if (static_cast<uint64_t>(product) >= reject_below) return static_cast<int64_t>(product >> 64);
  }
}

}  // namespace frn
