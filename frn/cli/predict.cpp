// frn predict: what a run's network sees in image files. Of detectors it also writes pictures with the boxes on them.
#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <torch/types.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <ranges>
#include <set>

#include "frn/cli/commands.h"
#include "frn/cli/exit.h"
#include "frn/cli/output.h"
#include "frn/core/error.h"
#include "frn/core/text.h"
#include "frn/core/whole_file.h"
#include "frn/data/bytes.h"
#include "frn/data/decode.h"
#include "frn/data/drawing.h"
#include "frn/train/run_folder.h"

namespace frn::cli {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kLongestFile = uint64_t{1} << 30;
constexpr int64_t kMostBoxes = 100;
constexpr int64_t kMostClasses = 5;
constexpr double kLeastShownScore = 0.3;  // of boxes; a detector has hundreds of unlikely ones

struct PredictOptions {
  std::string run;
  std::vector<std::string> images;
  int64_t top = 0;
  double least_score = -1;
  std::string out;
  bool as_json = false;
};

bool is_image(const fs::path& path) {
  auto ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(), [](unsigned char c) { return std::tolower(c); });
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

// Of a folder its images, by name; without those of folders in it.
std::vector<std::string> files_of(const std::vector<std::string>& names) {
  std::vector<std::string> out;
  for (const auto& name : names) {
    std::error_code error;
    if (!fs::is_directory(name, error)) {
      out.push_back(name);
      continue;
    }
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(name, error)) {
      if (is_image(entry.path())) found.push_back(entry.path().string());
    }
    if (error) throw Error("predict", name + ": cannot read the folder: " + error.message());
    if (found.empty()) throw Error("predict", name + ": the folder must hold JPEG or PNG files but has none");
    std::sort(found.begin(), found.end());
    out.insert(out.end(), found.begin(), found.end());
  }
  return out;
}

// Of a batch of one image.
train::Description describe(const train::TrainedModel& trained, data::Batch batch,
                            const train::DescribeOptions& options) {
  const torch::NoGradGuard no_grad;
  const auto format = trained.config.channels_last() ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  const train::Network network(trained.model);
  batch.images = batch.images.contiguous(format);
  return trained.task->describe(network.forward(batch.images, trained.config.bfloat16()), batch, 0, options);
}

// Of each image the picture's path: of two images of one name in different folders the second gets a number.
std::vector<fs::path> picture_paths(const fs::path& folder, const std::vector<std::string>& images) {
  std::vector<fs::path> out;
  std::set<std::string> taken;
  for (const auto& image : images) {
    const auto stem = fs::path(image).stem().string();
    auto name = stem;
    for (int i = 2; !taken.insert(name).second; ++i) name = fmt::format("{}-{}", stem, i);
    out.push_back(folder / (name + ".png"));
  }
  return out;
}

// What a file or folder is, whatever its path; none when it is not there.
std::optional<std::pair<dev_t, ino_t>> identity(const fs::path& path) {
  struct stat found {};
  if (stat(path.empty() ? "." : path.c_str(), &found) != 0) return std::nullopt;
  return std::pair(found.st_dev, found.st_ino);
}

// A picture may not take the place of an image, also through a link; nor lie beside the images, where photo.jpg's could
// replace another photo, and where the next call would take it for an image.
void check_apart(const fs::path& folder, const std::vector<std::string>& images,
                 const std::vector<fs::path>& pictures) {
  std::map<std::pair<dev_t, ino_t>, std::string> taken;
  std::set<fs::path> seen;  // most images share few folders
  for (const auto& image : images) {
    if (const auto id = identity(image)) taken.emplace(*id, image);
    const auto beside = fs::path(image).parent_path();
    if (!seen.insert(beside).second) continue;
    if (const auto id = identity(beside)) taken.emplace(*id, image);
  }
  const auto check = [&](const fs::path& path) {
    const auto id = identity(path);
    const auto found = id ? taken.find(*id) : taken.end();
    if (found == taken.end()) return;
    throw Error("predict", fmt::format("the pictures must go to a folder without the images, but {} would get them "
                                       "and holds {}; give another --out",
                                       folder.string(), found->second));
  };
  check(folder);
  for (const auto& path : pictures) check(path);
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw Error("predict", "cannot make the folder " + folder.string() + ": " + error.message());
}

void write_picture(const fs::path& path, const data::ImageSource& image, const train::Description& found) {
  const auto size = image.size();
  std::vector<data::DrawnBox> boxes;
  for (const auto& one : std::views::reverse(found.boxes)) {  // the best on top
    const auto& box = one.box;
    boxes.push_back({box.left, box.top, box.right, box.bottom, fmt::format("{} {:.0f}%", one.name, 100 * one.score),
                     data::colour_of(box.label)});
  }
  const auto picture = data::drawn(image.read({0, 0, size.height, size.width}, size), boxes);
  refuse_link(path, "predict");
  write_whole_file(path, data::to_png(picture), "predict");
}

void run(const PredictOptions& options) {
  const auto files = files_of(options.images);
  const auto trained = train::open_trained({options.run});
  for (const auto& sentence : trained.damaged) fmt::print(stderr, "frn: {}\n", sentence);
  const bool detects = trained.model->row().detects;
  if (!detects && !options.out.empty()) {
    throw UsageError("[predict] --out is for pictures with boxes, but the run has a classifier; leave it out");
  }
  std::vector<fs::path> pictures;
  const train::RunFolder folder{options.run};
  // A folder to share stays as it is.
  const auto usual = folder.holds_run() ? folder.path / "predictions" : fs::path("predictions");
  if (detects) {
    const auto out = options.out.empty() ? usual : fs::path(options.out);
    if (options.out.empty()) refuse_link(out, "predict");  // the run may be somebody else's
    pictures = picture_paths(out, files);
    check_apart(out, files, pictures);
    make_folder(out);
  }
  const train::DescribeOptions wanted{.most = options.top > 0 ? options.top
                                              : detects       ? kMostBoxes
                                                              : kMostClasses,
                                      .least_score = options.least_score >= 0 ? options.least_score
                                                     : detects                ? kLeastShownScore
                                                                              : 0};
  const auto pipeline = train::evaluation_pipeline(trained.config, trained.facts);
  auto image = at::empty({1, pipeline.channels, pipeline.size, pipeline.size});
  const std::span<float> out(image.mutable_data_ptr<float>(), static_cast<size_t>(image.numel()));
  auto batch = data::make_batch(image, std::vector<data::Target>(1));
  auto list = Value::empty_list();
  int failures = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    const auto& path = files[i];
    try {
      const auto source = data::open_image(data::read_file(path, "predict", kLongestFile), path);
      batch.geometries = {pipeline.run(*source, RandomKey(0), out)};
      const auto found = describe(trained, batch, wanted);
      Value entry{{"image", path}};
      for (const auto& [key, value] : found.entries.as_table()) entry[key] = value;
      if (detects) {
        write_picture(pictures[i], *source, found);
        entry["picture"] = pictures[i].string();
      }
      if (!options.as_json) {
        fmt::print("{}{}\n{}", one_line(path), detects ? " -> " + one_line(entry["picture"].as_text()) : "",
                   found.text);
      }
      list.push_back(std::move(entry));
    } catch (const Error& error) {
      fmt::print(stderr, "frn: {}\n", error.what());
      ++failures;
    }
  }
  if (options.as_json) print_json(list);
  if (failures > 0) throw Exit{kExitError};
}

}  // namespace

Command predict_command() {
  auto options = std::make_shared<PredictOptions>();
  return {.name = "predict",
          .help = "Name the classes of image files, or draw the objects found in them",
          .options = {{.name = "IMAGE",
                       .to = &options->images,
                       .help = "JPEG or PNG files, or folders of them",
                       .required = true},
                      {.name = "--run",
                       .to = &options->run,
                       .help = "Folder of the run, which frn train --out made, or one that frn export wrote",
                       .value = "DIR",
                       .required = true},
                      {.name = "--top",
                       .to = &options->top,
                       .help = "Number of classes or boxes to name, most probable first",
                       .default_text = "5 classes; of a detector 100 boxes",
                       .range = Range{1}},
                      {.name = "--score",
                       .to = &options->least_score,
                       .help = "Least score of what is shown, from 0 to 1",
                       .default_text = "0; of a detector 0.3",
                       .range = Range{0, 1}},
                      {.name = "--out",
                       .to = &options->out,
                       .help = "Of a detector: folder for pictures with the boxes, PNG; another one than the images'",
                       .value = "DIR",
                       .default_text = "predictions in the run's folder; here, for one that frn export wrote"},
                      {.name = "--json", .to = &options->as_json, .help = "Print JSON"}},
          .run = [options](const Given&) { run(*options); }};
}

}  // namespace frn::cli
