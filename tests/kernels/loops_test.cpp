// Every implementation, forced by name, on every case of tests/cases: forward and all gradients against the formulas in
// double. Float results must lie within 4 units in the last place of the magnitudes that were added up.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/kernels/tolerance.h"

namespace frn::kernels {
namespace {

template <typename T>
void check(const Call& call, const Implementation& implementation) {
  const auto in = make_inputs<T>(call);
  expect_as_in_truth<T>(call, in, run<T>(call, in, implementation));
}

class LoopsTest : public testing::TestWithParam<std::string_view> {
 protected:
  void SetUp() override {
    for (const auto& one : implementations()) {
      if (one.name == GetParam()) implementation_ = &one;
    }
    ASSERT_NE(implementation_, nullptr);
    if (!implementation_->why_not.empty()) GTEST_SKIP() << implementation_->name << ": " << implementation_->why_not;
    force_implementation(GetParam());
    ASSERT_EQ(chosen_implementation().name, GetParam());
  }
  void TearDown() override { force_implementation(""); }

  const Implementation* implementation_ = nullptr;
};

// All implementations that this machine can run, on one call after the other.
template <typename T>
void check_all(const std::vector<Shape>& shapes, bool all_groups) {
  uint64_t seed = 0;
  for (const auto& shape : shapes) {
    std::vector<int64_t> groupings{shape.channels};
    if (all_groups && shape.channels > 1) groupings.push_back(1);
    if (all_groups && shape.channels % 2 == 0) groupings.push_back(shape.channels / 2);
    for (const auto layout : {Layout::kContiguous, Layout::kChannelsLast}) {
      for (const auto norm : {Norm::kIdentity, Norm::kUncentered, Norm::kCentered}) {
        for (const auto threshold : {Threshold::kNone, Threshold::kConstant, Threshold::kAffine}) {
          for (const int64_t groups : groupings) {
            Call call{shape, groups, layout, norm, threshold};
            call.seed = ++seed;
            call.eps_per_channel = groups == shape.channels && seed % 2 == 0;
            call.misalign = static_cast<int64_t>(seed % 4);
            call.stream = seed % 3 == 0;
            call.threads = 1 + static_cast<int>(seed % 3);
            if (call.size() == 0) continue;  // the operator returns before the kernels
            const auto in = make_inputs<T>(call);
            const auto truth = compute_truth(call, in, Rounding<T>::kUnit);
            for (const auto& one : implementations()) {
              if (!one.why_not.empty()) continue;  // LoopsTest skips it visibly
              SCOPED_TRACE(testing::Message() << one.name << " " << shape.samples << "x" << shape.channels << "x"
                                              << shape.positions << " groups " << groups << " layout "
                                              << static_cast<int>(layout) << " norm " << static_cast<int>(norm)
                                              << " threshold " << static_cast<int>(threshold) << " seed " << seed);
              expect_as_in_truth<T>(call, truth, run<T>(call, in, one));
              if (testing::Test::HasFatalFailure()) return;
            }
          }
        }
      }
    }
  }
}

TEST(EveryLoop, FloatIsWithinFourUlpOnEveryShape) { check_all<float>(read_shapes("shapes.txt", 4), true); }
TEST(EveryLoop, FloatIsWithinFourUlpOnTheMapsOfResNet) {
  check_all<float>(read_shapes("resnetv2-50-224.txt", 1), false);
}
TEST(EveryLoop, DoubleIsExactToItsRoundingOnEveryShape) { check_all<double>(read_shapes("shapes.txt", 4), true); }
TEST(EveryLoop, BFloat16IsFloatRoundedOnce) { check_all<BFloat16>(read_shapes("shapes.txt", 4), false); }
TEST(EveryLoop, Float16IsFloatRoundedOnce) { check_all<Float16>(read_shapes("shapes.txt", 4), false); }

TEST_P(LoopsTest, SquaresOfHugeFloatsDoNotOverflow) {
  for (const auto layout : {Layout::kContiguous, Layout::kChannelsLast}) {
    for (const auto norm : {Norm::kUncentered, Norm::kCentered}) {
      Call call{{2, 6, 49}, 6, layout, norm, Threshold::kConstant};
      call.scale = 1e30;
      check<float>(call, *implementation_);
    }
  }
}

TEST_P(LoopsTest, Float16BeyondThe256ThatItsSquareCanHold) {
  for (const auto layout : {Layout::kContiguous, Layout::kChannelsLast}) {
    Call call{{2, 6, 49}, 6, layout, Norm::kUncentered, Threshold::kConstant};
    call.scale = 15000;
    check<Float16>(call, *implementation_);
  }
}

TEST_P(LoopsTest, DenormalFloatsKeepTheirValue) {
  for (const auto layout : {Layout::kContiguous, Layout::kChannelsLast}) {
    Call call{{2, 6, 49}, 6, layout, Norm::kUncentered, Threshold::kNone};
    call.scale = 1e-41;
    check<float>(call, *implementation_);
  }
}

TEST_P(LoopsTest, AMeanFarFromZeroCostsNoDigits) {
  // s2 = E[x^2] - E[x]^2 would lose all of them here.
  Call call{{2, 8, 300}, 2, Layout::kContiguous, Norm::kCentered, Threshold::kConstant};
  call.offset = 3000;
  check<float>(call, *implementation_);
  call.layout = Layout::kChannelsLast;
  check<float>(call, *implementation_);
}

TEST_P(LoopsTest, NaNIsPassedOn) {
  for (const auto layout : {Layout::kContiguous, Layout::kChannelsLast}) {
    for (const auto norm : {Norm::kIdentity, Norm::kUncentered, Norm::kCentered}) {
      Call call{{1, 3, 20}, 3, layout, norm, Threshold::kConstant};
      auto in = make_inputs<float>(call);
      in.x[7] = std::numeric_limits<double>::quiet_NaN();
      EXPECT_TRUE(std::isnan(run<float>(call, in, *implementation_).z[7]));
    }
  }
}

std::vector<std::string_view> names() {
  std::vector<std::string_view> out;
  for (const auto& one : implementations()) out.push_back(one.name);
  return out;
}
INSTANTIATE_TEST_SUITE_P(All, LoopsTest, testing::ValuesIn(names()),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace frn::kernels
