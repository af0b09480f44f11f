// A set of labelled images by index, and the table of kinds that `--data kind:path` names.
#pragma once

#include <array>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frn/data/image.h"

namespace frn::data {

// One image before it is decoded, so that a reader takes no more of it than it needs.
class ImageSource {
 public:
  virtual ~ImageSource() = default;
  // As a person sees it: after the rotation that EXIF asks for.
  virtual Size size() const = 0;
  // The region's pixels. A reader may give fewer, scaled down evenly by a power of 2, as long as both sides stay at
  // least as large as `enough`. Throws frn::Error for a broken file.
  virtual Image read(const Region& region, const Size& enough) const = 0;
};

// How images of a set are changed in training when nothing else is asked for.
enum class Augmentation { kNone, kPadCropFlip, kInception };

// What a network for a set and the preparation of its images follow from.
struct SetFacts {
  int64_t channels = 3;
  int64_t image_size = 224;  // height and width that training uses by default
  Augmentation augmentation = Augmentation::kNone;
  std::array<float, 3> mean{};  // of the values from 0 to 1; as many count as there are channels
  std::array<float, 3> deviation{1, 1, 1};
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  virtual int64_t label(int64_t index) const = 0;
  // What a message calls the sample: its path, or "test_batch.bin, image 17".
  virtual std::string name(int64_t index) const = 0;
  // May be called from many threads. Throws frn::Error for a file that is not there or whose header is broken.
  virtual std::unique_ptr<ImageSource> open(int64_t index) const = 0;
  const std::vector<std::string>& classes() const { return classes_; }
  const SetFacts& facts() const { return facts_; }

 protected:
  std::vector<std::string> classes_;
  SetFacts facts_;
};

enum class Split { kTrain, kValidation };

// One row per kind; a new kind is one source and one row.
struct KindRow {
  std::string_view name;  // cifar10
  std::string_view description;
  bool takes_path;
  SetFacts usual;  // facts of its sets, unless a set has its own
  std::shared_ptr<const Dataset> (*open)(const std::filesystem::path& path, Split split, const SetFacts& usual);
  bool takes_text = false;  // instead of a path: what stands after the colon, if anything, is not a folder
};

std::span<const KindRow> kind_table();

// "cifar10:DIR" taken apart and checked. Throws frn::Error for an unknown kind (with the nearest), for a path where
// none belongs, and for none where one does.
struct DataName {
  const KindRow* kind;
  std::filesystem::path path;
};
DataName parse_data_name(std::string_view text);

// Throws frn::Error when files are missing, have another length than the kind says, or hold no image.
std::shared_ptr<const Dataset> open_dataset(const DataName& name, Split split);

}  // namespace frn::data
