// The ordered list of implementations and the choice among them.
#include <gtest/gtest.h>

#include "frn/core/error.h"
#include "frn/kernels/kernels.h"

namespace frn::kernels {
namespace {

TEST(Implementations, TheReferenceIsLastAndRunsEverywhere) {
  const auto list = implementations();
  ASSERT_FALSE(list.empty());
  EXPECT_EQ(list.back().name, "reference");
  EXPECT_TRUE(list.back().why_not.empty());
}

TEST(Implementations, TheFirstThatRunsIsChosen) {
  force_implementation("");
  for (const auto& one : implementations()) {
    if (!one.why_not.empty()) continue;
    EXPECT_EQ(chosen_implementation().name, one.name);
    return;
  }
}

TEST(Implementations, ForcingTakesEffectAndCanBeUndone) {
  const auto usual = chosen_implementation().name;
  force_implementation("reference");
  EXPECT_EQ(chosen_implementation().name, "reference");
  force_implementation("");
  EXPECT_EQ(chosen_implementation().name, usual);
}

TEST(Implementations, AnUnknownNameListsTheKnownOnes) {
  try {
    force_implementation("referense");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("reference"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("did you mean"), std::string::npos) << error.what();
  }
}

TEST(Implementations, OneThatThisMachineLacksSaysWhy) {
  for (const auto& one : implementations()) {
    if (one.why_not.empty()) {
      EXPECT_NO_THROW(force_implementation(one.name));
    } else {
      EXPECT_THROW(force_implementation(one.name), Error);
    }
  }
  force_implementation("");
}

}  // namespace
}  // namespace frn::kernels
