// What is in COCO's files is read as it is; what is not COCO's is said in one sentence.
#include "frn/metrics/coco_files.h"

#include "tests/core/files.h"

namespace frn {
namespace {

constexpr const char* kTruths = R"({"info": {"description": "x", "images": [1]},
  "images": [{"license": 3, "file_name": "a/\u00e9.jpg", "height": 480, "width": 640, "id": 7, "url": null},
             {"id": -2}],
  "annotations": [
    {"segmentation": [[1, 2, 3.5, 4]], "area": 12.25, "iscrowd": 1, "image_id": 7, "bbox": [1, 2.5, 3, 4],
     "category_id": 18, "id": 0},
    {"segmentation": {"counts": [1, 2], "size": [3, 4]}, "image_id": 7.0, "bbox": [0, 0, 3, 4], "category_id": 18,
     "id": 9, "iscrowd": false, "area": null}],
  "licenses": [{"id": "not looked at"}],
  "categories": [{"supercategory": "animal", "id": 18, "name": "dog"}]})";

class CocoFiles : public FolderTest {
 protected:
  CocoFile truths(std::string_view json) {
    put(folder_ / "file.json", json);
    return read_coco_truths(folder_ / "file.json");
  }
  std::vector<CocoDetection> detections(std::string_view json) {
    put(folder_ / "file.json", json);
    return read_coco_detections(folder_ / "file.json");
  }
  // Without the name of the file.
  std::string shortened(const std::string& message) {
    const auto start = "[coco] " + (folder_ / "file.json").string() + ": ";
    EXPECT_TRUE(message.starts_with(start)) << message;
    return message.substr(std::min(message.size(), start.size()));
  }
  std::string truths_error(std::string_view json) {
    return shortened(error_of([&] { truths(json); }));
  }
  std::string detections_error(std::string_view json) {
    return shortened(error_of([&] { detections(json); }));
  }
};

TEST_F(CocoFiles, TruthsAreReadAsTheyAre) {
  const auto file = truths(kTruths);
  ASSERT_EQ(file.images.size(), 2);
  EXPECT_EQ(file.images[0].id, 7);
  EXPECT_EQ(file.images[0].file_name, "a/\xc3\xa9.jpg");
  EXPECT_EQ(file.images[0].width, 640);
  EXPECT_EQ(file.images[0].height, 480);
  EXPECT_EQ(file.images[1].id, -2);
  ASSERT_EQ(file.categories.size(), 1);
  EXPECT_EQ(file.categories[0].id, 18);
  EXPECT_EQ(file.categories[0].name, "dog");
  ASSERT_EQ(file.annotations.size(), 2);
  const auto& crowd = file.annotations[0];
  EXPECT_EQ(crowd.id, 0);
  EXPECT_EQ(crowd.image_id, 7);
  EXPECT_EQ(crowd.category_id, 18);
  EXPECT_EQ(crowd.box, (CocoBox{1, 2.5, 3, 4}));
  EXPECT_EQ(crowd.area, 12.25);
  EXPECT_TRUE(crowd.crowd);
  EXPECT_EQ(file.annotations[1].area, 12);
  EXPECT_EQ(file.annotations[1].image_id, 7);
  EXPECT_FALSE(file.annotations[1].crowd);
  EXPECT_TRUE(file.problems.empty());
  EXPECT_EQ(file.image_ids(), (std::vector<int64_t>{7, -2}));
}

TEST_F(CocoFiles, DetectionsAreReadAsTheyAre) {
  const auto found = detections(
      R"([{"image_id": 42, "category_id": 18, "bbox": [258.15, 41.29, 348.26, 243.78], "score": 0.236, "id": 1},
          {"image_id": 42, "segmentation": {"size": [1, 2]}, "score": 1, "category_id": 1, "bbox": [1, 2, 3, 4]}])");
  ASSERT_EQ(found.size(), 2);
  EXPECT_EQ(found[0].image_id, 42);
  EXPECT_EQ(found[0].category_id, 18);
  EXPECT_EQ(found[0].box, (CocoBox{258.15, 41.29, 348.26, 243.78}));
  EXPECT_EQ(found[0].score, 0.236);
  EXPECT_EQ(found[1].score, 1);
  EXPECT_TRUE(detections("[]").empty());
}

TEST_F(CocoFiles, EntriesThatContradictAreListed) {
  const auto file = truths(R"({"images": [{"id": 1}, {"id": 1}, {"id": 1}, {"id": 2}],
    "categories": [{"id": 4}, {"id": 4}],
    "annotations": [{"id": 1, "image_id": 1, "category_id": 4, "bbox": [0, 0, 1, 1]},
                    {"id": 1, "image_id": 3, "category_id": 4, "bbox": [0, 0, 1, 1]},
                    {"id": 5, "image_id": 2, "category_id": 6, "bbox": [0, 0, 1, 1]}]})");
  std::string all;
  for (const auto& problem : file.problems) all += std::to_string(problem.id) + ": " + problem.text + "\n";
  EXPECT_EQ(all,
            "1: image 1 comes more than once\n"
            "4: category 4 comes more than once\n"
            "1: annotation 1 comes more than once\n"
            "1: annotation 1 is of image 3, which the file does not list\n"
            "5: annotation 5 is of category 6, which the file does not list\n");
  EXPECT_EQ(file.annotations.size(), 3);
}

TEST_F(CocoFiles, OfAListThatComesTwiceTheLastCounts) {
  const auto file = truths(R"({"images": [{"id": 1}, {"id": 2}], "images": [{"id": 3}], "categories": [],
                               "annotations": []})");
  EXPECT_EQ(file.image_ids(), std::vector<int64_t>{3});
}

TEST_F(CocoFiles, TruthsThatAreNoneAreNamed) {
  const std::string expected = "must be COCO annotations, a table with the lists images, categories and annotations,";
  EXPECT_EQ(truths_error("[]"), expected + " but is a list");
  EXPECT_EQ(truths_error("3"), expected + " but is a number");
  EXPECT_EQ(truths_error(R"({"images": [], "categories": []})"), expected + " but has no annotations");
  EXPECT_EQ(truths_error(R"({"images": {}})"), "images must be a list but is a table");
  EXPECT_EQ(truths_error(R"({"images": null})"), "images must be a list but is null");
  EXPECT_EQ(truths_error(R"({"images": [{"id": 1}, 5]})"), "images[1] must be a table but is a number");
  EXPECT_EQ(truths_error(R"({"images": [{"id": "a"}]})"), "images[0]: id must be a whole number but is a text");
  EXPECT_EQ(truths_error(R"({"images": [{"id": 1.5}]})"), "images[0]: id must be a whole number but is a number");
  EXPECT_EQ(truths_error(R"({"images": [{"id": 1e300}]})"), "images[0]: id must be a whole number but is a number");
  EXPECT_EQ(truths_error(R"({"images": [{"file_name": "a"}]})"), "images[0] must have id but has none");
  EXPECT_EQ(truths_error(R"({"categories": [{"id": 1, "name": 2}]})"),
            "categories[0]: name must be a text but is a number");
  EXPECT_EQ(truths_error("{"), "not JSON at byte 1");
}

TEST_F(CocoFiles, BoxesThatAreNoneAreNamed) {
  const auto error = [&](const std::string& box) {
    return truths_error(R"({"annotations": [{"id": 1, "image_id": 1, "category_id": 4, "bbox": )" + box + "}]}");
  };
  EXPECT_EQ(error("[0, 0, 1]"), "annotations[0]: bbox must be a list of 4 numbers but holds 3");
  EXPECT_EQ(error("[0, 0, 1, 1, 1]"), "annotations[0]: bbox must be a list of 4 numbers but holds 5");
  EXPECT_EQ(error("[0, 0, 1, \"1\"]"), "annotations[0]: bbox must be a list of 4 numbers but holds a text");
  EXPECT_EQ(error("[[0, 0, 1, 1]]"), "annotations[0]: bbox must be a list of 4 numbers but holds a list");
  EXPECT_EQ(error("{}"), "annotations[0]: bbox must be a list of 4 numbers but is a table");
  EXPECT_EQ(error("true"), "annotations[0]: bbox must be a list of 4 numbers but is true or false");
  EXPECT_EQ(error("null"), "annotations[0] must have bbox but has none");
}

TEST_F(CocoFiles, DetectionsThatAreNoneAreNamed) {
  EXPECT_EQ(detections_error(kTruths),
            "must be COCO detections, a list of tables with image_id, category_id, bbox and score, but is a table");
  EXPECT_EQ(detections_error("[[]]"), "detections[0] must be a table but is a list");
  EXPECT_EQ(detections_error(R"([{"image_id": 1, "category_id": 1, "bbox": [0, 0, 1, 1]}])"),
            "detections[0] must have score but has none");
  EXPECT_EQ(detections_error(R"([{"score": "high"}])"), "detections[0]: score must be a number but is a text");
}

TEST_F(CocoFiles, TruthsAndDetectionsGoTogether) {
  const auto file = truths(kTruths);
  const auto scores = evaluate_coco(file, std::vector<CocoDetection>{{7, 18, {0, 0, 3, 4}, 0.5}});
  EXPECT_NEAR(scores.ap, 1, 1e-15);
  EXPECT_EQ(scores.categories.at(0).truths, 1);
}

}  // namespace
}  // namespace frn
