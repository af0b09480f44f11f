// Folders of JPEG and PNG files: train/CLASS/... and val/CLASS/..., in the order of torchvision's ImageFolder.
#include <algorithm>
#include <array>
#include <cctype>
#include <tuple>
#include <utility>

#include "frn/core/error.h"
#include "frn/data/decode.h"
#include "frn/data/kinds.h"

namespace frn::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kImageFolderOperation = "imagefolder";
constexpr std::array<std::string_view, 3> kExtensions{".jpg", ".jpeg", ".png"};
constexpr uint64_t kLongestFolderImage = uint64_t{1} << 30;

struct Sample {
  std::string path;  // from the split's folder
  int64_t label;
};

class FolderSet : public Dataset {
 public:
  FolderSet(fs::path folder, std::vector<std::string> classes, std::vector<Sample> samples, const SetFacts& facts)
      : folder_(std::move(folder)), samples_(std::move(samples)) {
    classes_ = std::move(classes);
    facts_ = facts;
  }

  int64_t size() const override { return static_cast<int64_t>(samples_.size()); }
  Target target(int64_t index) const override { return {.label = samples_.at(static_cast<size_t>(index)).label}; }
  std::string name(int64_t index) const override { return path(index).string(); }
  std::unique_ptr<ImageSource> open(int64_t index) const override {
    const auto file = path(index);
    return open_image(read_file(file, kImageFolderOperation, kLongestFolderImage), file.string());
  }

 private:
  fs::path path(int64_t index) const { return folder_ / samples_.at(static_cast<size_t>(index)).path; }

  fs::path folder_;
  std::vector<Sample> samples_;
};

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with("."); }

bool is_image(const fs::path& path) {
  auto extension = path.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return std::find(kExtensions.begin(), kExtensions.end(), extension) != kExtensions.end() && !is_hidden(path);
}

std::vector<std::string> class_names(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_directory() && !is_hidden(entry.path())) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// By folder, then by name, as os.walk sorted and the files of each sorted.
std::vector<std::string> images_of(const fs::path& split_folder, const std::string& class_name) {
  std::vector<std::pair<std::string, std::string>> found;
  const auto options = fs::directory_options::follow_directory_symlink;
  for (const auto& entry : fs::recursive_directory_iterator(split_folder / class_name, options)) {
    if (!is_image(entry.path()) || entry.is_directory()) continue;
    found.emplace_back(entry.path().parent_path().lexically_relative(split_folder).string(),
                       entry.path().filename().string());
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> paths;
  paths.reserve(found.size());
  for (const auto& [folder, name] : found) paths.push_back((fs::path(folder) / name).string());
  return paths;
}

std::shared_ptr<const Dataset> open_folder_split(const fs::path& root, const fs::path& folder, const SetFacts& usual) {
  if (!fs::is_directory(folder)) {
    fail_file(kImageFolderOperation, root,
              "it must hold the folders train and val, with one folder per class in each, but has no " +
                  folder.filename().string());
  }
  // Labels are the training classes' numbers, even where the other split lacks a class.
  const auto names = class_names(folder);
  auto classes = fs::is_directory(root / "train") ? class_names(root / "train") : names;
  std::vector<Sample> samples;
  for (const auto& name : names) {
    const auto known = std::lower_bound(classes.begin(), classes.end(), name);
    if (known == classes.end() || *known != name) {
      fail_file(kImageFolderOperation, folder / name,
                "this class has no folder under train/; every class of val/ must be one of train/");
    }
    auto paths = images_of(folder, name);
    if (paths.empty()) {
      fail_file(kImageFolderOperation, folder / name,
                "a class must hold files that end in .jpg, .jpeg or .png but holds none");
    }
    for (auto& path : paths) samples.push_back({std::move(path), known - classes.begin()});
  }
  if (samples.empty()) fail_file(kImageFolderOperation, folder, "it must hold one folder per class but holds none");
  return std::make_shared<FolderSet>(folder, std::move(classes), std::move(samples), usual);
}

}  // namespace

std::shared_ptr<const Dataset> open_image_folder(const fs::path& folder, Split split, const SetFacts& usual) {
  try {
    return open_folder_split(folder, folder / (split == Split::kTrain ? "train" : "val"), usual);
  } catch (const fs::filesystem_error& error) {
    fail_file(kImageFolderOperation, error.path1(), "cannot read: " + error.code().message());
  }
}

}  // namespace frn::data
