// Loops over contiguous maps: each channel's positions lie side by side, a vector holds positions of one channel.
#if defined(FRN_KERNELS_SIMD_CONTIGUOUS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef FRN_KERNELS_SIMD_CONTIGUOUS_INL_H
#undef FRN_KERNELS_SIMD_CONTIGUOUS_INL_H
#else
#define FRN_KERNELS_SIMD_CONTIGUOUS_INL_H
#endif

#include "frn/kernels/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace frn::kernels::HWY_NAMESPACE {

// Sums f(x) over a map, where a term adds f(x) to a chain. Four chains of at most four terms each go into doubles, so
// rounding stays below 8 units of 2^-24 relative to the sum of |f(x)|, however long the map.
template <typename T, class Term>
HWY_INLINE WideSum<Accumulate<T>> sum_map(const T* x, int64_t count, const Term& term) {
  const Tag<T> d;
  const int64_t L = lanes(d);
  const auto zero = hn::Zero(d);
  WideSum<Accumulate<T>> wide;
  int64_t i = 0;
  for (; i + 16 * L <= count; i += 16 * L) {
    auto a = zero;
    auto b = zero;
    auto c = zero;
    auto e = zero;
    for (int64_t j = i; j < i + 16 * L; j += 4 * L) {
      const auto low = load_pair(d, x + j);
      const auto high = load_pair(d, x + j + 2 * L);
      a = term(d, low.first, a);
      b = term(d, low.second, b);
      c = term(d, high.first, c);
      e = term(d, high.second, e);
    }
    wide.add(hn::Add(hn::Add(a, b), hn::Add(c, e)));
  }
  auto a = zero;
  auto b = zero;
  auto c = zero;
  auto e = zero;
  for (; i + 4 * L <= count; i += 4 * L) {
    const auto low = load_pair(d, x + i);
    const auto high = load_pair(d, x + i + 2 * L);
    a = term(d, low.first, a);
    b = term(d, low.second, b);
    c = term(d, high.first, c);
    e = term(d, high.second, e);
  }
  if (i + L <= count) a = term(d, load(d, x + i), a), i += L;
  if (i + L <= count) b = term(d, load(d, x + i), b), i += L;
  if (i + L <= count) c = term(d, load(d, x + i), c), i += L;
  const int64_t rest = count - i;
  if (rest > 0) {
    // The last vector of the map, without the lanes that were summed already.
    const auto term_alone = count >= L ? keep_last(d, term(d, load(d, x + count - L), zero), rest)
                                       : hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(rest)),
                                                            term(d, load_some(d, x + i, rest), zero));
    e = hn::Add(e, term_alone);
  }
  wide.add(hn::Add(hn::Add(a, b), hn::Add(c, e)));
  return wide;
}

struct PlainTerm {
  template <class D>
  HWY_INLINE Vector<D> operator()(D, Vector<D> x, Vector<D> sum) const {
    return hn::Add(sum, x);
  }
};
struct SquareTerm {
  template <class D>
  HWY_INLINE Vector<D> operator()(D, Vector<D> x, Vector<D> sum) const {
    return hn::MulAdd(x, x, sum);
  }
};
template <typename A>
struct DeviationTerm {
  A mean;
  template <class D>
  HWY_INLINE Vector<D> operator()(D d, Vector<D> x, Vector<D> sum) const {
    const auto deviation = hn::Sub(x, hn::Set(d, mean));
    return hn::MulAdd(deviation, deviation, sum);
  }
};

// Covers [0, count) with calls single(i), of one vector, and pair(i), of two; the last may overlap the one before. Only
// for count >= lanes. With kStream the pairs start on aligned addresses of `out` and may be stored around the cache.
template <bool kStream, typename T, class Single, class PairOf>
HWY_INLINE void cover_map(const T* out, int64_t count, int64_t L, const Single& single, const PairOf& pair) {
  int64_t i = 0;
  if constexpr (kStream) {
    const auto vector_bytes = static_cast<uintptr_t>(L) * sizeof(Accumulate<T>);
    const uintptr_t past = reinterpret_cast<uintptr_t>(out) % vector_bytes;
    const auto first = static_cast<int64_t>((vector_bytes - past) % vector_bytes / sizeof(T));
    for (; i < first && i + L <= count; i += L) single(i);
    i = HWY_MIN(i, first);
  }
  for (; i + 4 * L <= count; i += 4 * L) {
    pair(i);
    pair(i + 2 * L);
  }
  for (; i + L <= count; i += L) single(i);
  if (i < count) single(count - L);
}

template <typename T>
struct Contiguous {
  using A = Accumulate<T>;

  // One sum per channel; term_of(channel) makes the channel's term.
  template <class TermOf>
  static HWY_INLINE void sum_maps(Extent e, const T* x, double* sums, const TermOf& term_of) {
    HWY_ALIGN double lane_sums[kFoldMaps * kFoldLanes] = {};
    for (int64_t c = 0; c < e.channels; c += kFoldMaps) {
      const int64_t maps = HWY_MIN(kFoldMaps, e.channels - c);
      for (int64_t m = 0; m < maps; ++m) {
        sum_map(x + (c + m) * e.stride, e.positions, term_of(c + m)).store(lane_sums + m * lanes(Tag<double>()));
      }
      fold_lanes(lane_sums, sums + c, maps);
    }
  }
  static void sum(Extent e, const T* x, double* sums) {
    sum_maps(e, x, sums, [](int64_t) HWY_ATTR { return PlainTerm(); });
  }
  static void sum_squares(Extent e, const T* x, double* sums) {
    sum_maps(e, x, sums, [](int64_t) HWY_ATTR { return SquareTerm(); });
  }
  static void sum_squared_deviations(Extent e, const T* x, const A* mean, double* sums) {
    sum_maps(e, x, sums, [mean](int64_t c) HWY_ATTR { return DeviationTerm<A>{mean[c]}; });
  }

  template <Norm N, Threshold H, bool kGradient>
  static HWY_INLINE Lanes<Tag<T>> broadcast(const Coefficients<A>& k, int64_t c) {
    const Tag<T> d;
    return read_lanes<N, H, kGradient>(d, k, [d, c](const A* p) HWY_ATTR { return hn::Set(d, p[c]); });
  }

  template <Norm N, Threshold H, Addition M, bool kStream>
  static HWY_INLINE void apply_map(const T* x, const T* shortcut, const Lanes<Tag<T>>& k, T* z, int64_t count) {
    const Tag<T> d;
    if (count < lanes(d)) {
      const auto added = load_some_shortcut<M>(d, shortcut, count);
      store_some(d, z_of<N, H, M>(d, load_some(d, x, count), added, k), z, count);
      return;
    }
    cover_map<kStream>(
        z, count, lanes(d),
        [&](int64_t i)
            HWY_ATTR { store(d, z_of<N, H, M>(d, load(d, x + i), load_shortcut<M>(d, shortcut, i), k), z + i); },
        [&](int64_t i) HWY_ATTR {
          const auto xs = load_pair(d, x + i);
          const auto added = load_shortcut_pair<M>(d, shortcut, i);
          store_pair<kStream>(
              d, Pair<Tag<T>>{z_of<N, H, M>(d, xs.first, added.first, k), z_of<N, H, M>(d, xs.second, added.second, k)},
              z + i);
        });
  }

  template <Norm N, Threshold H, Addition M>
  static void apply(Extent e, const T* x, const T* shortcut, const Coefficients<A>& k, T* z, bool around_cache) {
    for (int64_t c = 0; c < e.channels; ++c) {
      const int64_t at = c * e.stride;
      const auto lanes_c = broadcast<N, H, false>(k, c);
      if (around_cache) {
        apply_map<N, H, M, true>(x + at, past(shortcut, at), lanes_c, z + at, e.positions);
      } else {
        apply_map<N, H, M, false>(x + at, past(shortcut, at), lanes_c, z + at, e.positions);
      }
    }
    if (around_cache) hwy::FlushStream();
  }

  template <Addition M, class Chain>
  static HWY_INLINE void step_pair(Chain& even, Chain& odd, const T* x, const T* shortcut, const T* dz, int64_t i,
                                   const Lanes<Tag<T>>& k) {
    const Tag<T> d;
    const auto xs = load_pair(d, x + i);
    const auto added = load_shortcut_pair<M>(d, shortcut, i);
    const auto dzs = load_pair(d, dz + i);
    even.step(d, xs.first, added.first, dzs.first, k);
    odd.step(d, xs.second, added.second, dzs.second, k);
  }

  // lane_sums[sum][map][lane] for the sums that <N, H> has.
  template <Norm N, Threshold H, Addition M>
  static HWY_INLINE void sum_gradients_of_map(const T* x, const T* shortcut, const T* dz, const Lanes<Tag<T>>& k,
                                              int64_t count, double* lane_sums) {
    const Tag<T> d;
    const int64_t L = lanes(d);
    WideSum<A> dy, dy_d, blocked_dz, blocked_dz_y;
    GradientChain<N, H, M, Tag<T>> even(d), odd(d);
    const auto flush = [&]() HWY_ATTR {
      even.join(odd);
      dy.add(even.dy);
      if constexpr (N != Norm::kIdentity) dy_d.add(even.dy_d);
      if constexpr (H != Threshold::kNone) blocked_dz.add(even.blocked_dz);
      if constexpr (H == Threshold::kAffine) blocked_dz_y.add(even.blocked_dz_y);
    };
    // Two arrays in maps of this length took the processor up to a quarter longer to fetch by itself (28x28 in float32,
    // one thread, Zen 4). Longer maps it foresees, shorter ones are over too soon; and so is one array alone.
    const int64_t bytes = count * static_cast<int64_t>(sizeof(T));
    const int64_t ahead = bytes >= 2048 && bytes <= 8192 ? static_cast<int64_t>(1024 / sizeof(T)) : 0;
    int64_t i = 0;
    for (; i + 10 * L <= count; i += 10 * L) {
      even.clear(d);
      odd.clear(d);
      for (int64_t j = i; j < i + 10 * L; j += 2 * L) {
        if (ahead > 0) {
          fetch(x, j + ahead, 2 * L);
          fetch(dz, j + ahead, 2 * L);
        }
        step_pair<M>(even, odd, x, shortcut, dz, j, k);
      }
      flush();
    }
    even.clear(d);
    odd.clear(d);
    for (; i + 2 * L <= count; i += 2 * L) {
      step_pair<M>(even, odd, x, shortcut, dz, i, k);
    }
    if (i + L <= count) {
      even.step(d, load(d, x + i), load_shortcut<M>(d, shortcut, i), load(d, dz + i), k);
      i += L;
    }
    const int64_t rest = count - i;
    if (rest > 0 && count >= L) {
      // The last vector of the map; where dz is zero nothing is added.
      const int64_t last = count - L;
      odd.step(d, load(d, x + last), load_shortcut<M>(d, shortcut, last), keep_last(d, load(d, dz + last), rest), k);
    } else if (rest > 0) {  // the whole map
      odd.step(d, load_some(d, x, rest), load_some_shortcut<M>(d, shortcut, rest), load_some(d, dz, rest), k);
    }
    flush();
    constexpr int64_t kRow = kFoldMaps * kFoldLanes;
    dy.store(lane_sums + kSumDy * kRow);
    if constexpr (N != Norm::kIdentity) dy_d.store(lane_sums + kSumDyD * kRow);
    if constexpr (H != Threshold::kNone) blocked_dz.store(lane_sums + kSumBlockedDz * kRow);
    if constexpr (H == Threshold::kAffine) blocked_dz_y.store(lane_sums + kSumBlockedDzY * kRow);
  }

  template <Norm N, Threshold H, Addition M>
  static void gradient_sums(Extent e, const T* x, const T* shortcut, const T* dz, const Coefficients<A>& k,
                            double* sums) {
    constexpr int64_t kRow = kFoldMaps * kFoldLanes;
    HWY_ALIGN double lane_sums[kGradientSums * kRow] = {};
    for (int64_t c = 0; c < e.channels; c += kFoldMaps) {
      const int64_t maps = HWY_MIN(kFoldMaps, e.channels - c);
      for (int64_t m = 0; m < maps; ++m) {
        const int64_t at = (c + m) * e.stride;
        const auto lanes_c = broadcast<N, H, false>(k, c + m);
        sum_gradients_of_map<N, H, M>(x + at, past(shortcut, at), dz + at, lanes_c, e.positions,
                                      lane_sums + m * lanes(Tag<double>()));
      }
      for (int row = 0; row < kGradientSums; ++row) {
        fold_lanes(lane_sums + row * kRow, sums + row * e.channels + c, maps);
      }
    }
  }

  // dshortcut may be null; with kStream it starts as many bytes past a vector's address as dx.
  template <Norm N, Threshold H, Addition M, bool kStream>
  static HWY_INLINE void gradient_apply_map(const T* x, const T* shortcut, const T* dz, const Lanes<Tag<T>>& k, T* dx,
                                            T* dshortcut, int64_t count) {
    using D = Tag<T>;
    const D d;
    if (count < lanes(d)) {
      const auto added = load_some_shortcut<M>(d, shortcut, count);
      const auto g = gradients_of<N, H, M>(d, load_some(d, x, count), added, load_some(d, dz, count), k);
      store_some(d, g.dx, dx, count);
      if (M == Addition::kShortcut && dshortcut != nullptr) store_some(d, g.dy, dshortcut, count);
      return;
    }
    cover_map<kStream>(
        dx, count, lanes(d),
        [&](int64_t i) HWY_ATTR {
          const auto added = load_shortcut<M>(d, shortcut, i);
          const auto g = gradients_of<N, H, M>(d, load(d, x + i), added, load(d, dz + i), k);
          store(d, g.dx, dx + i);
          if (M == Addition::kShortcut && dshortcut != nullptr) store(d, g.dy, dshortcut + i);
        },
        [&](int64_t i) HWY_ATTR {
          const auto xs = load_pair(d, x + i);
          const auto added = load_shortcut_pair<M>(d, shortcut, i);
          const auto dzs = load_pair(d, dz + i);
          const auto a = gradients_of<N, H, M>(d, xs.first, added.first, dzs.first, k);
          const auto b = gradients_of<N, H, M>(d, xs.second, added.second, dzs.second, k);
          store_pair<kStream>(d, Pair<D>{a.dx, b.dx}, dx + i);
          if (M == Addition::kShortcut && dshortcut != nullptr) {
            store_pair<kStream>(d, Pair<D>{a.dy, b.dy}, dshortcut + i);
          }
        });
  }

  // Whether a vector's address in one array is one in the other; the other may be missing.
  static HWY_INLINE bool aligned_alike(const T* one, const T* other) {
    const auto vector_bytes = static_cast<uintptr_t>(lanes(Tag<T>())) * sizeof(A);
    return other == nullptr ||
           reinterpret_cast<uintptr_t>(one) % vector_bytes == reinterpret_cast<uintptr_t>(other) % vector_bytes;
  }

  template <Norm N, Threshold H, Addition M>
  static void gradient_apply(Extent e, const T* x, const T* shortcut, const T* dz, const Coefficients<A>& k, T* dx,
                             T* dshortcut, bool around_cache) {
    const bool streamed = around_cache && aligned_alike(dx, dshortcut);
    for (int64_t c = 0; c < e.channels; ++c) {
      const int64_t at = c * e.stride;
      const auto lanes_c = broadcast<N, H, true>(k, c);
      if (streamed) {
        gradient_apply_map<N, H, M, true>(x + at, past(shortcut, at), dz + at, lanes_c, dx + at, past(dshortcut, at),
                                          e.positions);
      } else {
        gradient_apply_map<N, H, M, false>(x + at, past(shortcut, at), dz + at, lanes_c, dx + at, past(dshortcut, at),
                                           e.positions);
      }
    }
    if (streamed) hwy::FlushStream();
  }
};

}  // namespace frn::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FRN_KERNELS_SIMD_CONTIGUOUS_INL_H
