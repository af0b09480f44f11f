// The CUDA kernels, run by the emulator: forward and all gradients against the formulas in double, as the CPU's
// implementations are (tests/kernels/loops_test.cpp), with the threads in three orders that must agree in every bit.
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>

#include "tests/kernels/cuda/cuda_call.h"
#include "tests/kernels/tolerance.h"

namespace frn::kernels::cuda {
namespace {

using emulation::Order;

bool all_cases() { return std::getenv("FRN_ALL_CASES") != nullptr; }

// Which kernels ran in this process.
std::vector<bool>& kernels_run() {
  static std::vector<bool> run(kKernelNames.size());
  return run;
}
void note_kernel(const Step& step, const emulation::Memory&) { kernels_run()[static_cast<size_t>(step.kernel)] = true; }

void expect_same_bits(const Results& one, const Results& other) {
  EXPECT_EQ(one.z, other.z);
  EXPECT_EQ(one.dx, other.dx);
  EXPECT_EQ(one.dgamma, other.dgamma);
  EXPECT_EQ(one.dbeta, other.dbeta);
  EXPECT_EQ(one.dtau, other.dtau);
  EXPECT_EQ(one.dkappa, other.dkappa);
  EXPECT_EQ(one.deps, other.deps);
}

template <typename T>
void check(const Call& call, const Device& device) {
  const auto in = make_inputs<T>(call);
  const auto forwards = emulate<T>(call, in, {device, Order::kAscending}, note_kernel);
  expect_as_in_truth<T>(call, in, forwards);
  expect_same_bits(forwards, emulate<T>(call, in, {device, Order::kDescending}));
  expect_same_bits(forwards, emulate<T>(call, in, {device, Order::kShuffled, call.seed}));
}

std::string name_of(const Call& call) {
  return testing::PrintToString(std::vector<int64_t>{call.shape.samples, call.shape.channels, call.shape.positions}) +
         " groups " + std::to_string(call.groups) + " layout " + std::to_string(static_cast<int>(call.layout)) +
         " norm " + std::to_string(static_cast<int>(call.norm)) + " threshold " +
         std::to_string(static_cast<int>(call.threshold)) + " seed " + std::to_string(call.seed);
}

// Every shape in both layouts. Norms, thresholds, groups, alignments and devices take turns, or, with FRN_ALL_CASES,
// are all combined.
template <typename T>
void check_shapes(const std::string& file, int64_t max_samples, uint64_t seed) {
  for (const auto& shape : read_shapes(file, max_samples)) {
    if (shape.samples * shape.channels * shape.positions == 0) continue;  // the operator returns before the kernels
    std::vector<int64_t> groupings{shape.channels, 1};
    if (shape.channels % 2 == 0) groupings.push_back(shape.channels / 2);
    std::vector<Call> calls;
    for (const auto norm : {Norm::kUncentered, Norm::kCentered, Norm::kIdentity}) {
      for (const auto threshold : {Threshold::kConstant, Threshold::kAffine, Threshold::kNone}) {
        for (const int64_t groups : groupings) {
          if (norm == Norm::kIdentity && groups != shape.channels) continue;
          calls.push_back({shape, groups, Layout::kContiguous, norm, threshold});
        }
      }
    }
    for (const auto layout : {Layout::kContiguous, Layout::kChannelsLast}) {
      for (size_t i = 0; i < (all_cases() ? calls.size() : 1); ++i) {
        Call call = calls[(all_cases() ? i : seed * 5) % calls.size()];
        call.layout = layout;
        call.seed = ++seed;
        call.misalign = seed % 3 == 0 ? 0 : static_cast<int64_t>(seed % 4);
        call.eps_per_channel = call.groups == shape.channels && call.norm != Norm::kIdentity && seed % 2 == 0;
        SCOPED_TRACE(name_of(call));
        check<T>(call, seed % 3 == 1 ? kTinyDevice : kRtx4090);
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

TEST(EmulatedKernels, FloatIsWithinFourUlpOnEveryShape) { check_shapes<float>("shapes.txt", 2, 0); }
TEST(EmulatedKernels, DoubleIsExactToItsRoundingOnEveryShape) { check_shapes<double>("shapes.txt", 2, 100); }
TEST(EmulatedKernels, BFloat16IsFloatRoundedOnce) { check_shapes<BFloat16>("shapes.txt", 2, 200); }
TEST(EmulatedKernels, Float16IsFloatRoundedOnce) { check_shapes<Float16>("shapes.txt", 2, 300); }

// One sample and the first 16 channels of each: the rest differs in number alone.
TEST(EmulatedKernels, FloatIsWithinFourUlpOnTheMapsOfResNet) {
  uint64_t seed = 0;
  for (auto shape : read_shapes("resnetv2-50-224.txt", 1)) {
    shape.channels = 16;
    for (const auto layout : {Layout::kContiguous, Layout::kChannelsLast}) {
      Call call{shape, ++seed % 2 == 0 ? 16 : 4, layout, seed % 2 == 0 ? Norm::kUncentered : Norm::kCentered,
                Threshold::kConstant};
      SCOPED_TRACE(name_of(call));
      call.misalign = 0;
      check<float>(call, kH100);
      if (HasFailure() || !all_cases()) break;
    }
  }
}

// Every norm and activation on both ways, of one kernel and of three.
TEST(EmulatedKernels, EveryKernelRunsOnEveryNormAndThreshold) {
  for (const auto& device : {kRtx4090, kTinyDevice}) {
    for (const auto layout : {Layout::kContiguous, Layout::kChannelsLast}) {
      for (const auto norm : {Norm::kUncentered, Norm::kCentered, Norm::kIdentity}) {
        for (const auto threshold : {Threshold::kConstant, Threshold::kAffine, Threshold::kNone}) {
          Call call{{2, 4, 3000}, norm == Norm::kIdentity ? 4 : 1, layout, norm, threshold};
          SCOPED_TRACE(name_of(call));
          check<float>(call, device);
        }
      }
    }
  }
  for (size_t i = 0; i < kKernelNames.size(); ++i) EXPECT_TRUE(kernels_run()[i]) << kKernelNames[i] << " did not run";
}

// What holds for both ways and both layouts.
template <typename F>
void for_each_way(const Shape& shape, F f) {
  for (const auto& device : {kRtx4090, kTinyDevice}) {
    for (const auto layout : {Layout::kContiguous, Layout::kChannelsLast}) {
      for (const auto norm : {Norm::kUncentered, Norm::kCentered}) {
        Call call{shape, shape.channels, layout, norm, Threshold::kConstant};
        SCOPED_TRACE(name_of(call));
        f(call, Setting{device});
      }
    }
  }
}

TEST(EmulatedKernels, ASampleIsTheSameAloneAndInABatch) {
  for (const Shape& shape : {Shape{3, 5, 49}, Shape{3, 2, 5000}, Shape{5, 33, 1}}) {
    for_each_way(shape, [](Call call, const Setting& setting) {
      call.threshold = Threshold::kAffine;
      const auto in = make_inputs<float>(call);
      const auto batch = emulate<float>(call, in, setting);
      Call alone = call;
      alone.shape.samples = 1;
      const auto size = static_cast<std::ptrdiff_t>(alone.size());
      for (int64_t n = 0; n < call.shape.samples; ++n) {
        const auto cut = [&](const std::vector<double>& v) {
          return std::vector<double>(v.begin() + n * size, v.begin() + (n + 1) * size);
        };
        auto part = in;
        part.x = cut(in.x);
        part.dz = cut(in.dz);
        const auto single = emulate<float>(alone, part, setting);
        EXPECT_EQ(single.z, cut(batch.z));
        EXPECT_EQ(single.dx, cut(batch.dx));
      }
    });
  }
}

TEST(EmulatedKernels, AlignmentDoesNotChangeABit) {
  for_each_way({2, 8, 53}, [](Call call, const Setting& setting) {
    const auto in = make_inputs<BFloat16>(call);
    call.misalign = 0;
    const auto aligned = emulate<BFloat16>(call, in, setting);
    for (const int64_t misalign : {1, 2, 7}) {
      call.misalign = misalign;
      expect_same_bits(aligned, emulate<BFloat16>(call, in, setting));
    }
  });
}

TEST(EmulatedKernels, ParametersGradientsAreTheSameWithoutDx) {
  for_each_way({2, 6, 700}, [](const Call& call, Setting setting) {
    const auto in = make_inputs<float>(call);
    auto with = emulate<float>(call, in, setting);
    setting.dx = false;
    with.dx.clear();
    expect_same_bits(with, emulate<float>(call, in, setting));
  });
}

TEST(EmulatedKernels, SquaresOfHugeFloatsDoNotOverflow) {
  for_each_way({1, 3, 49}, [](Call call, const Setting& setting) {
    call.scale = 1e30;
    check<float>(call, setting.device);
  });
}

TEST(EmulatedKernels, Float16BeyondThe256ThatItsSquareCanHold) {
  for_each_way({1, 3, 49}, [](Call call, const Setting& setting) {
    call.scale = 15000;
    check<Float16>(call, setting.device);
  });
}

TEST(EmulatedKernels, DenormalFloatsKeepTheirValue) {
  for_each_way({1, 3, 49}, [](Call call, const Setting& setting) {
    if (call.norm == Norm::kCentered) return;
    call.threshold = Threshold::kNone;
    call.scale = 1e-41;
    check<float>(call, setting.device);
  });
}

TEST(EmulatedKernels, AMeanFarFromZeroCostsNoDigits) {
  for_each_way({1, 8, 300}, [](Call call, const Setting& setting) {
    call.groups = 2;
    call.offset = 3000;
    if (call.norm == Norm::kCentered) check<float>(call, setting.device);
  });
}

TEST(EmulatedKernels, NaNIsPassedOn) {
  for_each_way({1, 3, 20}, [](Call call, const Setting& setting) {
    for (const auto norm : {call.norm, Norm::kIdentity}) {
      call.norm = norm;
      auto in = make_inputs<float>(call);
      in.x[7] = std::numeric_limits<double>::quiet_NaN();
      EXPECT_TRUE(std::isnan(emulate<float>(call, in, setting).z[7]));
    }
  });
}

// As on the CPU: an infinite mean square makes rstd 0, so that finite values come out as beta.
TEST(EmulatedKernels, InfinityIsNotHidden) {
  for_each_way({1, 2, 20}, [](Call call, const Setting& setting) {
    call.threshold = Threshold::kNone;
    auto in = make_inputs<float>(call);
    in.x.assign(in.x.size(), 1.0);
    in.x[0] = std::numeric_limits<double>::infinity();
    const auto z = emulate<float>(call, in, setting).z;
    EXPECT_TRUE(std::isnan(z[0]));
    const size_t second = call.layout == Layout::kContiguous ? 1 : 2;
    if (call.norm == Norm::kCentered) {
      EXPECT_TRUE(std::isnan(z[second]));
    } else {
      EXPECT_EQ(z[second], in.beta[0]);
    }
  });
}

TEST(EmulatedKernels, AtTheThresholdTheGradientGoesToY) {
  for (const auto layout : {Layout::kContiguous, Layout::kChannelsLast}) {
    const Call call{{1, 2, 40}, 2, layout, Norm::kIdentity, Threshold::kConstant};
    auto in = make_inputs<float>(call);
    in.tau = {0.5, 0.5};
    in.x.assign(in.x.size(), 0.5);
    const auto got = emulate<float>(call, in, {});
    EXPECT_EQ(got.dx, in.dz);
    EXPECT_EQ(got.dtau, std::vector<double>({0, 0}));
  }
}

}  // namespace
}  // namespace frn::kernels::cuda
