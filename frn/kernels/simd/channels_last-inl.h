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

// A strip: one vector's worth of adjacent channels. The last strip of a row overlaps the one before (`fresh` lanes at its
// end are its own) or, when a row is shorter than a vector, holds only `fresh` lanes.
struct Strip {
  int64_t channel;
  int64_t fresh;
};

template <class F>
HWY_INLINE void for_each_strip(int64_t channels, int64_t L, const F& f) {
  int64_t c = 0;
  for (; c + L <= channels; c += L) f(Strip{c, L});
  if (c < channels) f(Strip{channels >= L ? channels - L : 0, channels - c});
}

template <typename T>
struct ChannelsLast {
  using A = Accumulate<T>;
  using D = Tag<T>;
  using V = Vector<D>;
  static constexpr Layout kLayout = Layout::kChannelsLast;
  // Two chains of four rows: the bound on rounding is that of sum_map.
  static constexpr int64_t kSumRows = 8;
  static constexpr int64_t kApplyRows = 4;

  template <typename U>
  static HWY_INLINE V load_strip(const U* p, Strip s, int64_t channels) {
    const D d;
    return channels >= lanes(d) ? load(d, p + s.channel) : load_some(d, p + s.channel, s.fresh);
  }
  static HWY_INLINE void store_strip(V v, T* p, Strip s, int64_t channels) {
    const D d;
    if (channels >= lanes(d)) {
      store(d, v, p + s.channel);
    } else {
      store_some(d, v, p + s.channel, s.fresh);
    }
  }
  // sums[strip] += v, each channel once.
  static HWY_INLINE void add_strip(V v, double* sums, Strip s, int64_t channels) {
    const D d;
    const int64_t L = lanes(d);
    if (channels >= L) {
      add_to(d, s.fresh == L ? v : keep_last(d, v, s.fresh), sums + s.channel);
      return;
    }
    HWY_ALIGN A buffer[kMaxLanes<D>];
    hn::Store(v, d, buffer);
    for (int64_t i = 0; i < s.fresh; ++i) sums[s.channel + i] += static_cast<double>(buffer[i]);
  }

  // terms(strip) makes the term of a strip; a term adds f(x) to a chain.
  template <class MakeTerm>
  static HWY_INLINE void sum_rows(Extent e, const T* x, double* sums, const MakeTerm& make_term) {
    const D d;
    std::memset(sums, 0, static_cast<size_t>(e.channels) * sizeof(double));
    for (int64_t row = 0; row < e.positions; row += kSumRows) {
      const int64_t rows = HWY_MIN(kSumRows, e.positions - row);
      const T* const first = x + row * e.stride;
      for_each_strip(e.channels, lanes(d), [&](Strip s) HWY_ATTR {
        const auto term = make_term(s);
        V even = hn::Zero(d);
        V odd = hn::Zero(d);
        if (rows == kSumRows) {
          for (int64_t r = 0; r < kSumRows; r += 2) {
            even = term(d, load_strip(first + r * e.stride, s, e.channels), even);
            odd = term(d, load_strip(first + (r + 1) * e.stride, s, e.channels), odd);
          }
        } else {
          int64_t r = 0;
          for (; r + 2 <= rows; r += 2) {
            even = term(d, load_strip(first + r * e.stride, s, e.channels), even);
            odd = term(d, load_strip(first + (r + 1) * e.stride, s, e.channels), odd);
          }
          if (r < rows) even = term(d, load_strip(first + r * e.stride, s, e.channels), even);
        }
        add_strip(hn::Add(even, odd), sums, s, e.channels);
      });
    }
  }

  static void sum(Extent e, const T* x, double* sums) {
    sum_rows(e, x, sums, [](Strip) HWY_ATTR { return PlainTerm(); });
  }
  static void sum_squares(Extent e, const T* x, double* sums) {
    sum_rows(e, x, sums, [](Strip) HWY_ATTR { return SquareTerm(); });
  }
  struct DeviationTerms {
    V mean;
    HWY_INLINE V operator()(D, V x, V sum) const {
      const auto deviation = hn::Sub(x, mean);
      return hn::MulAdd(deviation, deviation, sum);
    }
  };
  static void sum_squared_deviations(Extent e, const T* x, const A* mean, double* sums) {
    sum_rows(e, x, sums, [&](Strip s) HWY_ATTR { return DeviationTerms{load_strip(mean, s, e.channels)}; });
  }

  template <Norm N, Threshold H, bool kGradient>
  static HWY_INLINE Lanes<D> lanes_of(const Coefficients<A>& k, Strip s, int64_t channels) {
    return read_lanes<N, H, kGradient>(D(), k, [s, channels](const A* p) HWY_ATTR { return load_strip(p, s, channels); });
  }

  // Rows and strips all start on aligned addresses, so that every vector may be stored around the cache.
  static HWY_INLINE bool aligned_rows(Extent e, const T* out) {
    const auto vector_bytes = static_cast<uintptr_t>(lanes(D())) * sizeof(T);
    return reinterpret_cast<uintptr_t>(out) % vector_bytes == 0 && e.stride % lanes(D()) == 0 &&
           e.channels % lanes(D()) == 0;
  }

  // out[row, strip] = value(row offset, strip, coefficients) for every row and strip.
  template <Norm N, Threshold H, bool kGradient, class ValueOf>
  static HWY_INLINE void write_rows(Extent e, const Coefficients<A>& k, T* out, bool around_cache, const ValueOf& value) {
    const D d;
    const bool streamed = around_cache && aligned_rows(e, out);
    for (int64_t row = 0; row < e.positions; row += kApplyRows) {
      const int64_t end = HWY_MIN(row + kApplyRows, e.positions);
      for_each_strip(e.channels, lanes(d), [&](Strip s) HWY_ATTR {
        const auto lanes_s = lanes_of<N, H, kGradient>(k, s, e.channels);
        for (int64_t r = row; r < end; ++r) {
          const V v = value(r * e.stride, s, lanes_s);
          if (streamed) {
            stream(d, v, out + r * e.stride + s.channel);
          } else {
            store_strip(v, out + r * e.stride, s, e.channels);
          }
        }
      });
    }
    if (streamed) hwy::FlushStream();
  }

  template <Norm N, Threshold H>
  static void apply(Extent e, const T* x, const Coefficients<A>& k, T* z, bool around_cache) {
    write_rows<N, H, false>(e, k, z, around_cache, [&](int64_t at, Strip s, const Lanes<D>& lanes_s) HWY_ATTR {
      return z_of<N, H>(D(), load_strip(x + at, s, e.channels), lanes_s);
    });
  }

  template <Norm N, Threshold H>
  static void gradient_sums(Extent e, const T* x, const T* dz, const Coefficients<A>& k, double* sums) {
    const D d;
    std::memset(sums, 0, static_cast<size_t>(kGradientSums * e.channels) * sizeof(double));
    for (int64_t row = 0; row < e.positions; row += kSumRows) {
      const int64_t rows = HWY_MIN(kSumRows, e.positions - row);
      const T* const first_x = x + row * e.stride;
      const T* const first_dz = dz + row * e.stride;
      for_each_strip(e.channels, lanes(d), [&](Strip s) HWY_ATTR {
        const auto lanes_s = lanes_of<N, H, false>(k, s, e.channels);
        GradientChain<N, H, D> even, odd;
        even.clear(d);
        odd.clear(d);
        int64_t at = 0;
        int64_t r = 0;
        for (; r + 2 <= rows; r += 2, at += 2 * e.stride) {
          even.step(d, load_strip(first_x + at, s, e.channels), load_strip(first_dz + at, s, e.channels), lanes_s);
          odd.step(d, load_strip(first_x + at + e.stride, s, e.channels),
                   load_strip(first_dz + at + e.stride, s, e.channels), lanes_s);
        }
        if (r < rows) {
          even.step(d, load_strip(first_x + at, s, e.channels), load_strip(first_dz + at, s, e.channels), lanes_s);
        }
        even.join(odd);
        add_strip(even.dy, sums + kSumDy * e.channels, s, e.channels);
        if constexpr (N != Norm::kIdentity) add_strip(even.dy_xhat, sums + kSumDyXhat * e.channels, s, e.channels);
        if constexpr (H != Threshold::kNone) {
          add_strip(even.blocked_dz, sums + kSumBlockedDz * e.channels, s, e.channels);
        }
        if constexpr (H == Threshold::kAffine) {
          add_strip(even.blocked_dz_y, sums + kSumBlockedDzY * e.channels, s, e.channels);
        }
      });
    }
  }

  template <Norm N, Threshold H>
  static void gradient_apply(Extent e, const T* x, const T* dz, const Coefficients<A>& k, T* dx, bool around_cache) {
    write_rows<N, H, true>(e, k, dx, around_cache, [&](int64_t at, Strip s, const Lanes<D>& lanes_s) HWY_ATTR {
      return dx_of<N, H>(D(), load_strip(x + at, s, e.channels), load_strip(dz + at, s, e.channels), lanes_s);
    });
  }
};

}  // namespace frn::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FRN_KERNELS_SIMD_CHANNELS_LAST_INL_H_
