// CIFAR, folders of images and noise as sets, and the check of a whole set.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "frn/core/error.h"
#include "frn/data/check.h"
#include "frn/data/dataset.h"
#include "tests/data/fake_set.h"
#include "tests/data/made_images.h"
#include "tests/data/shared_data.h"

namespace frn::data {
namespace {

namespace fs = std::filesystem;

class Folder : public testing::Test {
 protected:
  Folder() : folder_(fs::path(testing::TempDir()) / ("frn-data-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~Folder() override { fs::remove_all(folder_); }

  void write(const fs::path& name, const std::string& bytes) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  std::shared_ptr<const Dataset> open(const std::string& kind, Split split = Split::kTrain) const {
    return open_dataset(parse_data_name(kind + ":" + folder_.string()), split);
  }
  std::string complaint(const std::string& kind, Split split = Split::kTrain) const {
    try {
      open(kind, split);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  fs::path folder_;
};

using Cifar = Folder;

std::string record(std::string labels, char first) {
  for (int i = 0; i < 3 * 1024; ++i) labels += static_cast<char>(first + i / 1024);
  return labels;
}

TEST_F(Cifar, TenHasFiveFilesAndPlanesBecomePixels) {
  write("batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n");
  for (int i = 1; i <= 5; ++i) {
    const std::string label(1, static_cast<char>(i));
    write("data_batch_" + std::to_string(i) + ".bin", record(label, 10) + record(label, 20));
  }
  write("test_batch.bin", record(std::string(1, '\x09'), 40));
  const auto set = open("cifar10");
  ASSERT_EQ(set->size(), 10);
  EXPECT_EQ(set->target(3).label, 2);
  EXPECT_EQ(set->name(3), "data_batch_2.bin, image 1");
  EXPECT_EQ(set->classes().size(), 10U);
  const auto image = set->open(3)->read({31, 31, 1, 1}, {1, 1});
  EXPECT_EQ(image.pixels, (std::vector<uint8_t>{20, 21, 22}));
  EXPECT_EQ(open("cifar10", Split::kValidation)->target(0).label, 9);
}

TEST_F(Cifar, HundredTakesTheFineLabel) {
  std::string names;
  for (int i = 0; i < 100; ++i) names += "class" + std::to_string(i) + "\n";
  write("fine_label_names.txt", names);
  write("train.bin", record("\x05\x63", 1));
  const auto set = open("cifar100");
  EXPECT_EQ(set->classes()[static_cast<size_t>(set->target(0).label)], "class99");
  write("train.bin", record("\x05\x64", 1));
  EXPECT_NE(complaint("cifar100").find("labels must be below 100 but image 0 has 100"), std::string::npos);
}

TEST_F(Cifar, SaysWhatAFileLacks) {
  EXPECT_NE(complaint("cifar10").find("batches.meta.txt: cannot open"), std::string::npos);
  write("batches.meta.txt", "a\nb\n");
  EXPECT_NE(complaint("cifar10").find("must name 10 classes"), std::string::npos);
  write("batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n");
  EXPECT_NE(complaint("cifar10").find("data_batch_1.bin: cannot open"), std::string::npos);
  write("data_batch_1.bin", record("\x01", 1).substr(1));
  EXPECT_NE(complaint("cifar10").find("must be a multiple of 3073 bytes"), std::string::npos);
  write("data_batch_1.bin", "");
  EXPECT_NE(complaint("cifar10").find("but is 0"), std::string::npos);
}

using ImageFolder = Folder;

TEST_F(ImageFolder, LabelsAreTheTrainingFoldersInOrder) {
  const auto png = to_png(made_image({4, 6}, 3), false);
  const auto jpeg = to_jpeg(made_image({8, 8}, 1), {});
  write("train/cat/2.PNG", png);
  write("train/cat/1.jpg", jpeg);
  write("train/ant/deep/x.jpeg", png);  // what it is, its content says
  write("train/ant/.hidden.jpg", "no image");
  write("train/bee/b.jpg", jpeg);
  write("val/cat/1.jpg", jpeg);
  const auto train = open("imagefolder");
  ASSERT_EQ(train->size(), 4);
  EXPECT_EQ(train->classes(), (std::vector<std::string>{"ant", "bee", "cat"}));
  EXPECT_EQ(train->open(0)->size(), (Size{4, 6}));
  EXPECT_TRUE(train->name(2).ends_with("train/cat/1.jpg"));
  const auto validation = open("imagefolder", Split::kValidation);
  ASSERT_EQ(validation->size(), 1);
  EXPECT_EQ(validation->target(0).label, 2) << "cat's number in train, not in val";
}

TEST_F(ImageFolder, SaysWhatAFolderLacks) {
  EXPECT_NE(complaint("imagefolder").find("has no train"), std::string::npos);
  fs::create_directories(folder_ / "train");
  EXPECT_NE(complaint("imagefolder").find("one folder per class but holds none"), std::string::npos);
  fs::create_directories(folder_ / "train" / "a");
  EXPECT_NE(complaint("imagefolder").find("files that end in .jpg, .jpeg or .png but holds none"), std::string::npos);
  write("train/a/1.png", "x");
  write("val/b/1.png", "x");
  EXPECT_NE(complaint("imagefolder", Split::kValidation).find("this class has no folder under train/"),
            std::string::npos);
  EXPECT_THROW(open("imagefolder")->open(0), Error);
}

using Check = Folder;

TEST_F(Check, CountsClassesSizesAndBrokenImagesWhateverTheThreads) {
  write("train/a/1.png", to_png(made_image({4, 60}, 3), false));
  write("train/a/2.png", to_png(made_image({30, 6}, 1), false));
  write("train/a/3.jpg", "no image");
  const auto jpeg = to_jpeg(made_image({32, 32}, 3), {});
  write("train/b/1.jpg", jpeg.substr(0, jpeg.size() / 2));
  const auto set = open("imagefolder");
  for (const int64_t threads : {1, 3}) {
    int64_t last = 0;
    const auto report = check_dataset(*set, threads, [&](int64_t done, int64_t all) {
      EXPECT_GT(done, last);
      EXPECT_EQ(all, 4);
      last = done;
    });
    EXPECT_EQ(last, 4);
    EXPECT_EQ(report.images, 4);
    EXPECT_EQ(report.per_class, (std::vector<int64_t>{3, 1}));
    EXPECT_EQ(report.smallest, (Size{4, 6}));
    EXPECT_EQ(report.largest, (Size{30, 60}));
    EXPECT_EQ(report.grey, 1);
    ASSERT_EQ(report.broken.size(), 2U);
    EXPECT_EQ(report.broken[0].index, 2);
    EXPECT_NE(report.broken[0].reason.find("does not start as one"), std::string::npos);
    EXPECT_NE(report.broken[1].reason.find("Premature end"), std::string::npos);
  }
}

TEST(CheckDataset, EndsWithWhatProgressThrows) {
  const FakeSet set(1000);
  EXPECT_THROW(check_dataset(set, 2, [](int64_t, int64_t) { throw std::runtime_error("stop"); }), std::runtime_error);
  EXPECT_LT(set.opened, 1000);
  EXPECT_THROW(check_dataset(set, 0), Error);
}

TEST(Noise, ImagesFollowFromTheirIndex) {
  const auto set = open_dataset(parse_data_name("random:20x1x7"), Split::kTrain);
  const auto whole = set->open(3)->read({0, 0, 20, 20}, {20, 20});
  EXPECT_EQ(whole.channels, 1);
  EXPECT_EQ(set->open(3)->read({0, 0, 20, 20}, {20, 20}).pixels, whole.pixels);
  EXPECT_NE(set->open(4)->read({0, 0, 20, 20}, {20, 20}).pixels, whole.pixels);
  const auto part = set->open(3)->read({5, 3, 2, 10}, {1, 1});
  constexpr ptrdiff_t kPlace = 5 * 20 + 3;
  EXPECT_TRUE(std::equal(part.pixels.begin(), part.pixels.begin() + 10, whole.pixels.begin() + kPlace));
  EXPECT_EQ(set->classes().size(), 7U);
  EXPECT_EQ(set->target(9).label, 2);
  EXPECT_EQ(open_dataset(parse_data_name("random"), Split::kTrain)->open(0)->size(), (Size{224, 224}));
  for (const auto* text :
       {"random:x", "random:20", "random:20x2x3", "random:20x3x0", "random:0x3x1", "random:2x3x4x"}) {
    EXPECT_THROW(open_dataset(parse_data_name(text), Split::kTrain), Error) << text;
  }
}

// --- Real data; absent on most machines ---

TEST(RealCifar10, HasItsPublishedCounts) {
  const auto folder = shared_data("cifar-10-batches-bin");
  if (!fs::is_directory(folder)) GTEST_SKIP() << folder << " is not there (set FRN_SHARED_DATA)";
  const auto name = parse_data_name("cifar10:" + folder.string());
  const auto set = open_dataset(name, Split::kTrain);
  EXPECT_EQ(set->size(), 50000);
  EXPECT_EQ(set->classes()[static_cast<size_t>(set->target(0).label)], "frog");
  const auto report = check_dataset(*open_dataset(name, Split::kValidation), 2);
  EXPECT_EQ(report.per_class, std::vector<int64_t>(10, 1000));
  EXPECT_TRUE(report.broken.empty());
}

TEST(RealImageFolder, EveryPhotographDecodes) {
  const auto folder = shared_data("imagenette-mini");
  if (!fs::is_directory(folder)) GTEST_SKIP() << folder << " is not there (set FRN_SHARED_DATA)";
  const auto set = open_dataset(parse_data_name("imagefolder:" + folder.string()), Split::kValidation);
  EXPECT_EQ(set->size(), 300);
  EXPECT_TRUE(check_dataset(*set, 2).broken.empty());
}

}  // namespace
}  // namespace frn::data
