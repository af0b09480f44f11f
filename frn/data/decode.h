// Pixels of JPEG and PNG files in memory. Without torch, so that a fuzzer can build it.
//
// JPEG goes through libjpeg's interface of libjpeg-turbo: unlike TurboJPEG 2.1's it can skip rows and columns
// (jpeg_skip_scanlines, jpeg_crop_scanline) as well as scale down while it decodes.
#pragma once

#include <memory>
#include <string>

#include "frn/data/bytes.h"
#include "frn/data/image_source.h"

namespace frn::data {

// Larger images are refused before memory is taken, whatever their header says. PIL's limit.
inline constexpr int64_t kMostPixels = 178'956'970;

// Reads the header; what the file is, its first bytes say, not its name. Alpha is dropped, more than 8 bits are cut to
// 8, CMYK becomes RGB, as PIL's convert("RGB") does. Grey stays grey. `name` is for messages. Throws frn::Error for
// what is neither JPEG nor PNG, for a broken header and for too many pixels; read() throws it for data that are cut off
// or damaged within what it had to decode.
std::unique_ptr<ImageSource> open_image(Bytes file, std::string name);

// One per format; `file` starts as one of that format does.
std::unique_ptr<ImageSource> open_jpeg(Bytes file, std::string name);
std::unique_ptr<ImageSource> open_png(Bytes file, std::string name);

// Throws frn::Error unless the image has pixels, and at most kMostPixels.
void check_pixels(const Size& size, const std::string& name);

}  // namespace frn::data
