// Lets tests/parity/test_data.py see what our code makes of image files. Every line of standard input is one request,
// its words parted by tabs; the results go as tensors of the request's name into the file that its argument names, the
// errors to standard output as "NAME<tab>text".
//
// clang-format off
//   decode   NAME FILE TOP LEFT HEIGHT WIDTH ENOUGH_HEIGHT ENOUGH_WIDTH   uint8 [height, width, channels]; HEIGHT 0: all
//   resize   NAME FILE HEIGHT WIDTH                                       uint8 [height, width, channels]
//   pipeline NAME FILE none|inception COLOUR SIZE KEY [CROP]              float32 [3, size, size], mean 0, deviation 1
//   colours  NAME FILE ORDER BRIGHTNESS SATURATION HUE CONTRAST           float32 [3, height, width]
//   list     NAME DATA SPLIT                                              int64 labels; names as lines NAME<tab>name
//   boxes    NAME DATA SPLIT                                              float64 [n, 9]: image id, label, left, top,
//            right, bottom, crowd, and the truth's id and area; classes as lines NAME<tab>class
// clang-format on
#include <cstdio>
#include <cstring>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "frn/core/error.h"
#include "frn/core/safetensors.h"
#include "frn/data/augment.h"
#include "frn/data/decode.h"
#include "frn/data/pipeline.h"
#include "frn/data/resize.h"

namespace {

using namespace frn::data;
using frn::safetensors::Dtype;

struct Result {
  Dtype dtype;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
};

template <class T>
Result result_of(Dtype dtype, std::vector<int64_t> shape, const std::vector<T>& values) {
  Result result{dtype, std::move(shape), std::vector<std::byte>(values.size() * sizeof(T))};
  std::memcpy(result.bytes.data(), values.data(), result.bytes.size());
  return result;
}

Result result_of(const Image& image) {
  return result_of(Dtype::kU8, {image.size.height, image.size.width, image.channels},
                   std::vector<uint8_t>(image.pixels.begin(), image.pixels.end()));
}

std::unique_ptr<ImageSource> open_file(const std::string& path) {
  return open_image(read_file(path, "image_step", uint64_t{1} << 30), path);
}

Image read_all(const ImageSource& source) {
  return source.read({0, 0, source.size().height, source.size().width}, source.size());
}

std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  std::istringstream in(line);
  for (std::string word; std::getline(in, word, '\t');) words.push_back(word);
  return words;
}

Result decode(const std::vector<std::string>& words) {
  const auto source = open_file(words.at(2));
  const auto number = [&](size_t i) { return std::stoll(words.at(i)); };
  if (number(5) == 0) return result_of(read_all(*source));
  return result_of(source->read({number(3), number(4), number(5), number(6)}, {number(7), number(8)}));
}

Result resize(const std::vector<std::string>& words) {
  return result_of(resized(read_all(*open_file(words.at(2))), {std::stoll(words.at(3)), std::stoll(words.at(4))}));
}

Result pipeline(const std::vector<std::string>& words) {
  const Pipeline pipeline{.augmentation = words.at(3) == "inception" ? Augmentation::kInception : Augmentation::kNone,
                          .colour = words.at(4) == "1",
                          .size = std::stoll(words.at(5)),
                          .crop = words.size() > 7 ? std::stod(words[7]) : 0};
  std::vector<float> out(static_cast<size_t>(3 * pipeline.size * pipeline.size));
  pipeline.run(*open_file(words.at(2)), frn::RandomKey(std::stoull(words.at(6))), out);
  return result_of(Dtype::kF32, {3, pipeline.size, pipeline.size}, out);
}

Result colours(const std::vector<std::string>& words) {
  const Image image = with_channels(read_all(*open_file(words.at(2))), 3);
  const auto plane = static_cast<size_t>(image.size.height * image.size.width);
  std::vector<float> out(3 * plane);
  write_normalised(image.pixels.data(), image.size, 3, false, make_normalisation({}, {1, 1, 1}, 1.0 / 255),
                   PixelLayout::kPlanes, out);
  ColourChange change{
      {}, std::stof(words.at(4)), std::stof(words.at(5)), std::stof(words.at(6)), std::stof(words.at(7))};
  const std::string letters = "bshc";
  for (size_t i = 0; i < 4; ++i) change.order[i] = static_cast<ColourStep>(letters.find(words.at(3).at(i)));
  const std::span<float> values(out);
  change_colours(change, values.first(plane), values.subspan(plane, plane), values.last(plane));
  return result_of(Dtype::kF32, {3, image.size.height, image.size.width}, out);
}

Result list(const std::vector<std::string>& words) {
  const auto set =
      open_dataset(parse_data_name(words.at(2)), words.at(3) == "train" ? Split::kTrain : Split::kValidation);
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < set->size(); ++i) {
    labels.push_back(set->target(i).label);
    std::cout << words.at(1) << "\t" << set->name(i) << "\n";
  }
  return result_of(Dtype::kI64, {set->size()}, labels);
}

Result boxes(const std::vector<std::string>& words) {
  const auto set =
      open_dataset(parse_data_name(words.at(2)), words.at(3) == "train" ? Split::kTrain : Split::kValidation);
  for (const auto& name : set->classes()) std::cout << words.at(1) << "\t" << name << "\n";
  std::vector<double> values;
  for (int64_t i = 0; i < set->size(); ++i) {
    const auto target = set->target(i);
    if (target.boxes.size() != target.truths.size()) throw frn::Error("image_step", set->name(i) + " leaves boxes out");
    for (size_t k = 0; k < target.boxes.size(); ++k) {
      const auto& box = target.boxes[k];
      values.insert(values.end(), {static_cast<double>(target.image_id), static_cast<double>(box.label), box.left,
                                   box.top, box.right, box.bottom, box.crowd ? 1.0 : 0.0,
                                   static_cast<double>(target.truths[k].id), target.truths[k].area});
    }
  }
  const auto rows = static_cast<int64_t>(values.size() / 9);
  return result_of(Dtype::kF64, {rows, 9}, values);
}

Result answer(const std::vector<std::string>& words) {
  const auto& what = words.at(0);
  if (what == "decode") return decode(words);
  if (what == "resize") return resize(words);
  if (what == "pipeline") return pipeline(words);
  if (what == "colours") return colours(words);
  if (what == "boxes") return boxes(words);
  return list(words);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::map<std::string, Result> results;
  for (std::string line; std::getline(std::cin, line);) {
    const auto words = words_of(line);
    try {
      results[words.at(1)] = answer(words);
    } catch (const frn::Error& error) {
      std::cout << words.at(1) << "\t" << error.what() << "\n";
    }
  }
  frn::safetensors::TensorViews views;
  for (const auto& [name, result] : results) views[name] = {result.dtype, result.shape, result.bytes};
  frn::safetensors::write(argv[1], views, {});
}
