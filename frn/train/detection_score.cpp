#include "frn/train/detection_score.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "frn/core/error.h"
#include "frn/core/text.h"
#include "frn/metrics/coco_ap.h"

namespace frn::train {
namespace {

constexpr std::array<size_t, 2> kShownThresholds{0, 5};  // of IoU, in steps of 0.05 from 0.5 on
constexpr size_t kMostExamples = 8;
constexpr double kLeastShownScore = 0.3;

// Everything that counts of one image; boxes in its own pixels.
struct ScoredImage {
  int64_t index = 0;  // in the set
  int64_t id = 0;     // in the set's files
  std::vector<data::Truth> truths{};
  std::vector<FoundBox> found{};
};

// A set without truths of its own is scored by the boxes that are learned.
std::vector<data::Truth> truths_of(const data::Target& target, const data::Geometry& geometry) {
  if (!target.truths.empty()) return target.truths;
  std::vector<data::Truth> out;
  for (const auto& moved : target.boxes) {
    const auto box = data::moved_back(moved, geometry);
    const double width = box.right - box.left;
    const double height = box.bottom - box.top;
    out.push_back({.label = box.label,
                   .left = box.left,
                   .top = box.top,
                   .width = width,
                   .height = height,
                   .area = width * height,
                   .crowd = box.crowd});
  }
  return out;
}

// --- A list of numbers and back ---

class Writer {
 public:
  void put(std::initializer_list<double> numbers) { out_.insert(out_.end(), numbers); }
  std::vector<double> result() { return std::move(out_); }

 private:
  std::vector<double> out_;
};

class Reader {
 public:
  explicit Reader(std::span<const double> numbers) : left_(numbers) {}
  bool ended() const { return left_.empty(); }
  double number() {
    if (left_.empty()) throw Error("detection", "a packed score must hold whole images but ends within one");
    const double out = left_.front();
    left_ = left_.subspan(1);
    return out;
  }
  int64_t whole() { return static_cast<int64_t>(number()); }

 private:
  std::span<const double> left_;
};

void write(Writer& to, const ScoredImage& image) {
  const auto number = [](auto value) { return static_cast<double>(value); };
  to.put({number(image.index), number(image.id), number(image.truths.size()), number(image.found.size())});
  for (const auto& t : image.truths) {
    to.put({number(t.id), number(t.label), t.left, t.top, t.width, t.height, t.area, number(t.crowd)});
  }
  for (const auto& [box, score] : image.found) {
    to.put({number(box.label), score, box.left, box.top, box.right, box.bottom});
  }
}

// Elements of a braced list are read from left to right.
ScoredImage read_image(Reader& from) {
  ScoredImage image{.index = from.whole(), .id = from.whole()};
  const int64_t truths = from.whole();
  const int64_t found = from.whole();
  for (int64_t i = 0; i < truths; ++i) {
    image.truths.push_back({.id = from.whole(),
                            .label = from.whole(),
                            .left = from.number(),
                            .top = from.number(),
                            .width = from.number(),
                            .height = from.number(),
                            .area = from.number(),
                            .crowd = from.whole() != 0});
  }
  for (int64_t i = 0; i < found; ++i) {
    const int64_t label = from.whole();
    const double score = from.number();
    image.found.push_back(
        {{.left = from.number(), .top = from.number(), .right = from.number(), .bottom = from.number(), .label = label},
         score});
  }
  return image;
}

CocoBox coco_box(const data::Box& box) { return {box.left, box.top, box.right - box.left, box.bottom - box.top}; }

// --- The score ---

class DetectionScore : public Score {
 public:
  DetectionScore(const Detection& task, const DetectionOptions& options) : task_(task), options_(options) {}

  void add(const Outputs& outputs, const data::Batch& batch) override {
    const auto first = images_.size();
    images_.resize(first + static_cast<size_t>(batch.size()));
    at::parallel_for(0, batch.size(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const auto place = static_cast<size_t>(i);
        const auto& target = batch.targets.at(place);
        const auto geometry = batch.geometries.empty() ? data::Geometry{} : batch.geometries[place];
        images_[first + place] = {
            .index = batch.indices.empty() ? static_cast<int64_t>(first) + i : batch.indices[place],
            .id = target.image_id,
            .truths = truths_of(target, geometry),
            .found = task_.found(outputs, batch, i)};
      }
    });
  }

  std::vector<double> pack() const override {
    Writer writer;
    for (const auto& image : images_) write(writer, image);
    return writer.result();
  }

  void merge(std::span<const double> packed) override {
    Reader reader(packed);
    while (!reader.ended()) images_.push_back(read_image(reader));
  }

  std::vector<double> values() const override {
    std::vector<double> out;
    for (const auto& value : frn::named_values(scores())) out.push_back(number_or_none(value.value));
    return out;
  }

  Details details() const override {
    const auto scores = this->scores(/*curves=*/true);
    Details out;
    auto list = Value::empty_list();
    out.text = fmt::format("{:<24}{:>9}{:>9}{:>9}{:>9}{:>9}\n", "class", "objects", "AP", "AP50", "AP75", "AR");
    for (const auto& category : scores.categories) {
      const auto name = name_of(category.id);
      list.push_back({{"name", name},
                      {"objects", category.truths},
                      {"AP", number_or_none(category.ap)},
                      {"AP50", number_or_none(category.ap50)},
                      {"AP75", number_or_none(category.ap75)},
                      {"AR", number_or_none(category.ar)}});
      const auto shown_share = [](double share) {
        return share < 0 ? std::string("–") : fmt::format("{:.2f}", 100 * share);
      };
      out.text +=
          fmt::format("{:<24}{:>9}{:>9}{:>9}{:>9}{:>9}\n", one_line(name), category.truths, shown_share(category.ap),
                      shown_share(category.ap50), shown_share(category.ap75), shown_share(category.ar));
    }
    out.entries["classes"] = std::move(list);
    out.entries["precision_recall"] = mean_curves(scores);
    out.files.push_back({"detections.json", to_json(detections_as_coco_has_them()) + "\n"});
    out.files.push_back({"precision-recall.csv", curves_as_csv(scores)});
    out.examples = examples();
    return out;
  }

 private:
  // -1 stands for "nothing to find".
  static double number_or_none(double share) { return share < 0 ? std::numeric_limits<double>::quiet_NaN() : share; }

  std::string name_of(int64_t label) const {
    const auto place = static_cast<size_t>(label);
    return place < options_.classes.size() ? options_.classes[place] : std::to_string(label);
  }

  // In the evaluator images and classes have their numbers in the set: those of files need not be there.
  CocoScores scores(bool curves = false) const {
    std::vector<int64_t> images;
    std::vector<CocoTruth> truths;
    std::vector<CocoDetection> detections;
    auto classes = static_cast<int64_t>(options_.classes.size());
    for (const auto& image : images_) {
      images.push_back(image.index);
      for (const auto& t : image.truths) {
        truths.push_back({.id = t.id,
                          .image_id = image.index,
                          .category_id = t.label,
                          .box = {t.left, t.top, t.width, t.height},
                          .area = t.area,
                          .crowd = t.crowd});
        classes = std::max(classes, t.label + 1);
      }
      for (const auto& [box, score] : image.found) detections.push_back({image.index, box.label, coco_box(box), score});
    }
    std::vector<int64_t> categories(static_cast<size_t>(classes));
    for (size_t i = 0; i < categories.size(); ++i) categories[i] = static_cast<int64_t>(i);
    return evaluate_coco(
        images, categories, truths, detections,
        {.max_detections = options_.max_detections, .threads = at::get_num_threads(), .curves = curves});
  }

  // Precision over recall, the mean of all classes that have objects.
  static Value mean_curves(const CocoScores& scores) {
    auto out = Value::empty_list();
    for (const size_t threshold : kShownThresholds) {
      std::vector<double> mean(kCocoRecalls);
      double classes = 0;
      for (const auto& category : scores.categories) {
        if (category.truths == 0) continue;
        ++classes;
        for (size_t i = 0; i < mean.size(); ++i) mean[i] += category.precision[threshold * kCocoRecalls + i];
      }
      if (classes == 0) break;
      for (auto& value : mean) value /= classes;
      out.push_back({{"iou", 0.5 + 0.05 * static_cast<double>(threshold)}, {"precision", Value::list_of(mean)}});
    }
    return out;
  }

  // A line for each class, IoU and recall.
  std::string curves_as_csv(const CocoScores& scores) const {
    std::string out = "class,iou,recall,precision\n";
    for (const auto& category : scores.categories) {
      if (category.truths == 0) continue;
      for (const size_t threshold : kShownThresholds) {
        for (size_t i = 0; i < kCocoRecalls; ++i) {
          out += fmt::format("\"{}\",{:.2f},{:.2f},{:.6f}\n", quoted(name_of(category.id)),
                             0.5 + 0.05 * static_cast<double>(threshold), 0.01 * static_cast<double>(i),
                             category.precision[threshold * kCocoRecalls + i]);
        }
      }
    }
    return out;
  }

  // For a csv: quotes are doubled.
  static std::string quoted(const std::string& text) {
    std::string out;
    for (const char c : text) out.append(c == '"' ? 2 : 1, c);
    return out;
  }

  // Of the first images with objects.
  std::vector<Details::Example> examples() const {
    std::vector<Details::Example> out;
    for (const auto& image : in_order()) {
      if (out.size() == kMostExamples) break;
      if (image->truths.empty()) continue;
      auto& example = out.emplace_back();
      example.index = image->index;
      for (const auto& t : image->truths) {
        const data::Box box{t.left, t.top, t.left + t.width, t.top + t.height, t.label, t.crowd};
        example.truths.push_back({box, name_of(t.label), 1});
      }
      for (const auto& [box, score] : image->found) {
        if (score >= kLeastShownScore) example.found.push_back({box, name_of(box.label), score});
      }
    }
    return out;
  }

  // By their place in the set.
  std::vector<const ScoredImage*> in_order() const {
    std::vector<const ScoredImage*> out;
    for (const auto& image : images_) out.push_back(&image);
    std::sort(out.begin(), out.end(), [](const auto* a, const auto* b) { return a->index < b->index; });
    return out;
  }

  // COCO's results format.
  Value detections_as_coco_has_them() const {
    auto list = Value::empty_list();
    for (const auto* const image : in_order()) {
      for (const auto& [box, score] : image->found) {
        const auto label = static_cast<size_t>(box.label);
        const auto own = coco_box(box);
        list.push_back({{"image_id", image->id},
                        {"category_id", label < options_.class_ids.size() ? options_.class_ids[label] : box.label + 1},
                        {"bbox", Value::list_of(std::vector<double>{own.x, own.y, own.width, own.height})},
                        {"score", score}});
      }
    }
    return list;
  }

  Detection task_;
  DetectionOptions options_;
  std::vector<ScoredImage> images_;
};

class PositivesScore : public Score {
 public:
  explicit PositivesScore(const Detection& task) : task_(task) {}

  void add(const Outputs&, const data::Batch& batch) override {
    for (const int64_t count : task_.positives_of(batch)) positives_ += static_cast<double>(count);
    images_ += static_cast<double>(batch.size());
  }
  std::vector<double> pack() const override { return {images_, positives_}; }
  void merge(std::span<const double> packed) override {
    if (packed.size() != 2) {
      throw Error("detection", fmt::format("a training score must have 2 numbers but has {}", packed.size()));
    }
    images_ += packed[0];
    positives_ += packed[1];
  }
  std::vector<double> values() const override { return {positives_ / images_}; }

 private:
  Detection task_;
  double images_ = 0;
  double positives_ = 0;
};

}  // namespace

std::vector<Metric> coco_metrics(const std::vector<int64_t>& max_detections) {
  CocoScores none;
  none.max_detections = max_detections;
  none.ar.resize(max_detections.size());
  std::vector<Metric> out;
  for (const auto& [key, value] : frn::named_values(none)) out.push_back({key, key, MetricKind::kShare});
  return out;
}

std::unique_ptr<Score> make_detection_score(const Detection& task, const DetectionOptions& options) {
  return std::make_unique<DetectionScore>(task, options);
}

std::unique_ptr<Score> make_positives_score(const Detection& task) { return std::make_unique<PositivesScore>(task); }

}  // namespace frn::train
