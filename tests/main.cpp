// gtest's own main, but for its exit code where a test was skipped: ctest then says so.
#include <gtest/gtest.h>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const int failed = RUN_ALL_TESTS();
  constexpr int kSkipped = 77;
  return failed == 0 && testing::UnitTest::GetInstance()->skipped_test_count() > 0 ? kSkipped : failed;
}
