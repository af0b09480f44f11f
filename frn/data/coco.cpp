// Sets in COCO's format: a JSON file of images, categories and boxes for each split, and its folder of images.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "frn/core/error.h"
#include "frn/data/box_set.h"
#include "frn/data/bytes.h"
#include "frn/data/kinds.h"
#include "frn/metrics/coco_files.h"

namespace frn::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCocoOperation = "coco";
constexpr std::string_view kPrefix = "instances_";
constexpr std::string_view kEnding = ".json";

// --- Where the files are ---

struct SplitFiles {
  fs::path annotations;
  fs::path images;
};

std::string_view word_of(Split split) { return split == Split::kTrain ? "train" : "val"; }

bool is_annotations(const fs::path& path, Split split) {
  const auto name = path.filename().string();
  return name.starts_with(std::string(kPrefix) + std::string(word_of(split))) && name.ends_with(kEnding);
}

std::vector<fs::path> annotations_in(const fs::path& folder, Split split) {
  std::vector<fs::path> found;
  if (!fs::is_directory(folder)) return found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (is_annotations(entry.path(), split)) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

// instances_train2017.json, or any other instances_train*.json when it is alone; none when there is none.
fs::path find_annotations(const fs::path& folder, Split split) {
  auto found = annotations_in(folder / "annotations", split);
  if (found.empty()) found = annotations_in(folder, split);
  if (found.size() > 1) {
    fail_file(kCocoOperation, folder,
              "it must hold one file instances_" + std::string(word_of(split)) + "*.json but has " +
                  found[0].filename().string() + " and " + found[1].filename().string() +
                  "; name the files, as coco:" + std::string(kCocoForm));
  }
  return found.empty() ? fs::path() : found[0];
}

// The folder of the annotations' own name (train2017), of the split's (train), or one that all splits share.
fs::path find_images(const fs::path& folder, const fs::path& annotations, Split split) {
  const auto file = annotations.filename().string();
  const auto own = file.substr(kPrefix.size(), file.size() - kPrefix.size() - kEnding.size());
  const std::string word(word_of(split));
  const std::array tried{fs::path(own),      fs::path("images") / own, fs::path(word), fs::path("images") / word,
                         fs::path("images"), fs::path("JPEGImages")};
  for (const auto& name : tried) {
    if (fs::is_directory(folder / name)) return folder / name;
  }
  fail_file(kCocoOperation, folder,
            "it must hold the images of " + file + " in a folder " + own + ", " + word +
                ", images or JPEGImages but has none of them; name the folder, as coco:" + std::string(kCocoForm));
}

// "FILE.json@FOLDER"; empty paths when it is not of that form.
SplitFiles files_named_by(const std::string& part) {
  const auto at = part.find('@');
  if (at == std::string::npos) return {};
  return {part.substr(0, at), part.substr(at + 1)};
}

// "TRAIN.json@IMAGES,VAL.json@IMAGES". One comma and one @ on either side leave no doubt; a path that has more of them
// is refused.
SplitFiles files_named(const std::string& text, Split split) {
  const auto count = [&](char letter) { return std::count(text.begin(), text.end(), letter); };
  if (count('@') == 0) {
    fail_file(kCocoOperation, text,
              std::string("it must be a folder but ") + (fs::exists(text) ? "is none" : "does not exist") +
                  "; or name the files, as coco:" + std::string(kCocoForm));
  }
  const auto comma = std::min(text.find(','), text.size());
  const auto training = files_named_by(text.substr(0, comma));
  const auto validation = files_named_by(text.substr(std::min(comma + 1, text.size())));
  const bool whole = !training.annotations.empty() && !training.images.empty() && !validation.annotations.empty() &&
                     !validation.images.empty();
  if (whole && count(',') == 1 && count('@') == 2) return split == Split::kTrain ? training : validation;
  throw Error(kCocoOperation, "after coco: stands a folder or " + std::string(kCocoForm) +
                                  ", with one comma and two @, but '" + text +
                                  "' is neither; paths that hold these signs need a link of another name");
}

// None when a folder has none for the split.
fs::path annotations_of(const fs::path& named, Split split) {
  return fs::is_directory(named) ? find_annotations(named, split) : files_named(named.string(), split).annotations;
}

fs::path images_of(const fs::path& named, const fs::path& annotations, Split split) {
  if (fs::is_directory(named)) return find_images(named, annotations, split);
  auto images = files_named(named.string(), split).images;
  if (fs::is_directory(images)) return images;
  fail_file(kCocoOperation, images,
            "it must be the folder of the images of " + annotations.string() + " but " +
                (fs::exists(images) ? "is none" : "does not exist"));
}

// --- What they hold ---

// Labels are the places of categories in ascending order of their ids.
class Classes {
 public:
  Classes(const std::vector<CocoCategory>& categories, std::string source) : source_(std::move(source)) {
    std::map<int64_t, std::string> by_id;
    for (const auto& [id, name] : categories) by_id.emplace(id, name.empty() ? std::to_string(id) : name);
    for (auto& [id, name] : by_id) {
      ids_.push_back(id);
      names_.push_back(std::move(name));
    }
  }

  std::optional<int64_t> label_of(int64_t category_id) const {
    const auto found = std::lower_bound(ids_.begin(), ids_.end(), category_id);
    return found == ids_.end() || *found != category_id ? std::nullopt : std::optional(found - ids_.begin());
  }
  const std::vector<std::string>& names() const { return names_; }
  const std::vector<int64_t>& ids() const { return ids_; }
  const std::string& source() const { return source_; }

  // Another file may lack categories, but not give an id to something else.
  void check_same(const std::vector<CocoCategory>& others, const std::string& source) const {
    for (const auto& other : others) {
      const auto label = label_of(other.id);
      if (!label || other.name.empty() || names_[static_cast<size_t>(*label)] == other.name) continue;
      fail_file(kCocoOperation, source,
                "category " + std::to_string(other.id) + " must be '" + names_[static_cast<size_t>(*label)] +
                    "', as in " + source_ + ", but is '" + other.name + "'; give both files the same categories");
    }
  }

 private:
  std::string source_;
  std::vector<int64_t> ids_;
  std::vector<std::string> names_;
};

// Builds the parts of a set out of a file.
class Assembly {
 public:
  Assembly(const SplitFiles& files, const Classes& classes, const SetFacts& usual)
      : source_(files.annotations.string()), classes_(classes) {
    parts_.images = files.images;
    parts_.classes = classes.names();
    parts_.class_ids = classes.ids();
    parts_.facts = usual;
  }

  BoxSetParts take(CocoFile file) {
    tell_categories(file.categories);
    add_images(std::move(file.images));
    tell_ids_that_come_twice(file.annotations);
    for (const auto& annotation : file.annotations) add(annotation);
    return std::move(parts_);
  }

 private:
  void tell(const std::string& where, const std::string& reason, bool left_out) {
    parts_.problems.push_back({source_ + where, reason, left_out});
  }

  void tell_categories(const std::vector<CocoCategory>& categories) {
    std::set<int64_t> seen;
    for (const auto& category : categories) {
      if (seen.insert(category.id).second) continue;
      tell(", category " + std::to_string(category.id), "its id comes twice; the first one's name counts", false);
    }
    // Unsigned: ids may lie further apart than a signed number reaches.
    const auto gap = [](int64_t first, int64_t last) {
      return static_cast<uint64_t>(last) - static_cast<uint64_t>(first);
    };
    if (seen.empty() || gap(*seen.begin(), *seen.rbegin()) + 1 == seen.size()) return;
    tell("",
         "its " + std::to_string(seen.size()) + " categories have ids from " + std::to_string(*seen.begin()) + " to " +
             std::to_string(*seen.rbegin()) + ", with gaps; labels count them in ascending order",
         false);
  }

  void add_images(std::vector<CocoImage> images) {
    places_.reserve(images.size());
    for (auto& image : images) {
      const auto where = ", image " + std::to_string(image.id);
      if (image.file_name.empty()) fail_file(kCocoOperation, source_ + where, "it must have a file_name but has none");
      const auto place = static_cast<int64_t>(parts_.list.size());
      if (!places_.emplace(image.id, place).second) {
        tell(where + " (" + image.file_name + ")", "its id comes twice, and nobody knows whose boxes are whose", true);
        continue;
      }
      parts_.list.push_back({std::move(image.file_name), image.id, {image.height, image.width}});
    }
    if (parts_.list.empty()) fail_file(kCocoOperation, source_, "it must list images but lists none");
  }

  // They do no harm here; other programs lose all but the last one.
  void tell_ids_that_come_twice(const std::vector<CocoTruth>& annotations) {
    std::vector<int64_t> ids;
    ids.reserve(annotations.size());
    for (const auto& annotation : annotations) ids.push_back(annotation.id);
    std::sort(ids.begin(), ids.end());
    for (auto twice = std::adjacent_find(ids.begin(), ids.end()); twice != ids.end();) {
      tell(", annotation " + std::to_string(*twice), "its id comes twice; all of them count", false);
      twice = std::adjacent_find(std::upper_bound(twice, ids.end(), *twice), ids.end());
    }
  }

  void add(const CocoTruth& annotation) {
    const auto number = [&] { return ", annotation " + std::to_string(annotation.id); };
    const auto place = places_.find(annotation.image_id);
    if (place == places_.end()) {
      tell(number(), "its image must be one of the file but is " + std::to_string(annotation.image_id), true);
      return;
    }
    const auto& image = parts_.list[static_cast<size_t>(place->second)];
    const auto where = [&] { return ", image " + std::to_string(image.id) + " (" + image.file + ")" + number(); };
    const auto label = classes_.label_of(annotation.category_id);
    if (!label) {
      tell(where(),
           "its category must be one of " + classes_.source() + " but is " + std::to_string(annotation.category_id),
           true);
      return;
    }
    const auto& box = annotation.box;
    const Truth truth{.id = annotation.id,
                      .label = *label,
                      .left = box.x,
                      .top = box.y,
                      .width = box.width,
                      .height = box.height,
                      .area = annotation.area,
                      .crowd = annotation.crowd};
    parts_.truths.push_back({place->second, truth});
    const auto fault = fault_of(truth, image.size);
    if (!fault.empty()) tell(where(), fault, true);
  }

  std::string source_;
  const Classes& classes_;
  BoxSetParts parts_;
  std::unordered_map<int64_t, int64_t> places_;  // of images, by id
};

std::shared_ptr<const Dataset> open_coco_split(const fs::path& named, Split split, const SetFacts& usual) {
  const auto annotations = annotations_of(named, split);
  if (annotations.empty()) {
    const std::string word(word_of(split));
    fail_file(
        kCocoOperation, named,
        "it must hold annotations/instances_" + word + "2017.json, or another instances_" + word +
            "*.json there or in the folder itself, but has none; or name the files, as coco:" + std::string(kCocoForm));
  }
  const SplitFiles files{annotations, images_of(named, annotations, split)};
  auto file = read_coco_truths(annotations);
  // Labels are those of the training file, even where the other one lacks a category.
  const auto training = annotations_of(named, Split::kTrain);
  const bool is_other = split != Split::kTrain && !training.empty();
  const Classes classes(is_other ? read_coco_categories(training) : file.categories,
                        is_other ? training.string() : annotations.string());
  if (classes.ids().empty()) fail_file(kCocoOperation, classes.source(), "it must list categories but lists none");
  if (is_other) classes.check_same(file.categories, annotations.string());
  return std::make_shared<BoxSet>(Assembly(files, classes, usual).take(std::move(file)));
}

}  // namespace

std::shared_ptr<const Dataset> open_coco(const fs::path& files, Split split, const SetFacts& usual) {
  try {
    return open_coco_split(files, split, usual);
  } catch (const fs::filesystem_error& error) {
    fail_file(kCocoOperation, error.path1(), "cannot read: " + error.code().message());
  }
}

}  // namespace frn::data
