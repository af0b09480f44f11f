// The sources of the table of kinds: what each row of dataset.cpp opens.
#pragma once

#include <filesystem>
#include <memory>

#include "frn/data/dataset.h"

namespace frn::data {

std::shared_ptr<const Dataset> open_cifar10(const std::filesystem::path& folder, Split split, const SetFacts& usual);
std::shared_ptr<const Dataset> open_cifar100(const std::filesystem::path& folder, Split split, const SetFacts& usual);
// `files` is a folder, or of the form:
inline constexpr std::string_view kCocoForm = "TRAIN.json@IMAGES,VAL.json@IMAGES";
std::shared_ptr<const Dataset> open_coco(const std::filesystem::path& files, Split split, const SetFacts& usual);
std::shared_ptr<const Dataset> open_fashion_mini(const std::filesystem::path& none, Split split, const SetFacts& usual);
std::shared_ptr<const Dataset> open_idx(const std::filesystem::path& folder, Split split, const SetFacts& usual);
std::shared_ptr<const Dataset> open_image_folder(const std::filesystem::path& folder, Split split,
                                                 const SetFacts& usual);
std::shared_ptr<const Dataset> open_noise(const std::filesystem::path& text, Split split, const SetFacts& usual);
std::shared_ptr<const Dataset> open_shapes(const std::filesystem::path& text, Split split, const SetFacts& usual);
std::shared_ptr<const Dataset> open_voc(const std::filesystem::path& folder, Split split, const SetFacts& usual);

// Of Fashion-MNIST, the built-in part and the whole.
SetFacts fashion_facts();
// Whether labels, in their order, begin as those of Fashion-MNIST's split do.
bool are_fashion_labels(std::span<const uint8_t> labels, Split split);

}  // namespace frn::data
