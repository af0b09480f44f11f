// fashion-mini: the files of fashion_mini/ are part of the library, so that it works from any folder.
#include <algorithm>
#include <span>

#include "frn/data/idx_set.h"
#include "frn/data/kinds.h"

// The assembler reads the files (FRN_FASHION_MINI is their folder): an array in C++ would compile for minutes.
// NAME[] holds the bytes, NAME_end is behind the last.
#define FRN_EMBED(NAME, FILE)                                                                                       \
  asm(".section .rodata\n.balign 16\n.hidden " #NAME "\n.global " #NAME "\n" #NAME ":\n.incbin \"" FRN_FASHION_MINI \
      "/" FILE "\"\n.hidden " #NAME "_end\n.global " #NAME "_end\n" #NAME "_end:\n.byte 0\n.text\n");               \
  extern "C" const uint8_t NAME[];                                                                                  \
  extern "C" const uint8_t NAME##_end[]

// NOLINTBEGIN(readability-identifier-naming): names of symbols that the linker sees.
FRN_EMBED(frn_fashion_train_images, "train-images-idx3-ubyte.gz");
FRN_EMBED(frn_fashion_train_labels, "train-labels-idx1-ubyte.gz");
FRN_EMBED(frn_fashion_test_images, "t10k-images-idx3-ubyte.gz");
FRN_EMBED(frn_fashion_test_labels, "t10k-labels-idx1-ubyte.gz");
// NOLINTEND(readability-identifier-naming)

namespace frn::data {
namespace {

IdxArray unpack(const uint8_t* begin, const uint8_t* end, size_t dimensions) {
  Bytes file(static_cast<size_t>(end - begin));
  std::copy(begin, end, file.span().begin());
  return parse_idx(std::move(file), dimensions, "fashion-mini");
}

IdxArray labels_of(Split split) {
  return split == Split::kTrain ? unpack(frn_fashion_train_labels, frn_fashion_train_labels_end, 1)
                                : unpack(frn_fashion_test_labels, frn_fashion_test_labels_end, 1);
}

}  // namespace

SetFacts fashion_facts() {
  // Mean and deviation of its 60,000 training images.
  return {1, 28, Augmentation::kPadCropFlip, {0.2860F}, {0.3530F}};
}

bool are_fashion_labels(std::span<const uint8_t> labels, Split split) {
  // Until a class is complete, the built-in part leaves nothing out: the first of those ends after more than this.
  constexpr size_t kAlike = 500;
  const auto ours = labels_of(split);
  return labels.size() >= kAlike && std::equal(labels.begin(), labels.begin() + kAlike, ours.values().begin());
}

std::shared_ptr<const Dataset> open_fashion_mini(const std::filesystem::path&, Split split, const SetFacts& usual) {
  const bool train = split == Split::kTrain;
  auto images = train ? unpack(frn_fashion_train_images, frn_fashion_train_images_end, 3)
                      : unpack(frn_fashion_test_images, frn_fashion_test_images_end, 3);
  return make_idx_set(
      std::move(images), labels_of(split), usual, train ? "fashion-mini, training" : "fashion-mini, validation",
      {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"});
}

}  // namespace frn::data
