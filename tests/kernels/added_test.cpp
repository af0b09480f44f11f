// The loops that add a shortcut to y before the activation: the formulas in double, the bits of the three calls that
// they take the place of, and the same bits whatever the cut of the work.
#include <gtest/gtest.h>

#include "tests/kernels/tolerance.h"

namespace frn::kernels {
namespace {

// f(call) for every shape of a file with every norm, threshold and layout that have such loops.
template <typename F>
void for_each_added_call(const std::string& file, F f) {
  uint64_t seed = 0;
  for (const auto& shape : read_shapes(file, 3)) {
    if (shape.samples * shape.channels * shape.positions == 0) continue;  // the operator returns before the kernels
    for (const auto layout : {Layout::kContiguous, Layout::kChannelsLast}) {
      for (const auto norm : {Norm::kUncentered, Norm::kCentered}) {
        for (const auto threshold : {Threshold::kConstant, Threshold::kAffine}) {
          Call call{shape, seed % 2 == 0 ? shape.channels : 1, layout, norm, threshold, /*added=*/true};
          call.seed = ++seed;
          call.eps_per_channel = call.groups == shape.channels && seed % 4 == 1;
          call.misalign = static_cast<int64_t>(seed % 4);
          call.stream = seed % 3 == 0;
          call.threads = 1 + static_cast<int>(seed % 3);
          f(call);
        }
      }
    }
  }
}

template <typename F>
void for_each_implementation(const Call& call, F f) {
  for (const auto& one : implementations()) {
    if (!one.why_not.empty()) continue;  // LoopsTest skips it visibly
    SCOPED_TRACE(testing::Message() << one.name << " " << call.shape.samples << "x" << call.shape.channels << "x"
                                    << call.shape.positions << " groups " << call.groups << " layout "
                                    << static_cast<int>(call.layout) << " norm " << static_cast<int>(call.norm)
                                    << " threshold " << static_cast<int>(call.threshold) << " seed " << call.seed);
    f(one);
    if (testing::Test::HasFailure()) return;
  }
}

template <typename T>
void expect_the_formulas() {
  for_each_added_call("shapes.txt", [](const Call& call) {
    const auto in = make_inputs<T>(call);
    const auto truth = compute_truth(call, in, Rounding<T>::kUnit);
    for_each_implementation(
        call, [&](const Implementation& one) { expect_as_in_truth<T>(call, truth, run<T>(call, in, one)); });
  });
}

TEST(AddedShortcut, FloatIsWithinFourUlpOnEveryShape) { expect_the_formulas<float>(); }
TEST(AddedShortcut, BFloat16IsFloatRoundedOnce) { expect_the_formulas<BFloat16>(); }

// The norm alone, the sum in float, the activation alone; and back.
Results one_after_the_other(const Call& call, const Inputs& in, const Implementation& implementation) {
  Call norm = call;
  norm.added = false;
  norm.threshold = Threshold::kNone;
  const auto y = run<float>(norm, in, implementation).z;
  Call act = call;
  act.added = false;
  act.norm = Norm::kIdentity;
  auto of_sum = in;
  for (size_t i = 0; i < y.size(); ++i) {
    of_sum.x[i] = static_cast<double>(static_cast<float>(y[i]) + static_cast<float>(in.shortcut[i]));
  }
  const auto activated = run<float>(act, of_sum, implementation);
  auto back = in;
  back.dz = activated.dx;
  auto out = run<float>(norm, back, implementation);
  out.z = activated.z;
  out.dtau = activated.dtau;
  out.dkappa = activated.dkappa;
  out.dshortcut = activated.dx;
  return out;
}

void expect_same_bits(const Results& one, const Results& other) {
  ASSERT_EQ(one.z, other.z);
  ASSERT_EQ(one.dx, other.dx);
  ASSERT_EQ(one.dshortcut, other.dshortcut);
  ASSERT_EQ(one.dgamma, other.dgamma);
  ASSERT_EQ(one.dbeta, other.dbeta);
  ASSERT_EQ(one.dtau, other.dtau);
  ASSERT_EQ(one.dkappa, other.dkappa);
  ASSERT_EQ(one.deps, other.deps);
}

TEST(AddedShortcut, HasTheBitsOfTheThreeCallsOneAfterTheOther) {
  for_each_added_call("shapes.txt", [](const Call& call) {
    const auto in = make_inputs<float>(call);
    for_each_implementation(call, [&](const Implementation& one) {
      expect_same_bits(run<float>(call, in, one), one_after_the_other(call, in, one));
    });
  });
}

// Neither the threads nor how results are written; of few large maps, whose passes are split, and of many small ones.
TEST(AddedShortcut, HasTheSameBitsWhateverTheCutOfTheWork) {
  for (const Shape& shape : {Shape{3, 8, 4225}, Shape{1, 4, 40000}, Shape{5, 33, 49}, Shape{4, 64, 1}}) {
    for (const auto layout : {Layout::kContiguous, Layout::kChannelsLast}) {
      for (const auto norm : {Norm::kUncentered, Norm::kCentered}) {
        Call call{shape,         norm == Norm::kCentered ? 1 : shape.channels, layout, norm, Threshold::kAffine,
                  /*added=*/true};
        const auto in = make_inputs<float>(call);
        for_each_implementation(call, [&](const Implementation& one) {
          const auto usual = run<float>(call, in, one);
          Call other = call;
          for (const int threads : {2, 3, 7}) {
            other.threads = threads;
            for (const int64_t misalign : {0, 3}) {
              other.misalign = misalign;
              other.stream = misalign == 0 || threads == 3;
              expect_same_bits(usual, run<float>(other, in, one));
            }
          }
        });
      }
    }
  }
}

}  // namespace
}  // namespace frn::kernels
