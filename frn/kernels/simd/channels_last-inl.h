// Loops over channels-last rows: a vector holds adjacent channels of one position. Rows are taken a few at a time, so
// that a strip's coefficients and chains stay in registers while every cache line is still read once and in order.
#if defined(FRN_KERNELS_SIMD_CHANNELS_LAST_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FRN_KERNELS_SIMD_CHANNELS_LAST_INL_H_
#undef FRN_KERNELS_SIMD_CHANNELS_LAST_INL_H_
#else
#define FRN_KERNELS_SIMD_CHANNELS_LAST_INL_H_
#endif

#include "frn/kernels/simd/contiguous-inl.h"

HWY_BEFORE_NAMESPACE();
namespace frn::kernels::HWY_NAMESPACE {

// A strip: one vector's worth of adjacent channels. kWhole strips have a vector of their own. The last strip of a row may
// overlap the one before (only its last `fresh` lanes are its own) or, in rows shorter than a vector, have `fresh` lanes.
enum class StripKind { kWhole, kOverlapping, kShort };

template <StripKind kKind>
struct Strip {
  int64_t channel;
  int64_t fresh;

  template <class D, typename U>
  HWY_INLINE Vector<D> read(D d, const U* p) const {
    if constexpr (kKind == StripKind::kShort) return load_some(d, p + channel, fresh);
    return load(d, p + channel);
  }
  template <class D, typename T>
  HWY_INLINE void write(D d, Vector<D> v, T* p) const {
    if constexpr (kKind == StripKind::kShort) {
      store_some(d, v, p + channel, fresh);
    } else {
      store(d, v, p + channel);
    }
  }
  // sums += v, each channel once.
  template <class D>
  HWY_INLINE void add(D d, Vector<D> v, double* sums) const {
    if constexpr (kKind == StripKind::kWhole) add_to(d, v, sums + channel);
    if constexpr (kKind == StripKind::kOverlapping) add_to(d, keep_last(d, v, fresh), sums + channel);
    if constexpr (kKind == StripKind::kShort) {
      HWY_ALIGN hn::TFromD<D> buffer[kMaxLanes<D>];
      hn::Store(v, d, buffer);
      for (int64_t i = 0; i < fresh; ++i) sums[channel + i] += static_cast<double>(buffer[i]);
    }
  }
};

// f(strip) for strips that cover a row; f is generic in the kind, so that whole strips run without a branch.
template <class F>
HWY_INLINE void for_each_strip(int64_t channels, int64_t L, const F& f) {
  int64_t c = 0;
  for (; c + L <= channels; c += L) f(Strip<StripKind::kWhole>{c, L});
  if (c == channels) return;
  if (channels >= L) {
    f(Strip<StripKind::kOverlapping>{channels - L, channels - c});
  } else {
    f(Strip<StripKind::kShort>{0, channels});
  }
}

template <typename T>
struct ChannelsLast {
  using A = Accumulate<T>;
  using D = Tag<T>;
  using V = Vector<D>;
  // Two chains of four rows: the bound on rounding is that of sum_map.
  static constexpr int64_t kSumRows = 8;


  // Rows that come from memory rather than from the core's own cache.
  static HWY_INLINE bool from_memory(Extent e) {
    constexpr int64_t kOwnCache = 512 * 1024;
    return e.positions * e.stride * static_cast<int64_t>(sizeof(T)) > kOwnCache;
  }
  // The next rows of a strip, while these are summed: hardware does not see through the jumps from row to row.
  static HWY_INLINE void prefetch_rows(const T* first, int64_t channel, int64_t stride) {
    constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));
    if (channel % kLine != 0) return;
    for (int64_t r = 0; r < kSumRows; ++r) hwy::Prefetch(first + (kSumRows + r) * stride + channel);
  }

  // term_of(strip) makes the term of a strip; a term adds f(x) to a chain.
  template <class TermOf>
  static HWY_INLINE void sum_rows(Extent e, const T* x, double* sums, const TermOf& term_of) {
    const D d;
    std::memset(sums, 0, static_cast<size_t>(e.channels) * sizeof(double));
    const bool prefetch = from_memory(e);
    int64_t row = 0;
    for (; row + kSumRows <= e.positions; row += kSumRows) {
      const T* const first = x + row * e.stride;
      for_each_strip(e.channels, lanes(d), [&](auto s) HWY_ATTR {
        const auto term = term_of(s);
        V even = hn::Zero(d);
        V odd = hn::Zero(d);
        if (prefetch) prefetch_rows(first, s.channel, e.stride);
        for (int64_t r = 0; r < kSumRows; r += 2) {
          even = term(d, s.read(d, first + r * e.stride), even);
          odd = term(d, s.read(d, first + (r + 1) * e.stride), odd);
        }
        s.add(d, hn::Add(even, odd), sums);
      });
    }
    if (row == e.positions) return;
    for_each_strip(e.channels, lanes(d), [&](auto s) HWY_ATTR {
      const auto term = term_of(s);
      V even = hn::Zero(d);
      V odd = hn::Zero(d);
      int64_t r = row;
      for (; r + 2 <= e.positions; r += 2) {
        even = term(d, s.read(d, x + r * e.stride), even);
        odd = term(d, s.read(d, x + (r + 1) * e.stride), odd);
      }
      if (r < e.positions) even = term(d, s.read(d, x + r * e.stride), even);
      s.add(d, hn::Add(even, odd), sums);
    });
  }

  static void sum(Extent e, const T* x, double* sums) {
    sum_rows(e, x, sums, [](auto) HWY_ATTR { return PlainTerm(); });
  }
  static void sum_squares(Extent e, const T* x, double* sums) {
    sum_rows(e, x, sums, [](auto) HWY_ATTR { return SquareTerm(); });
  }
  struct DeviationTerms {
    V mean;
    HWY_INLINE V operator()(D, V x, V sum) const {
      const auto deviation = hn::Sub(x, mean);
      return hn::MulAdd(deviation, deviation, sum);
    }
  };
  static void sum_squared_deviations(Extent e, const T* x, const A* mean, double* sums) {
    sum_rows(e, x, sums, [mean](auto s) HWY_ATTR { return DeviationTerms{s.read(D(), mean)}; });
  }

  template <Norm N, Threshold H, bool kGradient, class S>
  static HWY_INLINE Lanes<D> lanes_of(const Coefficients<A>& k, S s) {
    return read_lanes<N, H, kGradient>(D(), k, [s](const A* p) HWY_ATTR { return s.read(D(), p); });
  }

  // Rows and strips all start on aligned addresses, so that every vector may be stored around the cache.
  static HWY_INLINE bool aligned_rows(Extent e, const T* out) {
    const auto vector_bytes = static_cast<uintptr_t>(lanes(D())) * sizeof(T);
    return reinterpret_cast<uintptr_t>(out) % vector_bytes == 0 && e.stride % lanes(D()) == 0 &&
           e.channels % lanes(D()) == 0;
  }

  // out[row, strip] = value(offset of the row, strip, coefficients) for every row and strip, kRows rows at a time.
  template <Norm N, Threshold H, bool kGradient, bool kStream, int64_t kRows, class ValueOf>
  static HWY_INLINE void write_rows_by(Extent e, const Coefficients<A>& k, T* out, const ValueOf& value) {
    const D d;
    const auto put = [d, out](auto s, V v, int64_t at) HWY_ATTR {
      if constexpr (kStream) {
        stream(d, v, out + at + s.channel);
      } else {
        s.write(d, v, out + at);
      }
    };
    int64_t row = 0;
    for (; row + kRows <= e.positions; row += kRows) {
      for_each_strip(e.channels, lanes(d), [&](auto s) HWY_ATTR {
        const auto lanes_s = lanes_of<N, H, kGradient>(k, s);
        const int64_t at = row * e.stride;
        for (int64_t r = 0; r < kRows; ++r) put(s, value(at + r * e.stride, s, lanes_s), at + r * e.stride);
      });
    }
    for (; row < e.positions; ++row) {
      for_each_strip(e.channels, lanes(d), [&](auto s) HWY_ATTR {
        put(s, value(row * e.stride, s, lanes_of<N, H, kGradient>(k, s)), row * e.stride);
      });
    }
    if constexpr (kStream) hwy::FlushStream();
  }

  // In the cache, four rows share one read of the coefficients; what comes from memory is best read in order.
  template <Norm N, Threshold H, bool kGradient, class ValueOf>
  static HWY_INLINE void write_rows(Extent e, const Coefficients<A>& k, T* out, bool around_cache, const ValueOf& value) {
    if (around_cache && aligned_rows(e, out)) {
      write_rows_by<N, H, kGradient, true, 1>(e, k, out, value);
    } else if (from_memory(e)) {
      write_rows_by<N, H, kGradient, false, 1>(e, k, out, value);
    } else {
      write_rows_by<N, H, kGradient, false, 4>(e, k, out, value);
    }
  }

  template <Norm N, Threshold H>
  static void apply(Extent e, const T* x, const Coefficients<A>& k, T* z, bool around_cache) {
    const auto value = [x](int64_t at, auto s, const Lanes<D>& lanes_s) HWY_ATTR {
      return z_of<N, H>(D(), s.read(D(), x + at), lanes_s);
    };
    write_rows<N, H, false>(e, k, z, around_cache, value);
  }

  template <Norm N, Threshold H>
  static void gradient_sums(Extent e, const T* x, const T* dz, const Coefficients<A>& k, double* sums) {
    const D d;
    std::memset(sums, 0, static_cast<size_t>(kGradientSums * e.channels) * sizeof(double));
    const bool prefetch = from_memory(e);
    const auto flush = [&](auto s, GradientChain<N, H, D>& even, const GradientChain<N, H, D>& odd) HWY_ATTR {
      even.join(odd);
      s.add(d, even.dy, sums + kSumDy * e.channels);
      if constexpr (N != Norm::kIdentity) s.add(d, even.dy_d, sums + kSumDyD * e.channels);
      if constexpr (H != Threshold::kNone) s.add(d, even.blocked_dz, sums + kSumBlockedDz * e.channels);
      if constexpr (H == Threshold::kAffine) s.add(d, even.blocked_dz_y, sums + kSumBlockedDzY * e.channels);
    };
    int64_t row = 0;
    for (; row + kSumRows <= e.positions; row += kSumRows) {
      for_each_strip(e.channels, lanes(d), [&](auto s) HWY_ATTR {
        const auto lanes_s = lanes_of<N, H, false>(k, s);
        GradientChain<N, H, D> even, odd;
        even.clear(d);
        odd.clear(d);
        if (prefetch) {
          prefetch_rows(x + row * e.stride, s.channel, e.stride);
          prefetch_rows(dz + row * e.stride, s.channel, e.stride);
        }
        for (int64_t r = row; r < row + kSumRows; r += 2) {
          const int64_t at = r * e.stride;
          even.step(d, s.read(d, x + at), s.read(d, dz + at), lanes_s);
          odd.step(d, s.read(d, x + at + e.stride), s.read(d, dz + at + e.stride), lanes_s);
        }
        flush(s, even, odd);
      });
    }
    if (row == e.positions) return;
    for_each_strip(e.channels, lanes(d), [&](auto s) HWY_ATTR {
      const auto lanes_s = lanes_of<N, H, false>(k, s);
      GradientChain<N, H, D> even, odd;
      even.clear(d);
      odd.clear(d);
      for (int64_t r = row; r < e.positions; ++r) {
        auto& chain = (r - row) % 2 == 0 ? even : odd;
        chain.step(d, s.read(d, x + r * e.stride), s.read(d, dz + r * e.stride), lanes_s);
      }
      flush(s, even, odd);
    });
  }

  template <Norm N, Threshold H>
  static void gradient_apply(Extent e, const T* x, const T* dz, const Coefficients<A>& k, T* dx, bool around_cache) {
    const auto value = [x, dz](int64_t at, auto s, const Lanes<D>& lanes_s) HWY_ATTR {
      return dx_of<N, H>(D(), s.read(D(), x + at), s.read(D(), dz + at), lanes_s);
    };
    write_rows<N, H, true>(e, k, dx, around_cache, value);
  }
};

}  // namespace frn::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FRN_KERNELS_SIMD_CHANNELS_LAST_INL_H_
