// Random numbers as a function of a key and a position alone (counter-based): the same on every machine, in any order
// of asking, with nothing to save but the key.
#pragma once

#include <cstdint>

namespace frn {

// A key from which others follow: RandomKey(seed).with(epoch).with(index).
class RandomKey {
 public:
  explicit constexpr RandomKey(uint64_t value) : value_(value) {}

  // The key of a part: different parts, or the same parts in another order, give unrelated keys.
  RandomKey with(uint64_t part) const;
  uint64_t value() const { return value_; }

  bool operator==(const RandomKey&) const = default;

 private:
  uint64_t value_;
};

// The numbers of one key, in order.
class Random {
 public:
  explicit Random(RandomKey key) : key_(key.value()) {}

  uint64_t bits();                          // 64 random bits
  double uniform();                         // from 0 to below 1, in steps of 2^-53
  double uniform(double low, double high);  // from low to below high
  int64_t below(int64_t count);             // 0 .. count-1, each equally likely; count >= 1
  bool coin() { return (bits() >> 63) != 0; }

 private:
  uint64_t key_;
  uint64_t position_ = 0;
};

}  // namespace frn
