#include <gtest/gtest.h>

#include <map>

#include "frn/core/error.h"
#include "frn/data/dataset.h"

namespace frn::data {
namespace {

std::string complaint(std::string_view text) {
  try {
    parse_data_name(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Kinds, NamesAreTakenApartAndChecked) {
  EXPECT_EQ(parse_data_name("fashion-mini").kind->name, "fashion-mini");
  EXPECT_EQ(parse_data_name("idx:a/b:c").path, "a/b:c");
  EXPECT_NE(complaint("idxx:a").find("did you mean 'idx'?"), std::string::npos);
  EXPECT_NE(complaint("idx").find("write idx:DIR"), std::string::npos);
  EXPECT_NE(complaint("idx:").find("write idx:DIR"), std::string::npos);
  EXPECT_NE(complaint("fashion-mini:x").find("takes no path"), std::string::npos);
  EXPECT_NE(complaint("").find("must be one of fashion-mini"), std::string::npos);
}

TEST(Kinds, ANoiseSetIsWhatItsNameSays) {
  const auto set = open_dataset(parse_data_name("random:28x1x10"), Split::kTrain);
  EXPECT_EQ(set->facts().channels, 1);
  EXPECT_EQ(set->facts().image_size, 28);
  EXPECT_EQ(set->classes().size(), 10U);
  const auto usual = open_dataset(parse_data_name("random"), Split::kTrain);
  EXPECT_EQ(usual->facts().channels, 3);
  EXPECT_EQ(usual->facts().image_size, 224);
}

TEST(FashionMini, HoldsWhatItsReadmeSays) {
  for (const auto& [split, per_class] : {std::pair{Split::kTrain, 500}, {Split::kValidation, 100}}) {
    const auto set = open_dataset(parse_data_name("fashion-mini"), split);
    EXPECT_EQ(set->size(), 10 * per_class);
    EXPECT_EQ(set->classes().size(), 10U);
    std::map<int64_t, int> counts;
    for (int64_t i = 0; i < set->size(); ++i) ++counts[set->target(i).label];
    ASSERT_EQ(counts.size(), 10U);
    for (const auto& [label, count] : counts) EXPECT_EQ(count, per_class);
  }
}

// Fashion-MNIST's first training image is an ankle boot, its first test image too.
TEST(FashionMini, KeepsTheOrderOfTheOriginal) {
  const auto train = open_dataset(parse_data_name("fashion-mini"), Split::kTrain);
  EXPECT_EQ(train->classes()[static_cast<size_t>(train->target(0).label)], "Ankle boot");
  const auto source = train->open(0);
  EXPECT_EQ(source->size(), (Size{28, 28}));
  const auto image = source->read({0, 0, 28, 28}, {28, 28});
  int64_t sum = 0;
  for (const auto pixel : image.pixels) sum += pixel;
  EXPECT_EQ(sum, 76247);
}

}  // namespace
}  // namespace frn::data
