// Fills the table of loops of one SIMD target for one element type. Included once per target by f32.cpp and its peers.
#if defined(FRN_KERNELS_SIMD_LOOPS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef FRN_KERNELS_SIMD_LOOPS_INL_H
#undef FRN_KERNELS_SIMD_LOOPS_INL_H
#else
#define FRN_KERNELS_SIMD_LOOPS_INL_H
#endif

#include "frn/kernels/simd/channels_last-inl.h"
#include "frn/kernels/simd/contiguous-inl.h"
#include "frn/kernels/simd/finish-inl.h"
#include "frn/kernels/simd/simd.h"

// No HWY_BEFORE_NAMESPACE: the tables of all targets are filled on every machine, so this code must run on the
// baseline.
namespace frn::kernels::HWY_NAMESPACE {

template <class Source, Norm N, Threshold H, Addition M, typename T>
void fill_variant(Loops<T>& loops) {
  constexpr int kNorm = static_cast<int>(N);
  constexpr int kThreshold = static_cast<int>(H);
  constexpr int kAddition = static_cast<int>(M);
  loops.apply[kAddition][kNorm][kThreshold] = Source::template apply<N, H, M>;
  loops.gradient_sums[kAddition][kNorm][kThreshold] = Source::template gradient_sums<N, H, M>;
  loops.gradient_apply[kAddition][kNorm][kThreshold] = Source::template gradient_apply<N, H, M>;
}

template <class Source, Norm N, typename T>
void fill_norm(Loops<T>& loops) {
  fill_variant<Source, N, Threshold::kNone, Addition::kNone>(loops);
  fill_variant<Source, N, Threshold::kConstant, Addition::kNone>(loops);
  fill_variant<Source, N, Threshold::kAffine, Addition::kNone>(loops);
  if constexpr (kAddsShortcut<T> && N != Norm::kIdentity) {
    fill_variant<Source, N, Threshold::kConstant, Addition::kShortcut>(loops);
    fill_variant<Source, N, Threshold::kAffine, Addition::kShortcut>(loops);
  }
}

template <class Source, typename T>
Loops<T> loops_of() {
  Loops<T> loops{};
  loops.sum = Source::sum;
  loops.sum_squares = Source::sum_squares;
  loops.sum_squared_deviations = Source::sum_squared_deviations;
  loops.rstd = rstd<Accumulate<T>>;
  loops.finish_channel_gradients = finish_channel_gradients<Accumulate<T>>;
  fill_norm<Source, Norm::kIdentity>(loops);
  fill_norm<Source, Norm::kUncentered>(loops);
  fill_norm<Source, Norm::kCentered>(loops);
  return loops;
}

template <typename T>
const LayoutLoops<T>* layout_loops() {
  static const LayoutLoops<T> loops{{loops_of<Contiguous<T>, T>(), loops_of<ChannelsLast<T>, T>()}};
  return &loops;
}

}  // namespace frn::kernels::HWY_NAMESPACE
#endif  // FRN_KERNELS_SIMD_LOOPS_INL_H
