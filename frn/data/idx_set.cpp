#include "frn/data/idx_set.h"

#include <algorithm>
#include <utility>

#include "frn/data/kinds.h"
#include "frn/data/pixel_set.h"

namespace frn::data {
namespace {

constexpr std::string_view kIdxSetOperation = "idx";
constexpr uint64_t kLongestIdxFile = uint64_t{1} << 36;

// With or without .gz; the plain one wins.
std::filesystem::path find_file(const std::filesystem::path& folder, const std::string& name) {
  for (const auto& path : {folder / name, folder / (name + ".gz")}) {
    if (std::filesystem::exists(path)) return path;
  }
  fail_file(kIdxSetOperation, folder, "it must hold " + name + " or " + name + ".gz but holds neither");
}

std::vector<std::string> numbered(size_t count) {
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) names.push_back(std::to_string(i));
  return names;
}

IdxArray load(const std::filesystem::path& folder, const std::string& name, size_t dimensions) {
  const auto path = find_file(folder, name);
  return parse_idx(read_file(path, kIdxSetOperation, kLongestIdxFile), dimensions, path.string());
}

// What is learned says which classes there are: a validation set may lack the last of them, and must not have more.
std::vector<std::string> classes_of_training(const std::filesystem::path& folder) {
  const std::string name = "train-labels-idx1-ubyte";
  if (!std::filesystem::exists(folder / name) && !std::filesystem::exists(folder / (name + ".gz"))) return {};
  const auto labels = load(folder, name, 1);
  const auto values = labels.values();
  return values.empty() ? std::vector<std::string>{}
                        : numbered(size_t{*std::max_element(values.begin(), values.end())} + 1);
}

}  // namespace

std::shared_ptr<const Dataset> make_idx_set(IdxArray images, const IdxArray& labels, const SetFacts& facts,
                                            const std::string& source, std::vector<std::string> classes) {
  const auto& shape = images.shape;
  if (shape[0] != labels.shape[0]) {
    fail_file(kIdxSetOperation, source,
              "there must be one label per image but there are " + std::to_string(labels.shape[0]) + " labels for " +
                  std::to_string(shape[0]) + " images");
  }
  if (images.count == 0) fail_file(kIdxSetOperation, source, "it must hold images but holds none");
  const auto values = labels.values();
  const size_t highest = *std::max_element(values.begin(), values.end());
  if (classes.empty()) classes = numbered(highest + 1);
  if (highest >= classes.size()) {
    fail_file(kIdxSetOperation, source,
              "labels must be below " + std::to_string(classes.size()) + " but one is " + std::to_string(highest));
  }
  const Size size{shape[1], shape[2]};
  const int64_t count = shape[0];
  std::vector<PixelFile> files;
  files.push_back(
      {source, std::move(images.memory), images.begin, static_cast<size_t>(size.height * size.width), 0, count});
  return std::make_shared<PixelSet>(std::move(files), std::vector<uint8_t>(values.begin(), values.end()), size, facts,
                                    std::move(classes));
}

std::shared_ptr<const Dataset> open_idx(const std::filesystem::path& folder, Split split, const SetFacts& usual) {
  const std::string part = split == Split::kTrain ? "train" : "t10k";
  auto images = load(folder, part + "-images-idx3-ubyte", 3);
  const auto labels = load(folder, part + "-labels-idx1-ubyte", 1);
  auto facts = usual;
  // Files of MNIST and Fashion-MNIST differ in their contents alone.
  if (are_fashion_labels(labels.values(), split)) facts = fashion_facts();
  // Each set is of one size; images that are not square become so.
  facts.image_size = std::max(images.shape[1], images.shape[2]);
  return make_idx_set(std::move(images), labels, facts, (folder / (part + "-images-idx3-ubyte")).string(),
                      split == Split::kTrain ? std::vector<std::string>{} : classes_of_training(folder));
}

}  // namespace frn::data
