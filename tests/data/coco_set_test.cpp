// COCO's files as a set.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <numeric>

#include "frn/data/check.h"
#include "frn/data/dataset.h"
#include "frn/data/loader.h"
#include "tests/core/files.h"
#include "tests/data/made_images.h"
#include "tests/data/shared_data.h"

namespace frn::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCategories = R"([{"id":7,"name":"dog"},{"id":3,"name":"cat"}])";

std::string image(int64_t id, const std::string& file) {
  return R"({"id":)" + std::to_string(id) + R"(,"file_name":")" + file + R"(","width":60,"height":40})";
}

std::string annotation(int64_t id, int64_t image, int64_t category, const std::string& box,
                       const std::string& more = "") {
  return R"({"id":)" + std::to_string(id) + R"(,"image_id":)" + std::to_string(image) + R"(,"category_id":)" +
         std::to_string(category) + R"(,"bbox":)" + box + more + "}";
}

std::string joined(const std::vector<std::string>& parts) {
  std::string out;
  for (const auto& part : parts) out += (out.empty() ? "" : ",") + part;
  return "[" + out + "]";
}

std::string coco(const std::vector<std::string>& images, const std::vector<std::string>& annotations,
                 const std::string& categories = kCategories) {
  return R"({"images":)" + joined(images) + R"(,"annotations":)" + joined(annotations) + R"(,"categories":)" +
         categories + "}";
}

class Coco : public FolderTest {
 protected:
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((folder_ / name).parent_path());
    put(folder_ / name, text);
  }
  void write_image(const std::string& name) const { write(name, to_jpeg(made_image({40, 60}, 3), {})); }
  std::shared_ptr<const Dataset> open(Split split = Split::kTrain) const {
    return open_dataset(parse_data_name("coco:" + folder_.string()), split);
  }
  std::string complaint(Split split = Split::kTrain) const {
    return error_of([&] { open(split); });
  }
};

TEST_F(Coco, ASampleIsAnImageWithItsBoxesAndTruths) {
  write("annotations/instances_train2017.json",
        coco({image(9, "b.jpg"), image(4, "a.jpg"), image(5, "c.jpg")},
             {annotation(1, 4, 7, "[1.5,2,10,20]"), annotation(2, 9, 3, "[50,30,20,20]", R"(,"area":7.5,"iscrowd":0)"),
              annotation(3, 4, 3, "[0,0,60,40]", R"(,"area":9,"iscrowd":1)")}));
  for (const auto* name : {"a", "b", "c"}) write_image(std::string("train2017/") + name + ".jpg");
  const auto set = open();
  ASSERT_EQ(set->size(), 3);
  EXPECT_TRUE(set->has_boxes());
  EXPECT_EQ(set->classes(), (std::vector<std::string>{"cat", "dog"})) << "in the order of their ids";
  EXPECT_EQ(set->class_ids(), (std::vector<int64_t>{3, 7}));
  EXPECT_EQ(set->facts().augmentation, Augmentation::kDetection);
  EXPECT_TRUE(set->name(1).ends_with("train2017/a.jpg"));
  EXPECT_EQ(set->open(1)->size(), (Size{40, 60}));
  const auto target = set->target(1);
  EXPECT_EQ(target.image_id, 4);
  EXPECT_EQ(target.boxes, (std::vector<Box>{{1.5, 2, 11.5, 22, 1}, {0, 0, 60, 40, 0, true}}));
  EXPECT_EQ(target.truths, (std::vector<Truth>{{1, 1, 1.5, 2, 10, 20, 200, false}, {3, 0, 0, 0, 60, 40, 9, true}}));
  EXPECT_EQ(set->target(0).boxes, (std::vector<Box>{{50, 30, 70, 50, 0}})) << "what sticks out stays";
  EXPECT_EQ(set->target(0).truths.at(0).area, 7.5);
  EXPECT_TRUE(set->target(2).boxes.empty());
  ASSERT_EQ(set->problems().size(), 1U);
  EXPECT_FALSE(set->problems()[0].left_out);
  EXPECT_NE(set->problems()[0].reason.find("its 2 categories have ids from 3 to 7, with gaps"), std::string::npos);
}

TEST_F(Coco, ReachesTheNetworkCutAtTheEdgesWithoutDivision) {
  write("instances_train.json", coco({image(1, "a.png")}, {annotation(1, 1, 7, "[50,30,20,20]")}));
  Image white{{40, 60}, 3, std::vector<uint8_t>(size_t{40} * 60 * 3, 255)};
  write("images/a.png", to_png(white, false));
  const auto set = open();
  const auto& facts = set->facts();
  EXPECT_EQ(facts.image_size, 512);
  const Pipeline pipeline{.size = 120, .mean = facts.mean, .deviation = facts.deviation};
  Loader loader(set, pipeline, BatchOrder({.samples = 1, .batch_global = 1, .shuffle = false, .epochs = 1}), {});
  const auto batch = loader.next();
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->targets.at(0).boxes, (std::vector<Box>{{100, 90, 120, 120, 1}}));
  EXPECT_EQ(batch->targets[0].truths.at(0).width, 20) << "as in the file";
  EXPECT_EQ(batch->targets[0].image_id, 1);
  const auto* values = batch->images.const_data_ptr<float>();
  EXPECT_NEAR(values[0], 255 - 123.68, 1e-4);
  EXPECT_NEAR(values[size_t{120} * 120], 255 - 116.779, 1e-4);
  EXPECT_NEAR(values[size_t{2} * 120 * 120], 255 - 103.939, 1e-4);
}

TEST_F(Coco, WhatIsWrongIsNamedAndLeftOut) {
  write("annotations/instances_train2017.json",
        coco({image(1, "a.jpg"), image(2, "b.jpg"), image(1, "c.jpg")},
             {annotation(11, 1, 7, "[5,5,0,9]"), annotation(12, 2, 7, "[5,5,9,-1]"), annotation(13, 2, 7, "[60,5,9,9]"),
              annotation(14, 2, 3, "[-9,5,9,9]"), annotation(15, 2, 3, "[-9,5,9.5,9]"),
              annotation(16, 8, 3, "[1,1,1,1]"), annotation(17, 2, 9, "[1,1,1,1]"), annotation(15, 2, 3, "[1,1,1,1]")},
             R"([{"id":3,"name":"cat"},{"id":7,"name":"dog"},{"id":3,"name":"cow"}])"));
  fs::create_directories(folder_ / "train2017");
  const auto set = open();
  const std::vector<std::pair<std::string, std::string>> expected{
      {"category 3", "its id comes twice; the first one's name counts"},
      {"", "its 2 categories have ids from 3 to 7, with gaps"},
      {"image 1 (c.jpg)", "its id comes twice, and nobody knows whose boxes are whose"},
      {"annotation 15", "its id comes twice; all of them count"},
      {"image 1 (a.jpg), annotation 11", "must have a width and a height above 0 but is 0 x 9"},
      {"image 2 (b.jpg), annotation 12", "must have a width and a height above 0 but is 9 x -1"},
      {"image 2 (b.jpg), annotation 13", "must overlap the image, which has 60 x 40 pixels, but is 9 x 9 at left 60"},
      {"image 2 (b.jpg), annotation 14", "must overlap the image"},
      {"annotation 16", "its image must be one of the file but is 8"},
      {"image 2 (b.jpg), annotation 17", "its category must be one of"}};
  const auto problems = set->problems();
  ASSERT_EQ(problems.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto& [where, reason] = expected[i];
    EXPECT_TRUE(problems[i].name.ends_with("instances_train2017.json" + (where.empty() ? "" : ", " + where)))
        << problems[i].name;
    EXPECT_NE(problems[i].reason.find(reason), std::string::npos) << problems[i].reason;
    EXPECT_EQ(problems[i].left_out, i >= 4 || i == 2) << i;
  }
  ASSERT_EQ(set->size(), 2);
  EXPECT_EQ(set->classes(), (std::vector<std::string>{"cat", "dog"}));
  EXPECT_TRUE(set->target(0).boxes.empty());
  EXPECT_EQ(set->target(0).truths.size(), 1U);
  EXPECT_EQ(set->target(1).boxes.size(), 2U);
  EXPECT_EQ(set->target(1).truths.size(), 5U);
  const auto report = check_dataset(*set, 1);
  EXPECT_EQ(report.problems.size(), expected.size());
  EXPECT_EQ(report.per_class, (std::vector<int64_t>{2, 0}));
  EXPECT_EQ(report.without_boxes, 1);
  EXPECT_EQ(report.broken.size(), 2U) << "the files of the images are missing";
}

TEST_F(Coco, LabelsAreThoseOfTheTrainingFile) {
  write("instances_train.json", coco({image(1, "a.jpg")}, {}, R"([{"id":1,"name":"x"},{"id":2,"name":"y"}])"));
  write("instances_val.json",
        coco({image(1, "a.jpg")}, {annotation(1, 1, 2, "[1,1,5,5]")}, R"([{"id":2,"name":"y"}])"));
  write_image("JPEGImages/a.jpg");
  const auto validation = open(Split::kValidation);
  EXPECT_EQ(validation->classes(), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(validation->target(0).boxes.at(0).label, 1);
  write("instances_val.json", coco({image(1, "a.jpg")}, {}, R"([{"id":1,"name":"y"}])"));
  EXPECT_NE(complaint(Split::kValidation).find("category 1 must be 'x', as in "), std::string::npos)
      << complaint(Split::kValidation);
  write("instances_val.json",
        coco({image(1, "a.jpg")}, {annotation(1, 1, 5, "[1,1,5,5]")}, R"([{"id":5,"name":"z"}])"));
  ASSERT_EQ(open(Split::kValidation)->problems().size(), 1U);
  EXPECT_NE(open(Split::kValidation)->problems()[0].reason.find("instances_train.json but is 5"), std::string::npos);
  write("instances_train2.json", "");
  EXPECT_NE(complaint(Split::kValidation).find("name the files"), std::string::npos);
  fs::remove(folder_ / "instances_train2.json");
  fs::remove(folder_ / "instances_train.json");
  EXPECT_EQ(open(Split::kValidation)->classes(), (std::vector<std::string>{"z"})) << "without a training file, its own";
}

TEST_F(Coco, FilesMayBeNamedApart) {
  write("set/t.json", coco({image(1, "a.jpg")}, {}));
  write("set/v.json", coco({image(2, "b.jpg")}, {}));
  write_image("x/a.jpg");
  write_image("y/b.jpg");
  const auto at = [&](const std::string& name) { return (folder_ / name).string(); };
  const auto opened = [](const std::string& text, Split split) { return open_dataset(parse_data_name(text), split); };
  const auto both = "coco:" + at("set/t.json") + "@" + at("x") + "," + at("set/v.json") + "@" + at("y");
  EXPECT_EQ(opened(both, Split::kTrain)->name(0), at("x/a.jpg"));
  EXPECT_EQ(opened(both, Split::kValidation)->name(0), at("y/b.jpg"));
  const auto complaint_of = [&](const std::string& text) {
    return error_of([&] { opened("coco:" + text, Split::kValidation); });
  };
  const std::string form = "a folder or TRAIN.json@IMAGES,VAL.json@IMAGES, with one comma and two @, but '";
  for (const auto& text :
       {at("set/t.json") + "@" + at("x"), std::string("a,b@c"), std::string("a@b@c,d"), std::string("a@b,c,d@e"),
        std::string("a@,b@c"), std::string("@a,b@c"), std::string("a@b@c,d@e"), std::string("a@b,")}) {
    EXPECT_NE(complaint_of(text).find(form + text), std::string::npos) << text << ": " << complaint_of(text);
  }
  EXPECT_NE(
      complaint_of(at("set/t.json") + "@" + at("x") + "," + at("set/v.json") + "@" + at("z")).find("does not exist"),
      std::string::npos);
  EXPECT_NE(complaint_of(at("no.json") + "@" + at("x") + "," + at("no.json") + "@" + at("y")).find("no.json: "),
            std::string::npos);
  EXPECT_NE(complaint_of("nothing").find("[coco] nothing: it must be a folder but does not exist; or name the files"),
            std::string::npos);
  EXPECT_NE(complaint_of(at("set/t.json")).find("it must be a folder but is none"), std::string::npos);
  EXPECT_NE(error_of([] { parse_data_name("coco:"); }).find("coco:DIR or coco:TRAIN.json@IMAGES"), std::string::npos);
  // To score on one split, the images of the other need not be there.
  fs::remove_all(folder_ / "x");
  EXPECT_EQ(opened(both, Split::kValidation)->size(), 1);
  // A folder of such a name is a folder.
  write("a@b,c@d/instances_train.json", coco({image(1, "a.jpg")}, {}));
  write_image("a@b,c@d/images/a.jpg");
  EXPECT_EQ(opened("coco:" + at("a@b,c@d"), Split::kTrain)->size(), 1);
}

TEST_F(Coco, SaysWhatAFolderLacks) {
  EXPECT_NE(complaint().find("must hold annotations/instances_train2017.json, or another instances_train*.json"),
            std::string::npos);
  EXPECT_NE(complaint(Split::kValidation).find("instances_val2017.json"), std::string::npos);
  write("annotations/instances_train2017.json", "{");
  EXPECT_NE(complaint().find("in a folder train2017, train, images or JPEGImages but has none of them"),
            std::string::npos);
  fs::create_directories(folder_ / "train");
  EXPECT_NE(complaint().find("annotations/instances_train2017.json: "), std::string::npos);
  write("annotations/instances_train2017.json", coco({}, {}));
  EXPECT_NE(complaint().find("must list images but lists none"), std::string::npos);
  write("annotations/instances_train2017.json", coco({image(1, "a.jpg")}, {}, "[]"));
  EXPECT_NE(complaint().find("must list categories but lists none"), std::string::npos);
  write("annotations/instances_train2017.json", coco({image(1, "")}, {}));
  EXPECT_NE(complaint().find("image 1: it must have a file_name but has none"), std::string::npos);
  write("annotations/instances_train2014.json", "");
  EXPECT_NE(complaint().find("but has instances_train2014.json and instances_train2017.json; name the files"),
            std::string::npos);
}

// --- Real data; absent on most machines ---

int64_t boxes_of(const CheckReport& report) {
  return std::accumulate(report.per_class.begin(), report.per_class.end(), int64_t{0});
}

TEST(RealCoco, BloodCellsHaveTheirPublishedCounts) {
  const auto folder = shared_data("bccd");
  if (!fs::is_directory(folder)) GTEST_SKIP() << folder << " is not there (set FRN_SHARED_DATA)";
  const auto file = [&](const char* name) { return (folder / name).string(); };
  const auto images = "@" + file("JPEGImages");
  const auto test =
      parse_data_name("coco:" + file("instances_train.json") + images + "," + file("instances_test.json") + images);
  const auto name = parse_data_name("coco:" + folder.string());
  int64_t boxes = 0;
  for (const auto& [which, split, size] :
       {std::tuple{&name, Split::kTrain, 205}, {&name, Split::kValidation, 87}, {&test, Split::kValidation, 72}}) {
    const auto set = open_dataset(*which, split);
    EXPECT_EQ(set->size(), size);
    EXPECT_EQ(set->classes(), (std::vector<std::string>{"RBC", "WBC", "Platelets"}));
    const auto report = check_dataset(*set, 1);
    EXPECT_TRUE(report.broken.empty());
    EXPECT_TRUE(report.problems.empty());
    EXPECT_EQ(report.smallest, (Size{480, 640}));
    boxes += boxes_of(report);
  }
  EXPECT_EQ(boxes, 4886);
}

TEST(RealCoco, FirstImagesOfCocoHaveTheirClasses) {
  const auto folder = shared_data("coco128");
  if (!fs::is_directory(folder)) GTEST_SKIP() << folder << " is not there (set FRN_SHARED_DATA)";
  const auto name = parse_data_name("coco:" + folder.string());
  for (const auto& [split, boxes, empty] : {std::tuple{Split::kTrain, 929, 2}, {Split::kValidation, 898, 0}}) {
    const auto set = open_dataset(name, split);
    EXPECT_EQ(set->size(), 128);
    ASSERT_EQ(set->classes().size(), 80U);
    EXPECT_EQ(set->classes()[0], "person");
    EXPECT_EQ(set->classes()[79], "toothbrush");
    EXPECT_EQ(set->class_ids()[79], 90);
    const auto report = check_dataset(*set, 1);
    EXPECT_TRUE(report.broken.empty());
    EXPECT_EQ(report.without_boxes, empty);
    EXPECT_EQ(boxes_of(report), boxes);
  }
  const auto set = open_dataset(name, Split::kTrain);
  EXPECT_EQ(set->target(0).image_id, 9);
  EXPECT_EQ(set->classes()[static_cast<size_t>(set->target(0).boxes.at(0).label)], "bowl");
}

// --- As large as COCO's own ---

int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t whole = 0;
  int64_t resident = 0;
  file >> whole >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// As many images, objects and corners of outlines as instances_train2017.json has, which is 450 MB long.
void write_large(const fs::path& path) {
  std::ofstream file(path);
  file << R"({"info":{},"licenses":[],"images":[)";
  constexpr int64_t kImages = 118'287;
  constexpr int64_t kObjects = 860'001;
  for (int64_t i = 0; i < kImages; ++i) {
    const auto number = std::to_string(1'000'000'000'000 + 5 * i).substr(1);
    file
        << (i > 0 ? "," : "") << R"({"license":3,"file_name":")" << number
        << R"(.jpg","coco_url":"http://images.cocodataset.org/train2017/)" << number
        << R"(.jpg","height":480,"width":640,"date_captured":"2013-11-14 11:18:45","flickr_url":"http://farm4.staticflickr.com/3153/)"
        << number << R"(.jpg","id":)" << 5 * i << "}";
  }
  file << R"(],"annotations":[)";
  std::string outline;
  for (int corner = 0; corner < 22; ++corner)
    outline += (corner > 0 ? ", " : "") + std::to_string(200 + corner) + ".72, 300.5";
  for (int64_t i = 0; i < kObjects; ++i) {
    file << (i > 0 ? "," : "") << R"({"segmentation":[[)" << outline
         << R"(]],"area":2765.1486500000005,"iscrowd":0,"image_id":)" << 5 * (i * 7919 % kImages)
         << R"(,"bbox":[199.84,)" << i % 400 << R"(.61,77.71,70.88],"category_id":)" << 1 + i % 80 << R"(,"id":)"
         << i + 1 << "}";
  }
  file << R"(],"categories":[)";
  for (int64_t i = 1; i <= 80; ++i) file << (i > 1 ? "," : "") << R"({"id":)" << i << R"(,"name":"c)" << i << R"("})";
  file << "]}";
}

using LargeCoco = Coco;

TEST_F(LargeCoco, AFileAsLargeAsCocosOwnTakesLittleMemory) {
  if (std::getenv("FRN_ALL_CASES") == nullptr) GTEST_SKIP() << "set FRN_ALL_CASES to write and read a file of 450 MB";
  fs::create_directories(folder_ / "images");
  write_large(folder_ / "instances_train.json");
  const auto before = resident_bytes();
  const auto start = std::chrono::steady_clock::now();
  const auto set = open();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const auto kept = resident_bytes() - before;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("%.0f MB read in %.1f s; %.0f MB kept, %.0f MB at most\n",
              static_cast<double>(fs::file_size(folder_ / "instances_train.json")) / 1e6, seconds.count(),
              static_cast<double>(kept) / 1e6, static_cast<double>(usage.ru_maxrss * 1024 - before) / 1e6);
  EXPECT_EQ(set->size(), 118'287);
  EXPECT_TRUE(set->problems().empty());
  int64_t boxes = 0;
  for (int64_t i = 0; i < set->size(); ++i) boxes += static_cast<int64_t>(set->target(i).boxes.size());
  EXPECT_EQ(boxes, 860'001);
  EXPECT_LT(kept, 120e6);
  EXPECT_LT(usage.ru_maxrss * 1024 - before, 400e6);
}

}  // namespace
}  // namespace frn::data
