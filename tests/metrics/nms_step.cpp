// Lets tests/parity/test_nms.py ask for suppressions: nms_step IN OUT, both safetensors files.
//
// IN:  for each case NAME boxes.NAME [N, 4] and scores.NAME [N] or [N, classes], float32, and options.NAME float64 [3]:
//      threshold of IoU, threshold of scores, most.
// OUT: kept.NAME int64: [kept] of nms, or [kept, 2] (box, class) of best_detections.
#include <cstdio>
#include <exception>
#include <map>
#include <string>
#include <vector>

#include "frn/core/safetensors.h"
#include "frn/metrics/nms.h"

namespace {

using frn::safetensors::Dtype;
using frn::safetensors::File;

template <typename T>
std::vector<T> read(const File& file, const std::string& name) {
  std::vector<T> out(file.header().entries.at(name).byte_count() / sizeof(T));
  file.read(name, std::as_writable_bytes(std::span(out)));
  return out;
}

struct Answer {
  std::vector<int64_t> shape;
  std::vector<int64_t> values;
};

Answer answer(const File& file, const std::string& name) {
  const auto boxes = read<float>(file, "boxes." + name);
  const auto scores = read<float>(file, "scores." + name);
  const auto options = read<double>(file, "options." + name);
  const auto& shape = file.header().entries.at("scores." + name).shape;
  if (shape.size() == 1) {
    auto kept = frn::nms(boxes, scores, options.at(0));
    return {{std::ssize(kept)}, std::move(kept)};
  }
  const auto found =
      frn::best_detections(boxes, scores, shape.at(1),
                           {static_cast<float>(options.at(1)), options.at(0), static_cast<int64_t>(options.at(2))});
  Answer out{{std::ssize(found), 2}, {}};
  for (const auto& one : found) out.values.insert(out.values.end(), {one.box, one.category});
  return out;
}

void run(const char* in, const char* out) {
  const File file(in);
  std::map<std::string, Answer> answers;
  frn::safetensors::TensorViews tensors;
  const std::string prefix = "boxes.";
  for (const auto& [name, entry] : file.header().entries) {
    if (!name.starts_with(prefix)) continue;
    const auto plain = name.substr(prefix.size());
    const auto& kept = answers[plain] = answer(file, plain);
    tensors["kept." + plain] = {Dtype::kI64, kept.shape, std::as_bytes(std::span(kept.values))};
  }
  frn::safetensors::write(out, tensors);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    run(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "nms_step: %s\n", error.what());
    return 1;
  }
}
