// frn bench coco-ap: how long COCO's evaluation takes on a set of the size of val2017. bench/coco_peers.py prints it
// beside pycocotools' and faster-coco-eval's.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>

#include "frn/cli/bench_seconds.h"
#include "frn/cli/commands.h"
#include "frn/cli/output.h"
#include "frn/cli/threads.h"
#include "frn/core/error.h"
#include "frn/core/random.h"
#include "frn/core/whole_file.h"
#include "frn/metrics/coco_files.h"

namespace frn::cli {
namespace {

struct BenchCocoOptions {
  int64_t images = 5000;
  int64_t classes = 80;
  int64_t detections = 100;  // per image
  int threads = default_threads();
  int rounds = 5;
  std::string folder;
  bool as_json = false;
};

constexpr double kWidth = 640;
constexpr double kHeight = 480;

// As people write them: two digits for pixels.
double rounded(double value, double digits) { return std::round(value * digits) / digits; }

// Some classes are much more frequent than others.
int64_t random_class(Random& random, int64_t classes) {
  const double place = random.uniform();
  return 1 + static_cast<int64_t>(place * place * static_cast<double>(classes));
}

CocoBox random_box(Random& random) {
  const auto side = [&](double limit) { return rounded(std::min(limit, 8 * std::exp2(random.uniform(0, 5.5))), 100); };
  const double width = side(kWidth);
  const double height = side(kHeight);
  return {rounded(random.uniform(0, kWidth - width), 100), rounded(random.uniform(0, kHeight - height), 100), width,
          height};
}

CocoBox near(Random& random, const CocoBox& box) {
  const auto moved = [&](double value, double side) {
    return rounded(value + side * random.uniform(-0.15, 0.15), 100);
  };
  return {moved(box.x, box.width), moved(box.y, box.height), moved(box.width, box.width),
          moved(box.height, box.height)};
}

struct MadeSet {
  CocoFile file;
  std::vector<CocoDetection> detections;
};

// An image with up to 14 objects; a third of what was found lies close to one of them.
void add_image(const BenchCocoOptions& options, int64_t index, MadeSet& set) {
  Random random(RandomKey(0).with(static_cast<uint64_t>(index)));
  const int64_t id = 100 * index + random.below(100);
  set.file.images.push_back({id, fmt::format("{:012}.jpg", id), std::lround(kWidth), std::lround(kHeight)});
  const auto first = set.file.annotations.size();
  for (int64_t i = 1 + random.below(14); i > 0; --i) {
    const auto box = random_box(random);
    set.file.annotations.push_back({.id = std::ssize(set.file.annotations) + 1,
                                    .image_id = id,
                                    .category_id = random_class(random, options.classes),
                                    .box = box,
                                    .area = rounded(box.width * box.height * random.uniform(0.4, 0.9), 100),
                                    .crowd = random.below(80) == 0});
  }
  const auto count = static_cast<int64_t>(set.file.annotations.size() - first);
  for (int64_t i = 0; i < options.detections; ++i) {
    CocoDetection found{id, random_class(random, options.classes), random_box(random),
                        rounded(0.4 * random.uniform(), 1e5)};
    if (random.below(3) == 0) {
      const auto& truth = set.file.annotations[first + static_cast<size_t>(random.below(count))];
      found = {id, truth.category_id, near(random, truth.box), rounded(random.uniform(), 1e5)};
    }
    set.detections.push_back(found);
  }
}

MadeSet make_set(const BenchCocoOptions& options) {
  MadeSet out;
  for (int64_t i = 1; i <= options.classes; ++i) out.file.categories.push_back({i, fmt::format("class {}", i)});
  for (int64_t i = 0; i < options.images; ++i) add_image(options, i, out);
  return out;
}

std::string box_text(const CocoBox& box) { return fmt::format("[{},{},{},{}]", box.x, box.y, box.width, box.height); }

// A list, an element at a time: as a tree it would be ten times its size.
template <typename List, typename TextOf>
std::string list_text(const List& list, TextOf text_of) {
  std::string out = "[";
  for (const auto& element : list) out += (out.size() > 1 ? ",\n" : "") + text_of(element);
  return out + "]";
}

std::string truths_text(const CocoFile& file) {
  const auto images = list_text(file.images, [](const CocoImage& image) {
    return fmt::format(R"({{"id":{},"file_name":"{}","width":{},"height":{}}})", image.id, image.file_name, image.width,
                       image.height);
  });
  const auto categories = list_text(file.categories, [](const CocoCategory& category) {
    return fmt::format(R"({{"id":{},"name":"{}"}})", category.id, category.name);
  });
  const auto annotations = list_text(file.annotations, [](const CocoTruth& truth) {
    return fmt::format(R"({{"id":{},"image_id":{},"category_id":{},"bbox":{},"area":{},"iscrowd":{}}})", truth.id,
                       truth.image_id, truth.category_id, box_text(truth.box), truth.area, truth.crowd ? 1 : 0);
  });
  return fmt::format("{{\"images\":{},\n\"categories\":{},\n\"annotations\":{}}}\n", images, categories, annotations);
}

std::string detections_text(const std::vector<CocoDetection>& detections) {
  return list_text(detections, [](const CocoDetection& found) {
    return fmt::format(R"({{"image_id":{},"category_id":{},"bbox":{},"score":{}}})", found.image_id, found.category_id,
                       box_text(found.box), found.score);
  });
}

struct Files {
  std::filesystem::path truths, detections;
};

Files write(const MadeSet& set, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  Files out{folder / "GT.json", folder / "DETECTIONS.json"};
  write_whole_file(out.truths, truths_text(set.file), "bench");
  write_whole_file(out.detections, detections_text(set.detections), "bench");
  return out;
}

// Gone at its end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    auto pattern = (std::filesystem::temp_directory_path() / "frn-bench-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw Error("bench", "cannot make a folder for files in " + pattern);
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

struct BenchCocoRow {
  std::string name;
  std::function<void()> body;
  std::vector<double> seconds{};
};

void print(const BenchCocoOptions& options, const MadeSet& set, const std::vector<BenchCocoRow>& rows) {
  if (options.as_json) {
    auto list = Value::empty_list();
    for (const auto& row : rows) list.push_back({{"name", row.name}, {"seconds", median(row.seconds)}});
    return print_json({{"command", "bench coco-ap"},
                       {"images", options.images},
                       {"objects", set.file.annotations.size()},
                       {"detections", set.detections.size()},
                       {"rows", list}});
  }
  fmt::print("frn bench coco-ap: {} images, {} classes, {} objects, {} detections; median of {} rounds\n",
             options.images, options.classes, set.file.annotations.size(), set.detections.size(), options.rounds);
  for (const auto& row : rows) fmt::print("{:<24}{:>10.3f} s\n", row.name, median(row.seconds));
}

void run(const BenchCocoOptions& options) {
  const auto set = make_set(options);
  const TemporaryFolder temporary;
  const auto files = write(set, options.folder.empty() ? temporary.path() : std::filesystem::path(options.folder));
  const auto evaluate = [&](int threads) {
    return [&set, threads] { evaluate_coco(set.file, set.detections, {.threads = threads}); };
  };
  std::vector<BenchCocoRow> rows{{"evaluate, 1 thread", evaluate(1)}};
  if (options.threads > 1)
    rows.push_back({fmt::format("evaluate, {} threads", options.threads), evaluate(options.threads)});
  rows.push_back({"read GT.json", [&] { read_coco_truths(files.truths); }});
  rows.push_back({"read DETECTIONS.json", [&] { read_coco_detections(files.detections); }});
  for (int round = 0; round < options.rounds; ++round) {
    for (auto& row : rows) row.seconds.push_back(seconds_of(row.body));
  }
  print(options, set, rows);
}

}  // namespace

Command bench_coco_command() {
  auto options = std::make_shared<BenchCocoOptions>();
  return {
      .name = "coco-ap",
      .help = "COCO's average precision on a made set of the size of val2017",
      .options =
          {{.name = "--images", .to = &options->images, .help = "Number of images", .range = Range{1, 1e6}},
           {.name = "--classes", .to = &options->classes, .help = "Number of classes", .range = Range{1, 1e6}},
           {.name = "--detections", .to = &options->detections, .help = "Detections per image", .range = Range{0, 1e6}},
           {.name = "--threads",
            .to = &options->threads,
            .help = "Threads of the second measurement",
            .default_text = "all processors",
            .range = Range{1, 1024}},
           {.name = "--rounds",
            .to = &options->rounds,
            .help = "Number of rounds; their median is printed",
            .range = Range{1, 1000}},
           {.name = "--write",
            .to = &options->folder,
            .help = "Folder that keeps GT.json and DETECTIONS.json",
            .value = "DIR",
            .default_text = "none"},
           {.name = "--json", .to = &options->as_json, .help = "Print JSON"}},
      .run = [options](const Given&) { run(*options); }};
}

}  // namespace frn::cli
