// The records of a COCO file, one after the other: flat tables in lists, of which a few keys matter.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "frn/metrics/coco_ap.h"

namespace frn::coco {

enum class Field { kId, kImageId, kCategoryId, kBox, kArea, kCrowd, kScore, kWidth, kHeight, kName };

struct FieldName {
  std::string_view key;
  Field field;
  bool required = true;
};

// What a record says; its section knows which of it there is.
struct Record {
  int64_t id = 0;
  int64_t image_id = 0;
  int64_t category_id = 0;
  CocoBox box;
  std::optional<double> area;
  bool crowd = false;
  double score = 0;
  int64_t width = 0;
  int64_t height = 0;
  std::string name;
};

// A list of records.
struct Section {
  std::string_view name;
  std::span<const FieldName> fields;
  std::function<void()> begin;  // the list begins; of one that comes twice the last counts, as in Python
  std::function<void(Record&)> add;
};

enum class Root { kTableOfSections, kSection };

// Reads a file that is a table with all of the sections, or that is the one section itself. `expected` says what the
// file must be. Throws frn::Error with the file's name.
void read_records(const std::filesystem::path& path, std::span<const Section> sections, Root root,
                  std::string_view expected);

}  // namespace frn::coco
