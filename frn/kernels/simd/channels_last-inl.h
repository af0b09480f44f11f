// Loops over channels-last rows: a vector holds adjacent channels of one position. Rows are taken a few at a time, so
// that a strip's coefficients and chains stay in registers while every cache line is still read once and in order.
#if defined(FRN_KERNELS_SIMD_CHANNELS_LAST_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef FRN_KERNELS_SIMD_CHANNELS_LAST_INL_H
#undef FRN_KERNELS_SIMD_CHANNELS_LAST_INL_H
#else
#define FRN_KERNELS_SIMD_CHANNELS_LAST_INL_H
#endif

#include "frn/kernels/simd/contiguous-inl.h"

HWY_BEFORE_NAMESPACE();
namespace frn::kernels::HWY_NAMESPACE {

// A strip: one vector's worth of adjacent channels. kWhole strips have a vector of their own. The last strip of a row
// may overlap the one before (only its last `fresh` lanes are its own) or, in rows shorter than a vector, have `fresh`
// lanes.
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
  // running += v, each channel once. A short strip's missing lanes are added to room that nobody reads.
  template <class D>
  HWY_INLINE void add_running(D d, Vector<D> v, hn::TFromD<D>* running) const {
    const auto own = kKind == StripKind::kOverlapping ? keep_last(d, v, fresh) : v;
    hn::StoreU(hn::Add(hn::LoadU(d, running), own), d, running);
  }
  // sums += v in double, each channel once.
  template <class D>
  HWY_INLINE void add_sums(D d, Vector<D> v, double* sums) const {
    if constexpr (kKind == StripKind::kShort) {
      HWY_ALIGN hn::TFromD<D> buffer[kMaxLanes<D>];
      hn::Store(v, d, buffer);
      for (int64_t i = 0; i < fresh; ++i) sums[channel + i] += static_cast<double>(buffer[i]);
    } else {
      add_to(d, kKind == StripKind::kOverlapping ? keep_last(d, v, fresh) : v, sums + channel);
    }
  }
  // running = f(running), each channel once.
  template <class D, class F>
  HWY_INLINE void update_running(D d, hn::TFromD<D>* running, const F& f) const {
    const auto before = hn::LoadU(d, running);
    auto after = f(before);
    if constexpr (kKind == StripKind::kOverlapping) {
      after = hn::IfThenElse(hn::FirstN(d, static_cast<size_t>(lanes(d) - fresh)), before, after);
    }
    hn::StoreU(after, d, running);
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
  // Rows in the core's own cache are taken four at a time, which share one read of the coefficients or of the running
  // sums. Rows from memory are best summed one at a time and written two at a time: in any other order they arrive at
  // half the speed. Where that begins to pay was measured on Zen 4.
  static constexpr int64_t kWriteInOrder = int64_t{256} * 1024;
  static constexpr int64_t kSumInOrder = int64_t{1024} * 1024;
  // Rows after which the running sums, in A, are added to the sums in double. A value goes through at most eight
  // additions: alone, or two within its four rows, one between them and four in the running sum.
  static constexpr int64_t flush_rows(int64_t at_once) { return at_once == 1 ? 8 : 16; }
  // Rows whose gradient sums stay in registers: four additions in a chain, one between the two. Rows are often a power
  // of two apart, and more of them push each other out of the first-level cache.
  static constexpr int64_t kGradientRows = 8;
  static constexpr int64_t kFetchAhead = int64_t{128} * 1024;
  // Channels whose running sums fit the cache of the core beside the rows.
  static constexpr int64_t kTile = 512;

  // body(strip, first, row, rows, running) adds the terms of up to kRows rows of a strip to its running sum; what they
  // come to goes to sums[channel], each channel once.
  template <int64_t kRows, class Body>
  static HWY_INLINE void sum_tiles(Extent e, double* sums, const Body& body) {
    constexpr int64_t kFlushRows = flush_rows(kRows);
    const D d;
    HWY_ALIGN A running[kTile];
    for (int64_t first = 0; first < e.channels; first += kTile) {
      const int64_t channels = HWY_MIN(kTile, e.channels - first);
      // A row shorter than a vector has room for a whole one.
      const auto room = static_cast<size_t>(HWY_MAX(channels, lanes(d)));
      std::memset(sums + first, 0, sizeof(double) * static_cast<size_t>(channels));
      for (int64_t row = 0; row < e.positions; row += kFlushRows) {
        const int64_t end = HWY_MIN(row + kFlushRows, e.positions);
        std::memset(running, 0, sizeof(A) * room);
        for (int64_t r = row; r < end; r += kRows) {
          const int64_t rows = HWY_MIN(kRows, end - r);
          for_each_strip(channels, lanes(d), [&](auto s) HWY_ATTR { body(s, first, r, rows, running + s.channel); });
        }
        add_running(running, sums + first, channels);
      }
    }
  }
  static HWY_INLINE void add_running(const A* running, double* sums, int64_t channels) {
    const D d;
    int64_t c = 0;
    for (; c + lanes(d) <= channels; c += lanes(d)) add_to(d, hn::LoadU(d, running + c), sums + c);
    for (; c < channels; ++c) sums[c] += static_cast<double>(running[c]);
  }

  // term_of(strip) makes the term of a strip; a term adds f(x) to a chain.
  template <class TermOf>
  static HWY_INLINE void sum_rows(Extent e, const T* x, double* sums, const TermOf& term_of) {
    if (e.sample_bytes > kSumInOrder) {
      sum_rows_by<1>(e, x, sums, term_of);
    } else {
      sum_rows_by<4>(e, x, sums, term_of);
    }
  }
  template <int64_t kRows, class TermOf>
  static HWY_INLINE void sum_rows_by(Extent e, const T* x, double* sums, const TermOf& term_of) {
    sum_tiles<kRows>(e, sums, [&](auto s, int64_t first, int64_t row, int64_t rows, A* running) HWY_ATTR {
      const D d;
      const auto term = term_of(s, first);
      const T* const at = x + row * e.stride + first;
      if constexpr (kRows == 1) {
        s.update_running(d, running, [&](V sum) HWY_ATTR { return term(d, s.read(d, at), sum); });
        return;
      }
      V even = hn::Zero(d);
      V odd = hn::Zero(d);
      if (rows == kRows) {
        for (int64_t r = 0; r < kRows; r += 2) {
          even = term(d, s.read(d, at + r * e.stride), even);
          odd = term(d, s.read(d, at + (r + 1) * e.stride), odd);
        }
      } else {
        for (int64_t r = 0; r < rows; ++r) even = term(d, s.read(d, at + r * e.stride), even);
      }
      s.add_running(d, hn::Add(even, odd), running);
    });
  }

  static void sum(Extent e, const T* x, double* sums) {
    sum_rows(e, x, sums, [](auto, int64_t) HWY_ATTR { return PlainTerm(); });
  }
  static void sum_squares(Extent e, const T* x, double* sums) {
    sum_rows(e, x, sums, [](auto, int64_t) HWY_ATTR { return SquareTerm(); });
  }
  struct DeviationTerms {
    V mean;
    HWY_INLINE V operator()(D, V x, V sum) const {
      const auto deviation = hn::Sub(x, mean);
      return hn::MulAdd(deviation, deviation, sum);
    }
  };
  static void sum_squared_deviations(Extent e, const T* x, const A* mean, double* sums) {
    sum_rows(e, x, sums, [mean](auto s, int64_t first) HWY_ATTR { return DeviationTerms{s.read(D(), mean + first)}; });
  }

  // `first`: the channel at which the strips of a tile start.
  template <Norm N, Threshold H, bool kGradient, class S>
  static HWY_INLINE Lanes<D> lanes_of(const Coefficients<A>& k, S s, int64_t first) {
    return read_lanes<N, H, kGradient>(D(), k, [s, first](const A* p) HWY_ATTR { return s.read(D(), p + first); });
  }

  // Rows and strips all start on aligned addresses, so that every vector may be stored around the cache.
  static HWY_INLINE bool aligned_rows(Extent e, const T* out) {
    const auto vector_bytes = static_cast<uintptr_t>(lanes(D())) * sizeof(T);
    return reinterpret_cast<uintptr_t>(out) % vector_bytes == 0 && e.stride % lanes(D()) == 0 &&
           e.channels % lanes(D()) == 0;
  }

  // write(offset of the row, strip, coefficients, put) for every row and strip, kAtOnce rows at a time; it stores what
  // it computes with put(strip, vector, row).
  template <Norm N, Threshold H, bool kGradient, bool kStream, int64_t kAtOnce, class Write>
  static HWY_INLINE void write_rows_by(Extent e, const Coefficients<A>& k, const Write& write) {
    const D d;
    const auto put = [d](auto s, V v, T* row) HWY_ATTR {
      if constexpr (kStream) {
        stream(d, v, row + s.channel);
      } else {
        s.write(d, v, row);
      }
    };
    int64_t row = 0;
    for (; row + kAtOnce <= e.positions; row += kAtOnce) {
      for_each_strip(e.channels, lanes(d), [&](auto s) HWY_ATTR {
        const auto lanes_s = lanes_of<N, H, kGradient>(k, s, 0);
        const int64_t at = row * e.stride;
        for (int64_t r = 0; r < kAtOnce; ++r) write(at + r * e.stride, s, lanes_s, put);
      });
    }
    for (; row < e.positions; ++row) {
      for_each_strip(e.channels, lanes(d),
                     [&](auto s) HWY_ATTR { write(row * e.stride, s, lanes_of<N, H, kGradient>(k, s, 0), put); });
    }
    if constexpr (kStream) hwy::FlushStream();
  }

  // `streamed`: around the cache, for rows that are aligned. With a shortcut there is one way less, to compile: two
  // rows at a time, also from the cache.
  template <Norm N, Threshold H, Addition M, bool kGradient, class Write>
  static HWY_INLINE void write_rows(Extent e, const Coefficients<A>& k, bool streamed, const Write& write) {
    if (streamed) return write_rows_by<N, H, kGradient, true, 1>(e, k, write);
    if constexpr (M == Addition::kNone) {
      if (e.sample_bytes <= kWriteInOrder) return write_rows_by<N, H, kGradient, false, 4>(e, k, write);
    }
    write_rows_by<N, H, kGradient, false, 2>(e, k, write);
  }

  template <Addition M, class S>
  static HWY_INLINE V read_shortcut(S s, const T* shortcut, int64_t at) {
    if constexpr (M == Addition::kNone) return hn::Zero(D());
    return s.read(D(), shortcut + at);
  }

  template <Norm N, Threshold H, Addition M>
  static void apply(Extent e, const T* x, const T* shortcut, const Coefficients<A>& k, T* z, bool around_cache) {
    const auto write = [x, shortcut, z](int64_t at, auto s, const Lanes<D>& lanes_s, const auto& put) HWY_ATTR {
      const auto added = read_shortcut<M>(s, shortcut, at);
      put(s, z_of<N, H, M>(D(), s.read(D(), x + at), added, lanes_s), z + at);
    };
    write_rows<N, H, M, false>(e, k, around_cache && aligned_rows(e, z), write);
  }

  template <Norm N, Threshold H, Addition M>
  static void gradient_sums(Extent e, const T* x, const T* shortcut, const T* dz, const Coefficients<A>& k,
                            double* sums) {
    std::memset(sums, 0, sizeof(double) * static_cast<size_t>(kGradientSums * e.channels));
    const D d;
    // A strip's lines in the next rows follow no pattern that the processor fetches by itself: sums over maps from
    // memory took up to two and a half times as long without (Zen 4). Rows of a page push each other out of the
    // first-level cache, and small maps are in the second.
    const bool fetches = e.sample_bytes > kFetchAhead && e.stride * static_cast<int64_t>(sizeof(T)) < 4096;
    for (int64_t row = 0; row < e.positions; row += kGradientRows) {
      const int64_t end = HWY_MIN(row + kGradientRows, e.positions) * e.stride;
      for_each_strip(e.channels, lanes(d), [&](auto s) HWY_ATTR {
        const auto lanes_s = lanes_of<N, H, false>(k, s, 0);
        GradientChain<N, H, M, D> even(d), odd(d);
        const auto step = [&](GradientChain<N, H, M, D>& chain, int64_t at) HWY_ATTR {
          chain.step(d, s.read(d, x + at), read_shortcut<M>(s, shortcut, at), s.read(d, dz + at), lanes_s);
        };
        int64_t at = row * e.stride;
        for (; at + e.stride < end; at += 2 * e.stride) {
          if (fetches) {
            for (const int64_t r : {at, at + e.stride}) {
              fetch(x, r + s.channel + kGradientRows * e.stride, 1);
              fetch(dz, r + s.channel + kGradientRows * e.stride, 1);
            }
          }
          step(even, at);
          step(odd, at + e.stride);
        }
        if (at < end) step(even, at);
        even.join(odd);
        s.add_sums(d, even.dy, sums + kSumDy * e.channels);
        if constexpr (N != Norm::kIdentity) s.add_sums(d, even.dy_d, sums + kSumDyD * e.channels);
        if constexpr (H != Threshold::kNone) s.add_sums(d, even.blocked_dz, sums + kSumBlockedDz * e.channels);
        if constexpr (H == Threshold::kAffine) s.add_sums(d, even.blocked_dz_y, sums + kSumBlockedDzY * e.channels);
      });
    }
  }

  template <Norm N, Threshold H, Addition M>
  static void gradient_apply(Extent e, const T* x, const T* shortcut, const T* dz, const Coefficients<A>& k, T* dx,
                             T* dshortcut, bool around_cache) {
    const auto write = [=](int64_t at, auto s, const Lanes<D>& lanes_s, const auto& put) HWY_ATTR {
      const auto added = read_shortcut<M>(s, shortcut, at);
      const auto g = gradients_of<N, H, M>(D(), s.read(D(), x + at), added, s.read(D(), dz + at), lanes_s);
      put(s, g.dx, dx + at);
      if (M == Addition::kShortcut && dshortcut != nullptr) put(s, g.dy, dshortcut + at);
    };
    const bool aligned = aligned_rows(e, dx) && (dshortcut == nullptr || aligned_rows(e, dshortcut));
    write_rows<N, H, M, true>(e, k, around_cache && aligned, write);
  }
};

}  // namespace frn::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FRN_KERNELS_SIMD_CHANNELS_LAST_INL_H
