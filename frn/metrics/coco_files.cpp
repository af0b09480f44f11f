#include "frn/metrics/coco_files.h"

#include <algorithm>
#include <array>

#include "frn/metrics/coco_records.h"
#include "frn/metrics/id_index.h"

namespace frn {
namespace {

using coco::Field;
using coco::FieldName;
using coco::Record;
using coco::Section;

constexpr bool kOptional = false;
constexpr std::array kImageFields{FieldName{"id", Field::kId}, FieldName{"file_name", Field::kName, kOptional},
                                  FieldName{"width", Field::kWidth, kOptional},
                                  FieldName{"height", Field::kHeight, kOptional}};
constexpr std::array kCategoryFields{FieldName{"id", Field::kId}, FieldName{"name", Field::kName, kOptional}};
constexpr std::array kAnnotationFields{FieldName{"id", Field::kId},
                                       FieldName{"image_id", Field::kImageId},
                                       FieldName{"category_id", Field::kCategoryId},
                                       FieldName{"bbox", Field::kBox},
                                       FieldName{"area", Field::kArea, kOptional},
                                       FieldName{"iscrowd", Field::kCrowd, kOptional}};
constexpr std::array kDetectionFields{FieldName{"image_id", Field::kImageId},
                                      FieldName{"category_id", Field::kCategoryId}, FieldName{"bbox", Field::kBox},
                                      FieldName{"score", Field::kScore}};

constexpr std::string_view kExpectedTruths =
    "must be COCO annotations, a table with the lists images, categories and annotations,";

CocoTruth truth_of(const Record& record) {
  return {.id = record.id,
          .image_id = record.image_id,
          .category_id = record.category_id,
          .box = record.box,
          .area = record.area.value_or(record.box.width * record.box.height),
          .crowd = record.crowd};
}

Section categories_section(std::vector<CocoCategory>& out) {
  return {"categories", kCategoryFields, [&] { out.clear(); },
          [&](Record& record) {
            out.push_back({record.id, std::move(record.name)});
          }};
}

template <typename T>
std::vector<int64_t> ids_of(const std::vector<T>& list) {
  std::vector<int64_t> out;
  out.reserve(list.size());
  for (const auto& entry : list) out.push_back(entry.id);
  return out;
}

template <typename T>
void find_repeated_ids(const std::vector<T>& list, const std::string& what, std::vector<CocoProblem>& problems) {
  auto ids = ids_of(list);
  std::sort(ids.begin(), ids.end());
  for (size_t i = 1; i < ids.size(); ++i) {
    const bool first_time = i == 1 || ids[i - 2] != ids[i];
    if (ids[i] == ids[i - 1] && first_time)
      problems.push_back({ids[i], what + " " + std::to_string(ids[i]) + " comes more than once"});
  }
}

void find_problems(CocoFile& file) {
  find_repeated_ids(file.images, "image", file.problems);
  find_repeated_ids(file.categories, "category", file.problems);
  find_repeated_ids(file.annotations, "annotation", file.problems);
  const coco::IdIndex images(file.image_ids());
  const coco::IdIndex categories(file.category_ids());
  const auto unlisted = [&](const CocoTruth& truth, const char* of, int64_t id) {
    file.problems.push_back({truth.id, "annotation " + std::to_string(truth.id) + " is of " + of + " " +
                                           std::to_string(id) + ", which the file does not list"});
  };
  for (const auto& truth : file.annotations) {
    if (!images.find(truth.image_id)) unlisted(truth, "image", truth.image_id);
    if (!categories.find(truth.category_id)) unlisted(truth, "category", truth.category_id);
  }
}

}  // namespace

std::vector<int64_t> CocoFile::image_ids() const { return ids_of(images); }
std::vector<int64_t> CocoFile::category_ids() const { return ids_of(categories); }

CocoFile read_coco_truths(const std::filesystem::path& path) {
  CocoFile out;
  const std::array sections{
      Section{"images", kImageFields, [&] { out.images.clear(); },
              [&](Record& record) {
                out.images.push_back({record.id, std::move(record.name), record.width, record.height});
              }},
      categories_section(out.categories),
      Section{"annotations", kAnnotationFields, [&] { out.annotations.clear(); },
              [&](const Record& record) { out.annotations.push_back(truth_of(record)); }}};
  coco::read_records(path, sections, coco::Root::kTableOfSections, kExpectedTruths);
  find_problems(out);
  return out;
}

std::vector<CocoCategory> read_coco_categories(const std::filesystem::path& path) {
  std::vector<CocoCategory> out;
  coco::read_records(path, std::array{categories_section(out)}, coco::Root::kTableOfSections, kExpectedTruths);
  return out;
}

std::vector<CocoDetection> read_coco_detections(const std::filesystem::path& path) {
  std::vector<CocoDetection> out;
  const std::array sections{Section{"detections", kDetectionFields, [&] { out.clear(); },
                                    [&](const Record& record) {
                                      out.push_back({record.image_id, record.category_id, record.box, record.score});
                                    }}};
  coco::read_records(path, sections, coco::Root::kSection,
                     "must be COCO detections, a list of tables with image_id, category_id, bbox and score,");
  return out;
}

CocoScores evaluate_coco(const CocoFile& file, std::span<const CocoDetection> detections, const CocoOptions& options) {
  return evaluate_coco(file.image_ids(), file.category_ids(), file.annotations, detections, options);
}

}  // namespace frn
