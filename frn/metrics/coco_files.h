// COCO's two kinds of files, as its web page (Data format, Results format) describes them: annotations of a set of
// images, and detections. They are read in one pass; masks and keys that nobody asks for take no memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "frn/metrics/coco_ap.h"

namespace frn {

struct CocoImage {
  int64_t id = 0;
  std::string file_name;  // empty when the file does not say
  int64_t width = 0;      // 0 when the file does not say
  int64_t height = 0;
};

struct CocoCategory {
  int64_t id = 0;
  std::string name;
};

// An entry that contradicts the others. Whoever reads the file decides what that means.
struct CocoProblem {
  int64_t id = 0;    // of the image, category or annotation
  std::string text;  // "annotation 12 is of image 7, which the file does not list"
};

// In the order of the file.
struct CocoFile {
  std::vector<CocoImage> images;
  std::vector<CocoCategory> categories;
  std::vector<CocoTruth> annotations;  // area is width*height when the file has none
  // Ids of images, categories or annotations that come twice (one problem for each id), and annotations of images or
  // categories that the file does not list.
  std::vector<CocoProblem> problems;

  std::vector<int64_t> image_ids() const;
  std::vector<int64_t> category_ids() const;
};

// Throws frn::Error "[coco] path: what was expected and what is there" when the file cannot be read or is not COCO's.
CocoFile read_coco_truths(const std::filesystem::path& path);
// Of the same file its categories alone, in a fraction of the time.
std::vector<CocoCategory> read_coco_categories(const std::filesystem::path& path);
std::vector<CocoDetection> read_coco_detections(const std::filesystem::path& path);

// The same numbers for a file's truths.
CocoScores evaluate_coco(const CocoFile& file, std::span<const CocoDetection> detections,
                         const CocoOptions& options = {});

}  // namespace frn
