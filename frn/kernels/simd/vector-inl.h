// Loads, stores, wide sums and the formula itself on one vector. Included once per SIMD target.
#if defined(FRN_KERNELS_SIMD_VECTOR_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef FRN_KERNELS_SIMD_VECTOR_INL_H
#undef FRN_KERNELS_SIMD_VECTOR_INL_H
#else
#define FRN_KERNELS_SIMD_VECTOR_INL_H
#endif

#include <bit>
#include <cstring>

#include "frn/kernels/kernels.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace frn::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// All arithmetic is in full vectors of the accumulation type.
template <typename T>
using Tag = hn::ScalableTag<Accumulate<T>>;
template <class D>
using Vector = hn::Vec<D>;

// The room a vector of this type takes at most.
template <class D>
inline constexpr size_t kMaxLanes = HWY_MAX_BYTES / sizeof(hn::TFromD<D>);

template <class D>
HWY_INLINE int64_t lanes(D d) {
  return static_cast<int64_t>(hn::Lanes(d));
}

template <class D>
HWY_INLINE Vector<D> load(D d, const float* p) {
  return hn::LoadU(d, p);
}
template <class D>
HWY_INLINE Vector<D> load(D d, const double* p) {
  return hn::LoadU(d, p);
}
template <class D>
HWY_INLINE Vector<D> load(D d, const BFloat16* p) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::RebindToUnsigned<D> d32;
  const auto bits = hn::LoadU(d16, reinterpret_cast<const uint16_t*>(p));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, bits)));
}
// SSE4 has no conversion from or to float16. Highway's stand-ins read infinity and NaN as finite numbers, and truncate.
inline constexpr bool kConvertsToHalf = HWY_TARGET != HWY_SSE4;

template <class D>
HWY_INLINE Vector<D> load(D d, const Float16* p) {
  const hn::Rebind<hwy::float16_t, D> d16;
  const auto wide = hn::PromoteTo(d, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(p)));
  if constexpr (kConvertsToHalf) return wide;
  // The exponent 31 came out as 31 + 112; another 112 makes it 255.
  const hn::RebindToUnsigned<D> d32;
  const hn::Rebind<uint16_t, D> du16;
  const auto ones = hn::Set(d32, 0x7c00u);
  const auto exponent = hn::And(hn::PromoteTo(d32, hn::LoadU(du16, reinterpret_cast<const uint16_t*>(p))), ones);
  const auto raised = hn::Add(hn::BitCast(d32, wide), hn::Set(d32, 112u << 23));
  return hn::BitCast(d, hn::IfThenElse(hn::Eq(exponent, ones), raised, hn::BitCast(d32, wide)));
}

// Highway truncates to bfloat16; PyTorch rounds to nearest even, and makes every NaN 0x7fc0. The result stands in the
// upper halves of the lanes, the lower ones are not cleared.
template <class D>
HWY_INLINE auto round_to_upper_halves(D d, Vector<D> v) {
  const hn::RebindToUnsigned<D> d32;
  const auto bits = hn::BitCast(d32, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1));
  const auto rounded = hn::BitCast(d, hn::Add(hn::Add(bits, hn::Set(d32, 0x7fffu)), odd));
  const auto nan = hn::BitCast(d, hn::Set(d32, 0x7fc00000u));
  return hn::BitCast(d32, hn::IfThenElse(hn::IsNaN(v), nan, rounded));
}
template <class D>
HWY_INLINE auto round_to_bfloat16(D d, Vector<D> v) {
  const hn::RebindToSigned<D> di32;
  const hn::Rebind<uint16_t, D> d16;
  return hn::DemoteTo(d16, hn::BitCast(di32, hn::ShiftRight<16>(round_to_upper_halves(d, v))));
}

template <class D>
HWY_INLINE void store(D d, Vector<D> v, float* p) {
  hn::StoreU(v, d, p);
}
template <class D>
HWY_INLINE void store(D d, Vector<D> v, double* p) {
  hn::StoreU(v, d, p);
}
template <class D>
HWY_INLINE void store(D d, Vector<D> v, BFloat16* p) {
  const hn::Rebind<uint16_t, D> d16;
  hn::StoreU(round_to_bfloat16(d, v), d16, reinterpret_cast<uint16_t*>(p));
}
template <class D>
HWY_INLINE void store(D d, Vector<D> v, Float16* p) {
  if constexpr (kConvertsToHalf) {
    const hn::Rebind<hwy::float16_t, D> d16;
    hn::StoreU(hn::DemoteTo(d16, v), d16, reinterpret_cast<hwy::float16_t*>(p));
  } else {
    HWY_ALIGN float buffer[kMaxLanes<D>];
    hn::Store(v, d, buffer);
    for (size_t i = 0; i < hn::Lanes(d); ++i) from_float(buffer[i], p[i]);
  }
}

// A store around the cache; p must be aligned to the vector.
template <class D>
HWY_INLINE void stream(D d, Vector<D> v, float* p) {
  hn::Stream(v, d, p);
}
template <class D>
HWY_INLINE void stream(D d, Vector<D> v, double* p) {
  hn::Stream(v, d, p);
}
// Half of a 128-bit vector is stored the usual way: x86 has no streaming store of 8 bytes, and Highway's would
// write 16.
template <class D>
inline constexpr bool kStreamsHalves = kMaxLanes<D> * sizeof(uint16_t) >= 16;
template <class D>
HWY_INLINE void stream(D d, Vector<D> v, BFloat16* p) {
  const hn::Rebind<uint16_t, D> d16;
  if constexpr (kStreamsHalves<D>) {
    hn::Stream(round_to_bfloat16(d, v), d16, reinterpret_cast<uint16_t*>(p));
  } else {
    store(d, v, p);
  }
}
template <class D>
HWY_INLINE void stream(D d, Vector<D> v, Float16* p) {
  const hn::Rebind<hwy::float16_t, D> d16;
  const hn::Rebind<uint16_t, D> du16;
  if constexpr (kStreamsHalves<D>) {
    hn::Stream(hn::BitCast(du16, hn::DemoteTo(d16, v)), du16, reinterpret_cast<uint16_t*>(p));
  } else {
    store(d, v, p);
  }
}

// Two vectors of adjacent values, in the order that costs least. 32 bits hold two bfloat16, and each is a float once
// the other is masked or shifted away: no widening, no packing. The vectors then hold the even and the odd values.
template <class D>
struct Pair {
  Vector<D> first, second;
};
template <typename T>
inline constexpr bool kInterleavedPairs = std::is_same_v<T, BFloat16>&& std::endian::native == std::endian::little;

template <class D, typename T>
HWY_INLINE Pair<D> load_pair(D d, const T* p) {
  if constexpr (kInterleavedPairs<T>) {
    const hn::RebindToUnsigned<D> d32;
    const auto bits = hn::LoadU(d32, reinterpret_cast<const uint32_t*>(p));
    return {hn::BitCast(d, hn::ShiftLeft<16>(bits)), hn::BitCast(d, hn::And(bits, hn::Set(d32, 0xffff0000u)))};
  } else {
    return {load(d, p), load(d, p + lanes(d))};
  }
}

// kStream: around the cache; p must then be aligned to the vector.
template <bool kStream, class D, typename T>
HWY_INLINE void store_pair(D d, Pair<D> v, T* p) {
  if constexpr (kInterleavedPairs<T>) {
    const hn::RebindToUnsigned<D> d32;
    const auto even = hn::ShiftRight<16>(round_to_upper_halves(d, v.first));
    const auto odd = hn::And(round_to_upper_halves(d, v.second), hn::Set(d32, 0xffff0000u));
    const auto both = hn::Or(even, odd);
    if constexpr (kStream) {
      hn::Stream(both, d32, reinterpret_cast<uint32_t*>(p));
    } else {
      hn::StoreU(both, d32, reinterpret_cast<uint32_t*>(p));
    }
  } else if constexpr (kStream) {
    stream(d, v.first, p);
    stream(d, v.second, p + lanes(d));
  } else {
    store(d, v.first, p);
    store(d, v.second, p + lanes(d));
  }
}

// Whether lanes can be left out of loads and stores: of any type with AVX-512, of 32 bits and more with AVX2.
template <typename T>
inline constexpr bool kMasksMemory = HWY_ARCH_X86 &&
                                     (HWY_TARGET <= HWY_AVX3 || (HWY_TARGET <= HWY_AVX2 && sizeof(T) >= 4));

// Fewer values than a vector holds: nothing outside the array is touched. Missing lanes are zero.
template <class D, typename T>
HWY_INLINE Vector<D> load_some(D d, const T* p, int64_t count) {
  if constexpr (kMasksMemory<T> && std::is_same_v<T, hn::TFromD<D>>) {
    return hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(count)), d, p);
  } else if constexpr (kMasksMemory<T>) {
    const hn::Rebind<uint16_t, D> d16;
    HWY_ALIGN T buffer[kMaxLanes<D>];
    const auto own = hn::FirstN(d16, static_cast<size_t>(count));
    hn::Store(hn::MaskedLoad(own, d16, reinterpret_cast<const uint16_t*>(p)), d16, reinterpret_cast<uint16_t*>(buffer));
    return load(d, buffer);
  } else {
    HWY_ALIGN T buffer[kMaxLanes<D>] = {};
    std::memcpy(buffer, p, static_cast<size_t>(count) * sizeof(T));
    return load(d, buffer);
  }
}
template <class D, typename T>
HWY_INLINE void store_some(D d, Vector<D> v, T* p, int64_t count) {
  if constexpr (kMasksMemory<T> && std::is_same_v<T, hn::TFromD<D>>) {
    hn::BlendedStore(v, hn::FirstN(d, static_cast<size_t>(count)), d, p);
  } else if constexpr (kMasksMemory<T>) {
    const hn::Rebind<uint16_t, D> d16;
    HWY_ALIGN T buffer[kMaxLanes<D>];
    store(d, v, buffer);
    hn::BlendedStore(hn::Load(d16, reinterpret_cast<const uint16_t*>(buffer)),
                     hn::FirstN(d16, static_cast<size_t>(count)), d16, reinterpret_cast<uint16_t*>(p));
  } else {
    HWY_ALIGN T buffer[kMaxLanes<D>];
    store(d, v, buffer);
    std::memcpy(p, buffer, static_cast<size_t>(count) * sizeof(T));
  }
}

// Asks the memory for `count` values from an offset on, which may lie past the array's end: nothing is read then.
template <typename T>
HWY_INLINE void fetch(const T* array, int64_t offset, int64_t count) {
  constexpr uintptr_t kLine = 64;
  const auto begin = reinterpret_cast<uintptr_t>(array) + static_cast<uintptr_t>(offset) * sizeof(T);
  for (uintptr_t at = 0; at < static_cast<uintptr_t>(count) * sizeof(T); at += kLine) {
    // Adding to a pointer must not lead past its array, so the sum is one of integers.
    hwy::Prefetch(reinterpret_cast<const uint8_t*>(begin + at));  // NOLINT(performance-no-int-to-ptr)
  }
}

// The values of a shortcut, or of its gradient, which may be missing, from an offset on.
template <typename P>
HWY_INLINE P past(P array, int64_t by) {
  return array == nullptr ? nullptr : array + by;
}
// The shortcut's values from an offset on; nothing is read where none is added.
template <Addition M, class D, typename T>
HWY_INLINE Vector<D> load_shortcut(D d, const T* shortcut, int64_t at) {
  if constexpr (M == Addition::kNone) return hn::Zero(d);
  return load(d, shortcut + at);
}
template <Addition M, class D, typename T>
HWY_INLINE Vector<D> load_some_shortcut(D d, const T* shortcut, int64_t count) {
  if constexpr (M == Addition::kNone) return hn::Zero(d);
  return load_some(d, shortcut, count);
}
template <Addition M, class D, typename T>
HWY_INLINE Pair<D> load_shortcut_pair(D d, const T* shortcut, int64_t at) {
  if constexpr (M == Addition::kNone) return {hn::Zero(d), hn::Zero(d)};
  return load_pair(d, shortcut + at);
}

// Keeps the last `count` lanes, zeroes the others.
template <class D>
HWY_INLINE Vector<D> keep_last(D d, Vector<D> v, int64_t count) {
  const auto drop = hn::FirstN(d, static_cast<size_t>(lanes(d) - count));
  return hn::IfThenZeroElse(drop, v);
}

// Adds v, lane by lane and in double, to sums[0..lanes).
HWY_INLINE void add_to(hn::ScalableTag<double> d, Vector<hn::ScalableTag<double>> v, double* sums) {
  hn::StoreU(hn::Add(hn::LoadU(d, sums), v), d, sums);
}
HWY_INLINE void add_to(hn::ScalableTag<float> d, Vector<hn::ScalableTag<float>> v, double* sums) {
  const hn::ScalableTag<double> dd;
  add_to(dd, hn::PromoteTo(dd, hn::LowerHalf(hn::Half<decltype(d)>(), v)), sums);
  add_to(dd, hn::PromoteTo(dd, hn::UpperHalf(hn::Half<decltype(d)>(), v)), sums + lanes(dd));
}

// Adds up the lanes of kFoldMaps vectors at once: lane_sums[map][lane] -> totals[map]. Horizontal sums one vector at a
// time cost more than all else on maps of 7x7. The buffer is used up.
inline constexpr int64_t kFoldMaps = 16;
inline constexpr int64_t kFoldLanes = HWY_MAX_BYTES / sizeof(double);
HWY_INLINE void fold_lanes(double* lane_sums, double* totals, int64_t maps) {
  const hn::ScalableTag<double> d;
  const int64_t L = lanes(d);
  for (int64_t width = L; width > 1; width /= 2) {
    for (int64_t i = 0; i < kFoldMaps * width; i += 2 * L) {
      const auto a = hn::LoadU(d, lane_sums + i);
      const auto b = hn::LoadU(d, lane_sums + i + L);
      hn::StoreU(hn::Add(hn::ConcatEven(d, b, a), hn::ConcatOdd(d, b, a)), d, lane_sums + i / 2);
    }
  }
  std::memcpy(totals, lane_sums, static_cast<size_t>(maps) * sizeof(double));
}

// A running sum in double lanes.
// (Constructors are spelt out: implicit ones are compiled for the baseline target and cannot inline vector code.)
template <typename A>
class WideSum;
template <>
class WideSum<double> {
 public:
  HWY_INLINE WideSum() : total_(hn::Zero(hn::ScalableTag<double>())) {}
  HWY_INLINE void add(Vector<hn::ScalableTag<double>> v) { total_ = hn::Add(total_, v); }
  HWY_INLINE void store(double* lane_sums) const { hn::StoreU(total_, hn::ScalableTag<double>(), lane_sums); }

 private:
  Vector<hn::ScalableTag<double>> total_;
};
template <>
class WideSum<float> {
 public:
  HWY_INLINE WideSum() : total_(hn::Zero(hn::ScalableTag<double>())) {}
  // The halves are added before they are widened: one rounding more, half the conversions and registers.
  HWY_INLINE void add(Vector<hn::ScalableTag<float>> v) {
    const hn::ScalableTag<double> dd;
    const hn::Half<hn::ScalableTag<float>> half;
    total_ = hn::Add(total_, hn::PromoteTo(dd, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v))));
  }
  HWY_INLINE void store(double* lane_sums) const { hn::StoreU(total_, hn::ScalableTag<double>(), lane_sums); }

 private:
  Vector<hn::ScalableTag<double>> total_;
};

// The coefficients of one vector: the same channel in all lanes (contiguous) or a channel per lane (channels-last).
template <class D>
struct Lanes {
  Vector<D> mean, rstd, slope, beta, tau, kappa, xhat_scale, shift;
};

// Reads those that <N, H> uses; `get(pointer)` broadcasts or loads.
template <Norm N, Threshold H, bool kGradient, class D, typename A, class Get>
HWY_INLINE Lanes<D> read_lanes(D d, const Coefficients<A>& k, Get get) {
  const auto zero = hn::Zero(d);
  Lanes<D> out{zero, zero, zero, zero, zero, zero, zero, zero};
  if constexpr (N == Norm::kCentered) out.mean = get(k.mean);
  if constexpr (N != Norm::kIdentity) {
    out.slope = get(k.slope);
    out.beta = get(k.beta);
  }
  if constexpr (H != Threshold::kNone) out.tau = get(k.tau);
  if constexpr (H == Threshold::kAffine) out.kappa = get(k.kappa);
  if constexpr (kGradient && N != Norm::kIdentity) {
    out.rstd = get(k.rstd);
    out.xhat_scale = get(k.xhat_scale);
  }
  if constexpr (kGradient && N == Norm::kCentered) out.shift = get(k.shift);
  return out;
}

// Everything that forward and backward derive from x. Both use these very operations, so that backward sees the same
// y, to the bit, as forward compared with its threshold.
template <class D>
struct Value {
  Vector<D> d, y, threshold;
};

// `shortcut`: what is added to y; not looked at where nothing is.
template <Norm N, Threshold H, Addition M, class D>
HWY_INLINE Value<D> evaluate(D, Vector<D> x, Vector<D> shortcut, const Lanes<D>& k) {
  Value<D> v{x, x, k.tau};
  if constexpr (N == Norm::kCentered) v.d = hn::Sub(x, k.mean);
  if constexpr (N != Norm::kIdentity) v.y = hn::MulAdd(k.slope, v.d, k.beta);
  if constexpr (M == Addition::kShortcut) v.y = hn::Add(v.y, shortcut);
  if constexpr (H == Threshold::kAffine) v.threshold = hn::MulAdd(k.kappa, v.y, k.tau);
  return v;
}

// z = y unless it is below its threshold; a NaN is passed on, not clipped away. x86's maximum returns its second
// operand if either is NaN; Arm's returns the one that is a number, so there the comparison decides.
template <Norm N, Threshold H, Addition M, class D>
HWY_INLINE Vector<D> z_of(D d, Vector<D> x, Vector<D> shortcut, const Lanes<D>& k) {
  const auto v = evaluate<N, H, M>(d, x, shortcut, k);
  if constexpr (H == Threshold::kNone) return v.y;
  if constexpr (HWY_ARCH_X86) return hn::Max(v.threshold, v.y);
  return hn::IfThenElse(hn::Lt(v.y, v.threshold), v.threshold, v.y);
}

template <Threshold H, class D>
HWY_INLINE Vector<D> dy_of(D, const Value<D>& v, Vector<D> dz, const Lanes<D>& k) {
  if constexpr (H == Threshold::kNone) return dz;
  const auto blocked = hn::Lt(v.y, v.threshold);
  if constexpr (H == Threshold::kConstant) return hn::IfThenZeroElse(blocked, dz);
  return hn::IfThenElse(blocked, hn::Mul(k.kappa, dz), dz);
}

// dy is also the shortcut's gradient.
template <class D>
struct ValueGradients {
  Vector<D> dx, dy;
};

template <Norm N, Threshold H, Addition M, class D>
HWY_INLINE ValueGradients<D> gradients_of(D d, Vector<D> x, Vector<D> shortcut, Vector<D> dz, const Lanes<D>& k) {
  const auto v = evaluate<N, H, M>(d, x, shortcut, k);
  const auto dy = dy_of<H>(d, v, dz, k);
  if constexpr (N == Norm::kIdentity) return {dy, dy};
  // xhat first: xhat_scale*rstd alone underflows when |x| is huge.
  const auto xhat = hn::Mul(v.d, k.rstd);
  if constexpr (N == Norm::kUncentered) return {hn::MulAdd(k.slope, dy, hn::Mul(k.xhat_scale, xhat)), dy};
  return {hn::MulAdd(k.slope, dy, hn::MulAdd(k.xhat_scale, xhat, k.shift)), dy};
}

// One chain of float additions for each sum that <N, H> has. Two chains of at most five terms are joined and then
// added to doubles, so that a sum of any length stays below 8 units of 2^-24 (docs/numerics.md).
template <Norm N, Threshold H, Addition M, class D>
struct GradientChain {
  Vector<D> dy, dy_d, blocked_dz, blocked_dz_y;

  HWY_INLINE explicit GradientChain(D d) : dy(hn::Zero(d)), dy_d(dy), blocked_dz(dy), blocked_dz_y(dy) {}
  HWY_INLINE void clear(D d) { dy = dy_d = blocked_dz = blocked_dz_y = hn::Zero(d); }
  HWY_INLINE void step(D d, Vector<D> x, Vector<D> shortcut, Vector<D> dz, const Lanes<D>& k) {
    const auto v = evaluate<N, H, M>(d, x, shortcut, k);
    const auto g = dy_of<H>(d, v, dz, k);
    dy = hn::Add(dy, g);
    if constexpr (N != Norm::kIdentity) dy_d = hn::MulAdd(g, v.d, dy_d);
    if constexpr (H != Threshold::kNone) {
      const auto stopped = hn::IfThenElseZero(hn::Lt(v.y, v.threshold), dz);
      blocked_dz = hn::Add(blocked_dz, stopped);
      if constexpr (H == Threshold::kAffine) blocked_dz_y = hn::MulAdd(stopped, v.y, blocked_dz_y);
    }
  }
  HWY_INLINE void join(const GradientChain& other) {
    dy = hn::Add(dy, other.dy);
    if constexpr (N != Norm::kIdentity) dy_d = hn::Add(dy_d, other.dy_d);
    if constexpr (H != Threshold::kNone) blocked_dz = hn::Add(blocked_dz, other.blocked_dz);
    if constexpr (H == Threshold::kAffine) blocked_dz_y = hn::Add(blocked_dz_y, other.blocked_dz_y);
  }
};

}  // namespace frn::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FRN_KERNELS_SIMD_VECTOR_INL_H
