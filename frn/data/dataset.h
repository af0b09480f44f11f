// A set of samples by index, and the table of kinds that `--data kind:path` names.
#pragma once

#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frn/core/random.h"
#include "frn/data/augment.h"
#include "frn/data/image_source.h"
#include "frn/data/target.h"

namespace frn::data {

// What a network for a set and the preparation of its images follow from.
struct SetFacts {
  int64_t channels = 3;
  int64_t image_size = 224;  // height and width that training uses by default
  Augmentation augmentation = Augmentation::kNone;
  std::array<float, 3> mean{};  // of the values from 0 to 1; as many count as there are channels
  std::array<float, 3> deviation{1, 1, 1};
};

// A sample as the network takes it.
struct Sample {
  at::Tensor input;  // float32, of the same shape for all samples of a batch
  Target target;
};

// Something wrong in a set's files, with which the set can still be used.
struct Problem {
  std::string name;  // where it is: "instances_val.json, image 7 (a.jpg), annotation 12"
  std::string reason;
  bool left_out = true;  // it is no target of training; else all of it is used
};

// A set of one's own is a class derived from this one. All functions but the constructor may be called from many
// threads at once; frn::Error stands for a sample that cannot be read, which is then counted, named and passed over.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  // In the coordinates of the image as open() gives it.
  virtual Target target(int64_t index) const = 0;
  // What a message calls the sample: its path, or "test_batch.bin, image 17".
  virtual std::string name(int64_t index) const = 0;
  // The image, which a data::Pipeline then crops, scales and normalises. Throws frn::Error for a file that is not there
  // or whose header is broken.
  virtual std::unique_ptr<ImageSource> open(int64_t index) const = 0;
  // A set that prepares its samples itself (volumes, signals, changes of its own) gives them here, and open() is not
  // called; random changes must follow from the key alone, so that a resumed run sees the same ones.
  virtual std::optional<Sample> sample(int64_t /*index*/, RandomKey /*key*/) const { return std::nullopt; }
  // Whether targets are boxes with classes, none or many in an image, instead of a class of the image.
  virtual bool has_boxes() const { return false; }
  // What was found wrong when the set was opened, in the order of the files.
  virtual std::span<const Problem> problems() const { return {}; }

  // Empty where samples have no classes.
  const std::vector<std::string>& classes() const { return classes_; }
  // The numbers that the set's files have for the classes (COCO's category_id); empty where they have none.
  const std::vector<int64_t>& class_ids() const { return class_ids_; }
  const SetFacts& facts() const { return facts_; }

 protected:
  std::vector<std::string> classes_;
  std::vector<int64_t> class_ids_;
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
  bool takes_text = false;           // instead of a path: what stands after the colon, if anything, is not a folder
  std::string_view other_form = {};  // what may stand there instead of a folder, which open() then tells apart
};
std::span<const KindRow> dataset_kinds();

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
