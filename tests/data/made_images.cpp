#include "tests/data/made_images.h"

#include <cstdio>
#include <cstdlib>
// libjpeg's header needs FILE from <cstdio>.
#include <jpeglib.h>
#include <png.h>

#include <algorithm>
#include <cmath>

#include "frn/core/random.h"

namespace frn::data {

Image made_image(const Size& size, int64_t channels) {
  Image image{size, channels, {}};
  Random random(RandomKey(7));
  for (int64_t y = 0; y < size.height; ++y) {
    for (int64_t x = 0; x < size.width; ++x) {
      for (int64_t c = 0; c < channels; ++c) {
        const double wave = 70 * std::sin(0.11 * static_cast<double>(y) + 0.17 * static_cast<double>(x * (c + 1)));
        const double edge = (y / 13 + x / 9) % 2 == 0 ? 25 : -25;
        image.pixels.push_back(static_cast<uint8_t>(128 + wave + edge + random.uniform(-20, 20)));
      }
    }
  }
  return image;
}

std::string to_jpeg(const Image& image, const JpegSettings& settings) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long length = 0;  // NOLINT(google-runtime-int): libjpeg's type
  jpeg_mem_dest(&info, &memory, &length);
  info.image_height = static_cast<JDIMENSION>(image.size.height);
  info.image_width = static_cast<JDIMENSION>(image.size.width);
  info.input_components = static_cast<int>(image.channels);
  info.in_color_space = image.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, settings.quality, TRUE);
  info.comp_info[0].h_samp_factor = image.channels == 1 ? 1 : settings.luma_h;
  info.comp_info[0].v_samp_factor = image.channels == 1 ? 1 : settings.luma_v;
  if (settings.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    auto* row = const_cast<uint8_t*>(image.pixels.data()) + info.next_scanline * image.size.width * image.channels;
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string text(reinterpret_cast<char*>(memory), length);
  std::free(memory);  // libjpeg took it with malloc
  return text;
}

std::string to_png(const Image& image, bool interlaced) {
  std::string text;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  const auto write = [](png_structp p, png_bytep bytes, size_t count) {
    static_cast<std::string*>(png_get_io_ptr(p))->append(reinterpret_cast<char*>(bytes), count);
  };
  png_set_write_fn(png, &text, write, [](png_structp) {});
  png_set_IHDR(png, info, static_cast<png_uint_32>(image.size.width), static_cast<png_uint_32>(image.size.height), 8,
               image.channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB,
               interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  std::vector<png_bytep> rows;
  for (int64_t i = 0; i < image.size.height; ++i) {
    rows.push_back(const_cast<uint8_t*>(image.pixels.data()) + i * image.size.width * image.channels);
  }
  png_set_rows(png, info, rows.data());
  png_write_png(png, info, PNG_TRANSFORM_IDENTITY, nullptr);
  png_destroy_write_struct(&png, &info);
  return text;
}

Bytes bytes_of(const std::string& text) {
  Bytes bytes(text.size());
  std::copy(text.begin(), text.end(), bytes.span().begin());
  return bytes;
}

}  // namespace frn::data
