#include <png.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstring>
#include <utility>

#include "frn/data/decode.h"
#include "frn/data/orientation.h"

namespace frn::data {
namespace {

struct PngDecoder {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::span<const uint8_t> rest;  // of the file
  std::jmp_buf jump;
  std::array<char, 200> message{};
};

[[noreturn]] void give_up(png_structp png, png_const_charp text) {
  auto* decoder = static_cast<PngDecoder*>(png_get_error_ptr(png));
  std::snprintf(decoder->message.data(), decoder->message.size(), "%s", text);
  std::longjmp(decoder->jump, 1);
}

void ignore(png_structp, png_const_charp) {}  // warnings: of colour profiles, comments and the like

void give_bytes(png_structp png, png_bytep out, size_t count) {
  auto* decoder = static_cast<PngDecoder*>(png_get_io_ptr(png));
  if (count > decoder->rest.size()) give_up(png, "the file ends too early");
  std::memcpy(out, decoder->rest.data(), count);
  decoder->rest = decoder->rest.subspan(count);
}

// libpng takes as much memory as a chunk's length says before it sees that the file is shorter.
void check_chunks(std::span<const uint8_t> file, const std::string& name) {
  constexpr size_t kSignature = 8;
  constexpr size_t kAround = 12;  // length and type before a chunk's data, its checksum after them
  for (size_t place = kSignature; file.size() - place >= kAround;) {
    const size_t length = png_get_uint_32(file.data() + place);
    if (length > file.size() - place - kAround) break;
    if (std::memcmp(file.data() + place + 4, "IEND", 4) == 0) return;
    place += kAround + length;
  }
  fail_file("image", name, "it is broken: the file ends too early");
}

// Texts and colour profiles are of no use here, and need not be unpacked.
void leave_out_texts(png_structp png) {
  static constexpr std::array<png_byte, 20> kUnused{'i', 'C', 'C', 'P', 0, 'i', 'T', 'X', 't', 0,
                                                    'z', 'T', 'X', 't', 0, 's', 'P', 'L', 'T', 0};
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, kUnused.data(), static_cast<int>(kUnused.size() / 5));
}

// As in jpeg.cpp: `work` must have no objects with destructors.
template <class Work>
[[gnu::noinline]] bool guarded(PngDecoder& decoder, const Work& work) {
  if (setjmp(decoder.jump) != 0) return false;  // NOLINT(cert-err52-cpp): libpng has no other way
  work();
  return true;
}

// Copies the region's part of every row to `out`. An interlaced image comes in seven passes over `frame`, which has
// room for all of it; for any other `frame` has room for one row.
void decode_rows(png_structp png, const Size& size, const Region& region, int64_t channels, uint8_t* frame,
                 uint8_t* out) {
  const int passes = png_set_interlace_handling(png);
  const auto row_bytes = static_cast<size_t>(size.width * channels);
  const auto copy = [&](const uint8_t* row) {
    std::memcpy(out, row + region.left * channels, static_cast<size_t>(region.width * channels));
    out += region.width * channels;
  };
  if (passes == 1) {
    for (int64_t i = 0; i < region.top + region.height; ++i) {
      png_read_row(png, frame, nullptr);
      if (i >= region.top) copy(frame);
    }
    return;
  }
  for (int pass = 0; pass < passes; ++pass) {
    for (int64_t i = 0; i < size.height; ++i) png_read_row(png, frame + static_cast<size_t>(i) * row_bytes, nullptr);
  }
  for (int64_t i = 0; i < region.height; ++i) copy(frame + static_cast<size_t>(region.top + i) * row_bytes);
}

class PngSource : public ImageSource {
 public:
  PngSource(Bytes file, std::string name) : file_(std::move(file)), name_(std::move(name)) {
    check_chunks(file_.span(), name_);
    Session session(*this);
    const auto* png = session.decoder.png;
    const auto* info = session.decoder.info;
    stored_ = {png_get_image_height(png, info), png_get_image_width(png, info)};
    check_pixels(stored_, name_);
    interlaced_ = png_get_interlace_type(png, info) != PNG_INTERLACE_NONE;
    const auto type = png_get_color_type(png, info);
    channels_ = type == PNG_COLOR_TYPE_GRAY || type == PNG_COLOR_TYPE_GRAY_ALPHA ? 1 : 3;
    png_bytep exif = nullptr;
    png_uint_32 length = 0;
    if (png_get_eXIf_1(png, info, &length, &exif) != 0) orientation_ = read_orientation({exif, length});
  }

  Size size() const override { return orientation_.viewed(stored_); }

  Image read(const Region& region, const Size&) const override {
    check_region(region, size());
    const Region stored = orientation_.stored(region, stored_);
    Image image{{stored.height, stored.width}, channels_, {}};
    image.pixels.resize(static_cast<size_t>(stored.height * stored.width * channels_));
    Bytes frame(static_cast<size_t>(stored_.width * channels_ * (interlaced_ ? stored_.height : 1)));
    Session session(*this);
    auto& decoder = session.decoder;
    const bool fine = guarded(decoder, [&] {
      png_set_palette_to_rgb(decoder.png);
      png_set_expand_gray_1_2_4_to_8(decoder.png);
      png_set_strip_16(decoder.png);
      png_set_strip_alpha(decoder.png);
      decode_rows(decoder.png, stored_, stored, channels_, frame.span().data(), image.pixels.data());
    });
    if (!fine) fail(decoder);
    return orientation_.apply(std::move(image));
  }

 private:
  // A decoder that has read the header.
  struct Session {
    explicit Session(const PngSource& source) {
      decoder.rest = source.file_.span();
      decoder.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &decoder, give_up, ignore);
      const bool fine = decoder.png != nullptr && guarded(decoder, [this] {
                          decoder.info = png_create_info_struct(decoder.png);
                          if (decoder.info == nullptr) png_error(decoder.png, "no memory left");
                          png_set_read_fn(decoder.png, &decoder, give_bytes);
                          leave_out_texts(decoder.png);
                          png_read_info(decoder.png, decoder.info);
                        });
      if (fine) return;
      png_destroy_read_struct(&decoder.png, &decoder.info, nullptr);
      source.fail(decoder);
    }
    ~Session() { png_destroy_read_struct(&decoder.png, &decoder.info, nullptr); }
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    PngDecoder decoder;
  };

  [[noreturn]] void fail(const PngDecoder& decoder) const {
    fail_file("image", name_, "it is broken: " + std::string(decoder.message.data()));
  }

  Bytes file_;
  std::string name_;
  Size stored_;
  bool interlaced_ = false;
  int64_t channels_ = 3;
  Orientation orientation_;
};

}  // namespace

std::unique_ptr<ImageSource> open_png(Bytes file, std::string name) {
  return std::make_unique<PngSource>(std::move(file), std::move(name));
}

}  // namespace frn::data
