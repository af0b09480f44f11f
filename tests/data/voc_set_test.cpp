// Pascal VOC's folders as a set.
#include <gtest/gtest.h>

#include "frn/data/bytes.h"
#include "frn/data/check.h"
#include "frn/data/dataset.h"
#include "frn/data/voc_file.h"
#include "tests/core/files.h"
#include "tests/data/made_images.h"

namespace frn::data {
namespace {

namespace fs = std::filesystem;

std::string object(const std::string& name, const std::string& box, const std::string& more = "") {
  return "<object><name>" + name + "</name>" + more + "<bndbox>" + box + "</bndbox></object>";
}

std::string box(double xmin, double ymin, double xmax, double ymax) {
  const auto side = [](const char* name, double value) {
    return std::string("<") + name + ">" + std::to_string(value) + "</" + name + ">";
  };
  return side("xmin", xmin) + side("ymin", ymin) + side("xmax", xmax) + side("ymax", ymax);
}

std::string annotation(const std::string& objects) {
  return "<?xml version=\"1.0\"?>\n<annotation><folder>x</folder><size><width>60</width><height>40</height>"
         "<depth>3</depth></size>" +
         objects + "</annotation>\n";
}

VocFile parse(const std::string& text) {
  const auto bytes = bytes_of(text);
  return parse_voc(bytes.span(), "a.xml");
}

class Voc : public FolderTest {
 protected:
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((folder_ / name).parent_path());
    put(folder_ / name, text);
  }
  void write_image(const std::string& name, const std::string& objects) const {
    write("Annotations/" + name + ".xml", annotation(objects));
    write("JPEGImages/" + name + ".jpg", to_jpeg(made_image({40, 60}, 3), {}));
  }
  std::shared_ptr<const Dataset> open(Split split = Split::kTrain) const {
    return open_dataset(parse_data_name("voc:" + folder_.string()), split);
  }
};

TEST_F(Voc, BoxesAreCountedFromZeroAndEndBehindTheirLastPixel) {
  write("ImageSets/Main/train.txt", "000005\n2008_7  \n\n");
  write_image("000005", object("dog", box(1, 2, 60, 40)) + object("cat", box(8.5, 10, 20, 30),
                                                                  "<difficult>1</difficult><part><name>head</name>"
                                                                  "<bndbox>" +
                                                                      box(1, 1, 2, 2) + "</bndbox></part>"));
  write_image("2008_7", "");
  const auto set = open();
  ASSERT_EQ(set->size(), 2);
  EXPECT_TRUE(set->has_boxes());
  EXPECT_TRUE(set->problems().empty());
  EXPECT_TRUE(set->name(0).ends_with("JPEGImages/000005.jpg"));
  EXPECT_EQ(set->open(0)->size(), (Size{40, 60}));
  EXPECT_EQ(set->classes().size(), 20U);
  const auto target = set->target(0);
  EXPECT_EQ(target.image_id, 1);
  ASSERT_EQ(target.boxes.size(), 2U);
  EXPECT_EQ(target.boxes[0], (Box{0, 1, 60, 40, 11}));
  EXPECT_EQ(target.boxes[1], (Box{7.5, 9, 20, 30, 7, true})) << "difficult ones are learned, and scored as crowds";
  ASSERT_EQ(target.truths.size(), 2U);
  EXPECT_EQ(target.truths[1], (Truth{2, 7, 7.5, 9, 12.5, 21, 12.5 * 21, true}));
  EXPECT_TRUE(set->target(1).boxes.empty());
  EXPECT_EQ(set->target(1).image_id, 2);
}

TEST_F(Voc, OtherClassesAreThoseOfTheTrainingImagesInOrder) {
  write("ImageSets/Main/train.txt", "a\n");
  write("ImageSets/Main/val.txt", "b\n");
  write_image("a", object("wolf", box(1, 1, 9, 9)) + object("dog", box(1, 1, 9, 9)));
  write_image("b", object("dog", box(1, 1, 9, 9)) + object("yak", box(1, 1, 9, 9)) + object("wolf", box(1, 1, 9, 9)));
  EXPECT_EQ(open()->classes(), (std::vector<std::string>{"dog", "wolf"}));
  const auto validation = open(Split::kValidation);
  EXPECT_EQ(validation->classes(), (std::vector<std::string>{"dog", "wolf"}));
  const auto boxes = validation->target(0).boxes;
  ASSERT_EQ(boxes.size(), 2U);
  EXPECT_EQ(boxes[1].label, 1);
  ASSERT_EQ(validation->problems().size(), 1U);
  const auto& problem = validation->problems()[0];
  EXPECT_TRUE(problem.left_out);
  EXPECT_TRUE(problem.name.ends_with("Annotations/b.xml, object 2")) << problem.name;
  EXPECT_NE(problem.reason.find("but is 'yak'"), std::string::npos);
}

TEST_F(Voc, SplitsAreTheListsThatThereAre) {
  for (const auto* name : {"a", "b", "c"}) write_image(name, object("dog", box(1, 1, 9, 9)));
  write("ImageSets/Main/trainval.txt", "a\nb\n");
  write("ImageSets/Main/val.txt", "b\n");
  write("ImageSets/Main/test.txt", "c\n");
  EXPECT_EQ(open()->size(), 2);
  EXPECT_TRUE(open(Split::kValidation)->name(0).ends_with("c.jpg")) << "b is among the training images";
  write("ImageSets/Main/train.txt", "a\n");
  EXPECT_EQ(open()->size(), 1);
  EXPECT_TRUE(open(Split::kValidation)->name(0).ends_with("b.jpg"));
  fs::remove(folder_ / "ImageSets/Main/val.txt");
  EXPECT_TRUE(open(Split::kValidation)->name(0).ends_with("c.jpg"));
}

TEST_F(Voc, BoxesWithoutSizeOrOutsideAreNamedAndLeftOut) {
  write("ImageSets/Main/train.txt", "a\n");
  write_image("a",
              object("dog", box(5, 5, 4, 9)) + object("dog", box(61, 5, 70, 9)) + object("dog", box(50, 5, 70, 9)));
  const auto set = open();
  EXPECT_EQ(set->target(0).boxes.size(), 1U) << "one that sticks out stays";
  EXPECT_EQ(set->target(0).truths.size(), 3U);
  ASSERT_EQ(set->problems().size(), 2U);
  EXPECT_NE(set->problems()[0].reason.find("must have a width and a height above 0 but is 0 x 5"), std::string::npos);
  EXPECT_NE(
      set->problems()[1].reason.find("must overlap the image, which has 60 x 40 pixels, but is 10 x 5 at left 60"),
      std::string::npos)
      << set->problems()[1].reason;
  EXPECT_EQ(check_dataset(*set, 1).problems.size(), 2U);
}

TEST_F(Voc, AnImageMustBeThereAndHaveTheSizeThatItsAnnotationSays) {
  write("ImageSets/Main/train.txt", "a\nb\n");
  write_image("a", object("dog", box(1, 1, 9, 9)));
  write_image("b", object("dog", box(1, 1, 9, 9)));
  fs::remove(folder_ / "JPEGImages/a.jpg");
  write("JPEGImages/b.jpg", to_jpeg(made_image({60, 40}, 3), {}));
  const auto set = open();
  EXPECT_NE(error_of([&] { set->open(0); }).find("a.jpg: cannot open"), std::string::npos);
  EXPECT_NE(error_of([&] { set->open(1); }).find("must have 60 x 40 pixels, as its annotation says, but has 40 x 60"),
            std::string::npos);
  EXPECT_EQ(check_dataset(*set, 1).broken.size(), 2U);
}

TEST_F(Voc, SaysWhatAFolderLacks) {
  const auto complaint = [&] { return error_of([&] { open(); }); };
  EXPECT_NE(complaint().find("has no ImageSets/Main"), std::string::npos);
  fs::create_directories(folder_ / "ImageSets/Main");
  EXPECT_NE(complaint().find("ImageSets/Main/train.txt: cannot open"), std::string::npos);
  write("ImageSets/Main/train.txt", " \n");
  EXPECT_NE(complaint().find("must name images, one in a line, but names none"), std::string::npos);
  write("ImageSets/Main/train.txt", "a\n");
  EXPECT_NE(complaint().find("Annotations/a.xml: cannot open"), std::string::npos);
  write("Annotations/a.xml", "<annotation><object>");
  EXPECT_NE(complaint().find("Annotations/a.xml: it must be XML but is not at byte 19"), std::string::npos)
      << complaint();
}

TEST(VocFile, SaysWhatIsWrongInOneSentence) {
  const auto complaint = [](const std::string& text) { return error_of([&] { parse(text); }); };
  EXPECT_NE(complaint("").find("[voc] a.xml: it must be XML"), std::string::npos) << complaint("");
  EXPECT_NE(complaint("<a/>").find("must hold <annotation>"), std::string::npos);
  EXPECT_NE(complaint(annotation("<object/>")).find("object 1 must have a <name> but has none"), std::string::npos);
  EXPECT_NE(complaint(annotation("<object><name>a</name></object>")).find("must have a <bndbox>"), std::string::npos);
  EXPECT_NE(
      complaint(annotation(object("a", "<xmin>1</xmin>"))).find("must have a number of pixels <ymin> but has none"),
      std::string::npos);
  EXPECT_NE(complaint(annotation(object("a", "<xmin>1px\n</xmin>"))).find("but has '1px'"), std::string::npos);
  for (const auto* number : {"nan", "-inf", "1e10", "0x1", ""}) {
    const auto text = annotation(object("a", "<xmin>" + std::string(number) + "</xmin>"));
    EXPECT_NE(complaint(text).find("must have a number of pixels <xmin> but has "), std::string::npos) << number;
  }
  EXPECT_NE(complaint("<annotation><size><width>-1</width><height>2</height></size></annotation>").find("at least 0"),
            std::string::npos);
}

TEST(VocFile, ASizeMayBeMissing) {
  EXPECT_EQ(parse("<annotation/>").size, Size{});
  EXPECT_EQ(parse(annotation("")).size, (Size{40, 60}));
}

// A billion laughs, and more levels than a stack has.
TEST(VocFile, HostileFilesTakeNoMoreThanTheirBytes) {
  std::string entities = "<!ENTITY l0 \"ha\">";
  for (int i = 1; i < 30; ++i) {
    const auto before = "&l" + std::to_string(i - 1) + ";";
    entities += "<!ENTITY l" + std::to_string(i) + " \"";
    for (int times = 0; times < 4; ++times) entities += before;
    entities += "\">";
  }
  const auto file = parse("<!DOCTYPE annotation [" + entities + "]>" + annotation(object("&l29;", box(1, 1, 2, 2))));
  EXPECT_EQ(file.objects.at(0).name, "&l29;");
  std::string deep;
  for (int i = 0; i < 1'000'000; ++i) deep += "<a>";
  EXPECT_NE(error_of([&] { parse(deep); }).find("must be XML"), std::string::npos);
  for (int i = 0; i < 1'000'000; ++i) deep += "</a>";
  EXPECT_TRUE(parse("<annotation>" + deep + "</annotation>").objects.empty());
}

}  // namespace
}  // namespace frn::data
