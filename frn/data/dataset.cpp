// The table of kinds.
#include "frn/data/dataset.h"

#include "frn/core/error.h"
#include "frn/core/text.h"
#include "frn/data/kinds.h"

namespace frn::data {
namespace {

// Of ImageNet's training images, as torchvision and timm have them.
constexpr std::array<float, 3> kImageNetMean{0.485F, 0.456F, 0.406F};
constexpr std::array<float, 3> kImageNetDeviation{0.229F, 0.224F, 0.225F};
// Of VGG's training images, in steps of 255, as TensorFlow's detectors have it; nothing is divided, so that values have
// the size of bytes.
constexpr std::array<float, 3> kDetectionMean{123.68F / 255, 116.779F / 255, 103.939F / 255};
constexpr std::array<float, 3> kDetectionDeviation{1.0F / 255, 1.0F / 255, 1.0F / 255};
constexpr std::array<float, 3> kMnistMean{0.1307F};
constexpr std::array<float, 3> kMnistDeviation{0.3081F};

const std::array kKinds{
    KindRow{.name = "fashion-mini",
            .description = "Fashion-MNIST, 5,000 + 1,000 images, built in",
            .takes_path = false,
            .usual = fashion_facts(),
            .open = open_fashion_mini},
    KindRow{.name = "cifar10",
            .description = "CIFAR-10, binary version",
            .takes_path = true,
            .usual = {3, 32, Augmentation::kPadCropFlip, {0.4914F, 0.4822F, 0.4465F}, {0.2470F, 0.2435F, 0.2616F}},
            .open = open_cifar10},
    KindRow{.name = "cifar100",
            .description = "CIFAR-100, binary version, fine labels",
            .takes_path = true,
            .usual = {3, 32, Augmentation::kPadCropFlip, {0.5071F, 0.4865F, 0.4409F}, {0.2673F, 0.2564F, 0.2762F}},
            .open = open_cifar100},
    KindRow{.name = "imagefolder",
            .description = "train/CLASS/*.jpg and val/CLASS/*.jpg, or .png: ImageNet and others",
            .takes_path = true,
            .usual = {3, 224, Augmentation::kInception, kImageNetMean, kImageNetDeviation},
            .open = open_image_folder},
    KindRow{.name = "idx",
            .description = "MNIST, Fashion-MNIST and others in four IDX files",
            .takes_path = true,
            .usual = {1, 28, Augmentation::kNone, kMnistMean, kMnistDeviation},
            .open = open_idx},
    KindRow{.name = "coco",
            .description = "objects in boxes: annotations/instances_train2017.json with train2017/, and val2017",
            .takes_path = true,
            .usual = {3, 512, Augmentation::kDetection, kDetectionMean, kDetectionDeviation},
            .open = open_coco,
            .other_form = kCocoForm},
    KindRow{.name = "voc",
            .description = "objects in boxes, as Pascal VOC has them: Annotations/, JPEGImages/, ImageSets/Main/",
            .takes_path = true,
            .usual = {3, 512, Augmentation::kDetection, kDetectionMean, kDetectionDeviation},
            .open = open_voc},
    KindRow{.name = "shapes",
            .description = "objects in boxes, made: shapes:128x3x1000 is SIZExCLASSESxIMAGES",
            .takes_path = false,
            .usual = {3, 128, Augmentation::kDetection, kDetectionMean, kDetectionDeviation},
            .open = open_shapes,
            .takes_text = true},
    KindRow{.name = "random",
            .description = "noise, for benchmarks; random:224x3x1000 is SIZExCHANNELSxCLASSES",
            .takes_path = false,
            .usual = {3, 224, Augmentation::kNone, {0.5F, 0.5F, 0.5F}, {0.25F, 0.25F, 0.25F}},
            .open = open_noise,
            .takes_text = true},
};

// What stands after a kind's colon.
std::string form_of(const KindRow& row) {
  const auto name = std::string(row.name);
  if (row.other_form.empty()) return name + ":DIR";
  return name + ":DIR or " + name + ":" + std::string(row.other_form);
}

std::vector<std::string_view> kind_names() {
  std::vector<std::string_view> names;
  names.reserve(kKinds.size());
  for (const auto& row : kKinds) names.push_back(row.name);
  return names;
}

}  // namespace

std::span<const KindRow> dataset_kinds() { return kKinds; }

DataName parse_data_name(std::string_view text) {
  const auto colon = text.find(':');
  const auto name = text.substr(0, colon);
  const auto path = colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  for (const auto& row : kKinds) {
    if (row.name != name) continue;
    if (row.takes_path && path.empty()) {
      throw Error("data", "kind '" + std::string(name) + "' needs a folder: write " + form_of(row));
    }
    if (!row.takes_path && !row.takes_text && colon != std::string_view::npos) {
      throw Error("data", "kind '" + std::string(name) + "' takes no path but got '" + std::string(path) + "': write " +
                              std::string(name) + " alone");
    }
    return {&row, std::filesystem::path(path)};
  }
  const auto names = kind_names();
  throw Error("data", "a data set is named kind:path and the kind must be one of " + join(names) + " but is '" +
                          std::string(name) + "'" + suggestion(name, names));
}

std::shared_ptr<const Dataset> open_dataset(const DataName& name, Split split) {
  const bool must_be_folder = name.kind->takes_path && name.kind->other_form.empty();
  if (must_be_folder && !std::filesystem::is_directory(name.path)) {
    throw Error("data", name.path.string() + ": it must be a folder of kind '" + std::string(name.kind->name) +
                            "' but " + (std::filesystem::exists(name.path) ? "is none" : "does not exist"));
  }
  return name.kind->open(name.path, split, name.kind->usual);
}

}  // namespace frn::data
