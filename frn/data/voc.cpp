// Pascal VOC's folders: Annotations/NAME.xml, JPEGImages/NAME.jpg, and the names of each split in ImageSets/Main.
#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "frn/core/error.h"
#include "frn/data/box_set.h"
#include "frn/data/bytes.h"
#include "frn/data/kinds.h"
#include "frn/data/voc_file.h"

namespace frn::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kVocOperation = "voc";
constexpr uint64_t kLongestAnnotation = uint64_t{16} << 20;
constexpr uint64_t kLongestList = uint64_t{256} << 20;
constexpr std::array<std::string_view, 20> kVocClasses{
    "aeroplane",   "bicycle", "bird",  "boat",      "bottle", "bus",         "car",   "cat",  "chair", "cow",
    "diningtable", "dog",     "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor"};

struct Entry {
  std::string name;  // 000005
  VocFile file;
};

// The list of a split's names. Whoever trains on trainval.txt, for want of train.txt, has seen what val.txt names.
fs::path list_of(const fs::path& folder, Split split) {
  const auto lists = folder / "ImageSets" / "Main";
  const bool has_train = fs::exists(lists / "train.txt");
  const auto first_of = [&](const char* first, const char* second) {
    return fs::exists(lists / first) || !fs::exists(lists / second) ? lists / first : lists / second;
  };
  if (split == Split::kTrain) return first_of("train.txt", "trainval.txt");
  return has_train ? first_of("val.txt", "test.txt") : first_of("test.txt", "val.txt");
}

std::string without_spaces_around(const std::string& line) {
  const auto first = line.find_first_not_of(" \t\r");
  return first == std::string::npos ? "" : line.substr(first, line.find_last_not_of(" \t\r") - first + 1);
}

std::vector<Entry> read_entries(const fs::path& folder, const fs::path& list) {
  std::vector<Entry> entries;
  for (const auto& line : read_lines(list, kVocOperation, kLongestList)) {
    const auto name = without_spaces_around(line);
    if (name.empty()) continue;
    const auto path = folder / "Annotations" / (name + ".xml");
    const auto bytes = read_file(path, kVocOperation, kLongestAnnotation);
    entries.push_back({name, parse_voc(bytes.span(), path.string())});
  }
  if (entries.empty()) fail_file(kVocOperation, list, "it must name images, one in a line, but names none");
  return entries;
}

std::vector<std::string> class_names(const std::vector<Entry>& entries) {
  std::set<std::string> found;
  for (const auto& entry : entries) {
    for (const auto& object : entry.file.objects) found.insert(object.name);
  }
  const std::vector<std::string> usual(kVocClasses.begin(), kVocClasses.end());
  const bool all_usual = std::includes(usual.begin(), usual.end(), found.begin(), found.end());
  return all_usual ? usual : std::vector<std::string>(found.begin(), found.end());
}

// Of the image's file, which is a JPEG in Pascal VOC itself.
std::string image_file(const fs::path& images, const std::string& name) {
  for (const auto* extension : {".jpg", ".jpeg", ".png", ".JPG"}) {
    if (fs::exists(images / (name + extension))) return name + extension;
  }
  return name + ".jpg";
}

// Pixels from 1 to the last one, both included, are places from 0 to behind the last one.
Truth truth_of(const VocObject& object, int64_t id, int64_t label) {
  Truth truth{.id = id,
              .label = label,
              .left = object.xmin - 1,
              .top = object.ymin - 1,
              .width = object.xmax - (object.xmin - 1),
              .height = object.ymax - (object.ymin - 1),
              .crowd = object.difficult};
  truth.area = truth.width * truth.height;
  return truth;
}

void add(const Entry& entry, const fs::path& folder, const std::map<std::string, int64_t>& labels, BoxSetParts& parts) {
  const auto place = static_cast<int64_t>(parts.list.size());
  parts.list.push_back({image_file(parts.images, entry.name), place + 1, entry.file.size});
  const auto where = [&](size_t object) {
    return (folder / "Annotations" / (entry.name + ".xml")).string() + ", object " + std::to_string(object + 1);
  };
  for (size_t i = 0; i < entry.file.objects.size(); ++i) {
    const auto& object = entry.file.objects[i];
    const auto label = labels.find(object.name);
    if (label == labels.end()) {
      parts.problems.push_back({where(i), "its class must be one of the training images but is '" + object.name + "'"});
      continue;
    }
    const auto truth = truth_of(object, static_cast<int64_t>(parts.truths.size()) + 1, label->second);
    parts.truths.push_back({place, truth});
    const auto fault = fault_of(truth, entry.file.size);
    if (!fault.empty()) parts.problems.push_back({where(i), fault});
  }
}

std::shared_ptr<const Dataset> open_voc_split(const fs::path& folder, Split split, const SetFacts& usual) {
  const auto list = list_of(folder, split);
  const auto entries = read_entries(folder, list);
  const auto training = list_of(folder, Split::kTrain);
  const bool is_training = split == Split::kTrain || !fs::exists(training);
  BoxSetParts parts{.images = folder / "JPEGImages",
                    .list = {},
                    .truths = {},
                    .classes = class_names(is_training ? entries : read_entries(folder, training)),
                    .class_ids = {},
                    .problems = {},
                    .facts = usual};
  if (parts.classes.empty())
    fail_file(kVocOperation, list, "its images must hold objects but there is none in any of them");
  std::map<std::string, int64_t> labels;
  for (const auto& name : parts.classes) labels.emplace(name, static_cast<int64_t>(labels.size()));
  for (const auto& entry : entries) add(entry, folder, labels, parts);
  return std::make_shared<BoxSet>(std::move(parts));
}

}  // namespace

std::shared_ptr<const Dataset> open_voc(const fs::path& folder, Split split, const SetFacts& usual) {
  if (!fs::is_directory(folder / "ImageSets" / "Main")) {
    fail_file(kVocOperation, folder,
              "it must hold the folders Annotations, JPEGImages and ImageSets/Main, as Pascal VOC's years do, but has "
              "no ImageSets/Main");
  }
  try {
    return open_voc_split(folder, split, usual);
  } catch (const fs::filesystem_error& error) {
    fail_file(kVocOperation, error.path1(), "cannot read: " + error.code().message());
  }
}

}  // namespace frn::data
