// Images in files with the objects in them as boxes: what the files of COCO and Pascal VOC hold once they are read.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "frn/data/dataset.h"

namespace frn::data {

struct BoxImage {
  std::string file;  // from the folder of the images
  int64_t id = 0;
  Size size;  // as the annotations say; 0 x 0: they do not
};

// An object of an image, by the image's place in the list.
struct PlacedTruth {
  int64_t image = 0;
  Truth truth;
};

struct BoxSetParts {
  std::filesystem::path images;  // the folder of the images
  std::vector<BoxImage> list;
  std::vector<PlacedTruth> truths;  // in the order of the files
  std::vector<std::string> classes;
  std::vector<int64_t> class_ids;
  std::vector<Problem> problems;
  SetFacts facts;
};

// What keeps an object from being learned, in words, or nothing: a box that has no size, lies outside its image (where
// its size is known) or is not finite. Such objects are truths, but not among the boxes of a target.
std::string fault_of(const Truth& truth, const Size& image);

// Objects are stored one after another, 64 bytes each, and not per image: COCO's training set has 860,000 of them.
class BoxSet : public Dataset {
 public:
  explicit BoxSet(BoxSetParts parts);

  int64_t size() const override { return static_cast<int64_t>(list_.size()); }
  Target target(int64_t index) const override;
  std::string name(int64_t index) const override;
  // Throws frn::Error for a file of another size than the annotations say: its boxes would lie elsewhere.
  std::unique_ptr<ImageSource> open(int64_t index) const override;
  bool has_boxes() const override { return true; }
  std::span<const Problem> problems() const override { return problems_; }

 private:
  std::span<const Truth> truths_of(int64_t index) const;

  std::filesystem::path folder_;
  std::vector<BoxImage> list_;
  std::vector<Truth> truths_;    // by image
  std::vector<size_t> offsets_;  // of each image's first one, and the end
  std::vector<Problem> problems_;
};

}  // namespace frn::data
