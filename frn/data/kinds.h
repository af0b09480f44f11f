// The sources of the table of kinds: what each row of dataset.cpp opens.
#pragma once

#include <filesystem>
#include <memory>

#include "frn/data/dataset.h"

namespace frn::data {

std::shared_ptr<const Dataset> open_cifar10(const std::filesystem::path& folder, Split split);
std::shared_ptr<const Dataset> open_cifar100(const std::filesystem::path& folder, Split split);
std::shared_ptr<const Dataset> open_fashion_mini(const std::filesystem::path& none, Split split);
std::shared_ptr<const Dataset> open_idx(const std::filesystem::path& folder, Split split);
std::shared_ptr<const Dataset> open_image_folder(const std::filesystem::path& folder, Split split);
std::shared_ptr<const Dataset> open_noise(const std::filesystem::path& text, Split split);

}  // namespace frn::data
