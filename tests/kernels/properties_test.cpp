// What holds bit for bit: the same result for any number of threads, alone or in a batch, and whatever the cut of the
// work.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/kernels/truth.h"

namespace frn::kernels {
namespace {

std::vector<Shape> shapes() {
  return {{3, 8, 4225}, {1, 2, 17030}, {5, 33, 49},  {1, 4, 40000}, {4, 64, 1},
          {2, 6, 1100}, {1, 1400, 49}, {2, 75, 600}, {3, 1400, 25}};
}

template <typename F>
void for_each_call(F f) {
  for (const auto& implementation : implementations()) {
    if (!implementation.why_not.empty()) continue;
    for (const auto& shape : shapes()) {
      for (const int64_t groups : {shape.channels, int64_t{1}}) {
        for (const auto layout : {Layout::kContiguous, Layout::kChannelsLast}) {
          for (const auto norm : {Norm::kUncentered, Norm::kCentered}) {
            SCOPED_TRACE(testing::Message() << implementation.name << " " << shape.samples << "x" << shape.channels
                                            << "x" << shape.positions << " groups " << groups << " layout "
                                            << static_cast<int>(layout) << " norm " << static_cast<int>(norm));
            f(Call{shape, groups, layout, norm, Threshold::kAffine}, implementation);
          }
        }
      }
    }
  }
}

TEST(Determinism, ThreadsDoNotChangeABit) {
  for_each_call([](Call call, const Implementation& implementation) {
    const auto in = make_inputs<float>(call);
    const auto one = run<float>(call, in, implementation);
    for (const int threads : {2, 3, 7}) {
      call.threads = threads;
      const auto many = run<float>(call, in, implementation);
      EXPECT_EQ(one.z, many.z);
      EXPECT_EQ(one.dx, many.dx);
      EXPECT_EQ(one.dgamma, many.dgamma);
      EXPECT_EQ(one.dbeta, many.dbeta);
      EXPECT_EQ(one.dtau, many.dtau);
      EXPECT_EQ(one.dkappa, many.dkappa);
      EXPECT_EQ(one.deps, many.deps);
    }
  });
}

// So many channels and segments that threads share the sums of the segments too.
TEST(Determinism, SumsThatThreadsShareDoNotChangeABit) {
  Call call{{1, 512, 8800}, 1, Layout::kChannelsLast, Norm::kCentered, Threshold::kAffine};
  Problem<float> p;
  p.samples = call.shape.samples;
  p.channels = call.shape.channels;
  p.positions = call.shape.positions;
  p.groups = call.groups;
  p.layout = call.layout;
  p.norm = call.norm;
  const auto in = make_inputs<float>(call);
  const auto one = run<float>(call, in, chosen_implementation());
  for (const int threads : {2, 3, 7}) {
    const auto plan = make_plan(p, 2, threads);
    ASSERT_TRUE(plan.split);
    ASSERT_GE(kGradientSums * p.channels * plan.segments, 32768) << "what this test is about";
    call.threads = threads;
    const auto many = run<float>(call, in, chosen_implementation());
    EXPECT_EQ(one.z, many.z);
    EXPECT_EQ(one.dx, many.dx);
    EXPECT_EQ(one.dgamma, many.dgamma);
    EXPECT_EQ(one.dkappa, many.dkappa);
    EXPECT_EQ(one.deps, many.deps);
  }
}

// Of small channels-last maps one image has a single segment, whose rows all channels share.
TEST(Plan, FewImagesKeepEveryThreadBusy) {
  for (const auto& shape : {Shape{1, 2048, 49}, Shape{1, 1024, 196}, Shape{2, 512, 784}, Shape{3, 256, 3136}}) {
    for (const int64_t groups : {shape.channels, shape.channels / 32, int64_t{1}}) {
      for (const auto layout : {Layout::kContiguous, Layout::kChannelsLast}) {
        for (const int threads : {1, 2, 3, 16, 64}) {
          Problem<float> p;
          p.samples = shape.samples;
          p.channels = shape.channels;
          p.positions = shape.positions;
          p.groups = groups;
          p.layout = layout;
          const auto plan = make_plan(p, 1, threads);
          const int64_t values = shape.samples * shape.channels * shape.positions;
          EXPECT_GE(plan.pieces(p.samples, p.channels), std::min<int64_t>(threads, values / kValuesPerThread))
              << shape.samples << "x" << shape.channels << "x" << shape.positions << ", " << groups << " groups, "
              << threads << " threads, layout " << static_cast<int>(layout);
        }
      }
    }
  }
}

TEST(Determinism, ASampleIsTheSameAloneAndInABatch) {
  for_each_call([](Call call, const Implementation& implementation) {
    call.threads = 2;
    const auto in = make_inputs<float>(call);
    const auto batch = run<float>(call, in, implementation);
    Call alone = call;
    alone.shape.samples = 1;
    const auto size = static_cast<std::ptrdiff_t>(alone.size());
    for (int64_t n = 0; n < call.shape.samples; ++n) {
      auto part = in;
      const auto cut = [&](const std::vector<double>& v) {
        return std::vector<double>(v.begin() + n * size, v.begin() + (n + 1) * size);
      };
      part.x = cut(in.x);
      part.dz = cut(in.dz);
      const auto single = run<float>(alone, part, implementation);
      EXPECT_EQ(single.z, cut(batch.z));
      EXPECT_EQ(single.dx, cut(batch.dx));
    }
  });
}

TEST(Determinism, WritingAroundTheCacheDoesNotChangeABit) {
  for_each_call([](Call call, const Implementation& implementation) {
    const auto in = make_inputs<float>(call);
    const auto usual = run<float>(call, in, implementation);
    call.stream = true;
    for (const int64_t misalign : {0, 3}) {
      call.misalign = misalign;
      const auto streamed = run<float>(call, in, implementation);
      EXPECT_EQ(usual.z, streamed.z);
      EXPECT_EQ(usual.dx, streamed.dx);
    }
  });
}

}  // namespace
}  // namespace frn::kernels
