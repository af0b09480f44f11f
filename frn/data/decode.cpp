#include "frn/data/decode.h"

#include <algorithm>
#include <array>
#include <utility>

namespace frn::data {
namespace {

constexpr std::array<uint8_t, 3> kJpeg{0xff, 0xd8, 0xff};
constexpr std::array<uint8_t, 8> kPng{0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};

bool starts_with(std::span<const uint8_t> bytes, std::span<const uint8_t> start) {
  return bytes.size() >= start.size() && std::equal(start.begin(), start.end(), bytes.begin());
}

}  // namespace

std::unique_ptr<ImageSource> open_image(Bytes file, std::string name) {
  if (starts_with(file.span(), kJpeg)) return open_jpeg(std::move(file), std::move(name));
  if (starts_with(file.span(), kPng)) return open_png(std::move(file), std::move(name));
  fail_file("image", name,
            file.size() == 0 ? "it must be a JPEG or PNG file but is empty"
                             : "it must be a JPEG or PNG file but does not start as one");
}

void check_pixels(const Size& size, const std::string& name) {
  const auto text = std::to_string(size.height) + "x" + std::to_string(size.width);
  if (size.height < 1 || size.width < 1) fail_file("image", name, "it must have pixels but its size is " + text);
  if (size.width <= kMostPixels / size.height) return;
  fail_file("image", name,
            "an image must have at most " + std::to_string(kMostPixels) + " pixels but its size is " + text +
                "; it may be a decompression bomb");
}

}  // namespace frn::data
