// The choice of kernels, grids, shared memory and widths, on every case.
#include "frn/kernels/cuda/plan.h"

#include <gtest/gtest.h>

#include <bit>

#include "tests/kernels/cuda/cuda_call.h"

namespace frn::kernels::cuda {
namespace {

CallShape shape_of_case(const Shape& shape, int64_t value_bytes, Layout layout, Norm norm, bool backward) {
  CallShape call;
  call.samples = shape.samples;
  call.channels = shape.channels;
  call.positions = shape.positions;
  call.groups = shape.channels;
  call.value_bytes = value_bytes;
  call.accumulate_bytes = value_bytes == 8 ? 8 : 4;
  call.layout = layout;
  call.norm = norm;
  call.backward = backward;
  call.parameter_gradients = backward;
  return call;
}

template <typename F>
void for_each_call(F f) {
  for (const char* file : {"shapes.txt", "resnetv2-50-224.txt", "retinanet-r50-1024.txt"}) {
    for (const auto& shape : read_shapes(file, 32)) {
      if (shape.samples * shape.channels * shape.positions == 0) continue;
      for (const int64_t bytes : {2, 4, 8}) {
        for (const auto layout : {Layout::kContiguous, Layout::kChannelsLast}) {
          for (const auto norm : {Norm::kIdentity, Norm::kUncentered, Norm::kCentered}) {
            for (const bool backward : {false, true}) {
              auto call = shape_of_case(shape, bytes, layout, norm, backward);
              for (const int64_t group_channels : {int64_t{1}, shape.channels}) {
                call.groups = norm == Norm::kIdentity ? shape.channels : shape.channels / group_channels;
                for (const auto& device : {kA100, kH100, kRtx4090}) {
                  SCOPED_TRACE(testing::Message()
                               << file << " " << shape.channels << "x" << shape.positions << " of " << bytes
                               << " bytes, layout " << static_cast<int>(layout) << " norm " << static_cast<int>(norm)
                               << " backward " << backward << " groups " << call.groups);
                  f(call, device);
                }
              }
            }
          }
        }
      }
    }
  }
}

TEST(CudaPlan, StaysWithinWhatADeviceAllows) {
  for_each_call([](const CallShape& call, const Device& device) {
    const Plan plan = plan_call(call, device);
    ASSERT_FALSE(plan.steps.empty());
    for (const Step& step : plan.steps) {
      EXPECT_GE(step.grid, 1);
      EXPECT_LE(step.grid, INT32_MAX);
      EXPECT_GE(step.threads, kWarp);
      EXPECT_LE(step.threads, kMaxThreads);
      EXPECT_EQ(step.threads % kWarp, 0);
      EXPECT_GE(step.shared_bytes, 0);
      EXPECT_LE(step.shared_bytes, device.shared_per_block);
    }
    const Cut& cut = plan.cut;
    EXPECT_TRUE(std::has_single_bit(static_cast<unsigned>(cut.team)));
    EXPECT_LE(cut.team, kWarp);
    EXPECT_TRUE(std::has_single_bit(static_cast<unsigned>(cut.group_team)));
    EXPECT_LE(cut.group_team, kWarp);
    EXPECT_EQ(cut.shared.dz % kPackBytes, 0);
    EXPECT_EQ(cut.shared.sums % kPackBytes, 0);
  });
}

TEST(CudaPlan, CoversEveryRowAndPositionOnce) {
  for_each_call([](const CallShape& call, const Device& device) {
    const Plan plan = plan_call(call, device);
    const Cut& cut = plan.cut;
    EXPECT_GE(int64_t{cut.segment} * cut.segments, call.positions);
    EXPECT_LT(int64_t{cut.segment} * (cut.segments - 1), call.positions);
    if (cut.whole_groups) {
      EXPECT_EQ(cut.rows % call.group_channels(), 0);
      EXPECT_EQ(cut.segments, 1);
    }
    int64_t next = 0;
    for (const Step& step : plan.steps) {
      if (step.kernel == Kernel::kSumSamples) continue;
      EXPECT_TRUE(step.first_sample == next || step.first_sample + step.samples == next);
      next = step.first_sample + step.samples;
      const bool over_groups = step.kernel == Kernel::kForwardStatistics || step.kernel == Kernel::kBackwardStatistics;
      if (over_groups) {
        EXPECT_GE(step.grid * step.threads / kWarp, step.samples * call.groups);
      } else if (cut.contiguous) {
        EXPECT_GE(step.grid / cut.segments * cut.rows, step.samples * call.channels);
        EXPECT_LT((step.grid / cut.segments - 1) * cut.rows, step.samples * call.channels);
      } else {
        EXPECT_EQ(step.grid, step.samples * cut.tiles * cut.segments);
        EXPECT_GE(int64_t{cut.tiles} * cut.rows, call.channels);
      }
    }
    EXPECT_EQ(next, call.samples);
  });
}

// What the order of a row's additions follows from.
TEST(CudaPlan, TheNumberOfSamplesChangesNoOrderOfAdditions) {
  for_each_call([](CallShape call, const Device& device) {
    const Cut batch = plan_call(call, device).cut;
    call.samples = 1;
    const Cut alone = plan_call(call, device).cut;
    EXPECT_EQ(batch.whole_groups, alone.whole_groups);
    EXPECT_EQ(batch.contiguous, alone.contiguous);
    EXPECT_EQ(batch.team, alone.team);
    EXPECT_EQ(batch.parts, alone.parts);
    EXPECT_EQ(batch.group_team, alone.group_team);
    EXPECT_EQ(batch.segment, alone.segment);
  });
}

TEST(CudaPlan, TakesSixteenBytesWhereAddressesAllowIt) {
  auto call = shape_of_case({2, 64, 49}, 4, Layout::kContiguous, Norm::kUncentered, true);
  EXPECT_TRUE(plan_call(call, kA100).cut.vector);
  call.x = call.dz = call.out = 4;  // all alike: shared memory is shifted as they are
  EXPECT_TRUE(plan_call(call, kA100).cut.vector);
  call.dz = 8;
  EXPECT_FALSE(plan_call(call, kA100).cut.vector);

  call = shape_of_case({2, 64, 3136}, 4, Layout::kChannelsLast, Norm::kUncentered, false);
  EXPECT_TRUE(plan_call(call, kH100).cut.vector);
  call.x = call.out = 4;
  EXPECT_FALSE(plan_call(call, kH100).cut.vector);
  call.x = call.out = 0;
  call.channels = call.groups = 63;
  EXPECT_FALSE(plan_call(call, kH100).cut.vector);
}

TEST(CudaPlan, SmallAndMediumGroupsAreReadOnce) {
  for (const int64_t positions : {1, 49, 196, 784, 3136, 12544}) {
    for (const bool backward : {false, true}) {
      const auto call = shape_of_case({32, 64, positions}, 4, Layout::kContiguous, Norm::kUncentered, backward);
      for (const auto& device : {kA100, kH100}) EXPECT_TRUE(plan_call(call, device).cut.whole_groups) << positions;
    }
  }
  for (const int64_t positions : {49, 196, 784}) {
    const auto call = shape_of_case({32, 64, positions}, 4, Layout::kChannelsLast, Norm::kUncentered, true);
    EXPECT_TRUE(plan_call(call, kRtx4090).cut.whole_groups) << positions;
  }
}

TEST(CudaPlan, LargeGroupsGoThroughL2InPiecesOfItsHalf) {
  const auto call = shape_of_case({2, 64, int64_t{512} * 512}, 4, Layout::kContiguous, Norm::kUncentered, false);
  const Plan plan = plan_call(call, kRtx4090);
  ASSERT_EQ(plan.steps.size(), 6);  // 64 MB a sample: one at a time
  EXPECT_EQ(plan.steps[0].kernel, Kernel::kForwardSums);
  EXPECT_EQ(plan.steps[1].kernel, Kernel::kForwardStatistics);
  EXPECT_EQ(plan.steps[2].kernel, Kernel::kForwardApply);
  EXPECT_EQ(plan.steps[3].first_sample, 1);
}

TEST(CudaPlan, AnActivationAloneIsReadOnce) {
  auto call = shape_of_case({2, 64, int64_t{512} * 512}, 4, Layout::kContiguous, Norm::kIdentity, false);
  EXPECT_EQ(plan_call(call, kA100).steps.size(), 1);
  call.backward = true;
  call.parameter_gradients = false;  // ReLU's
  EXPECT_EQ(plan_call(call, kA100).steps.size(), 1);
}

}  // namespace
}  // namespace frn::kernels::cuda
