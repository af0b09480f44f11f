#include <csetjmp>
#include <cstdio>
// libjpeg's headers need FILE from <cstdio>.
#include <jerror.h>
#include <jpeglib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "frn/data/decode.h"
#include "frn/data/orientation.h"

namespace frn::data {
namespace {

constexpr int kExifMarker = JPEG_APP0 + 1;
constexpr std::array<uint8_t, 6> kExifStart{'E', 'x', 'i', 'f', 0, 0};
constexpr int kMostScans = 500;  // a progressive file of a few bytes per scan could keep a decoder busy for hours
constexpr unsigned kMostReduction = 8;

struct JpegDecoder {
  jpeg_decompress_struct info;
  jpeg_error_mgr errors;
  jpeg_progress_mgr progress;
  std::jmp_buf jump;
  std::array<char, JMSG_LENGTH_MAX> message;
};

[[noreturn]] void give_up(j_common_ptr common) {
  auto* decoder = static_cast<JpegDecoder*>(common->client_data);
  common->err->format_message(common, decoder->message.data());
  std::longjmp(decoder->jump, 1);
}

// Warnings that do not mean wrong pixels: bytes between segments, and markers of unknown kind.
bool is_harmless(int code) {
  return code == JWRN_EXTRANEOUS_DATA || code == JWRN_ADOBE_XFORM || code == JWRN_JFIF_MAJOR ||
         code == JWRN_NOT_SEQUENTIAL;
}

void on_message(j_common_ptr common, int level) {
  if (level < 0 && !is_harmless(common->err->msg_code)) give_up(common);
}

void on_progress(j_common_ptr common) {
  const auto* info = reinterpret_cast<j_decompress_ptr>(common);
  if (info->input_scan_number <= kMostScans) return;
  auto* decoder = static_cast<JpegDecoder*>(common->client_data);
  std::snprintf(decoder->message.data(), decoder->message.size(), "it has more than %d scans", kMostScans);
  std::longjmp(decoder->jump, 1);
}

// Runs `work`, which libjpeg leaves by a jump when the file is broken: then false. Neither `work` nor what it calls may
// have objects with destructors.
template <class Work>
[[gnu::noinline]] bool guarded(JpegDecoder& decoder, const Work& work) {
  if (setjmp(decoder.jump) != 0) return false;  // NOLINT(cert-err52-cpp): libjpeg has no other way
  work(decoder.info);
  return true;
}

// What to decode, in pixels of the scaled-down image.
struct Plan {
  unsigned reduction = 1;
  Region region;
};

// The largest reduction that leaves enough pixels.
Plan plan_for(const Region& region, const Size& enough) {
  Plan plan{1, region};
  for (unsigned reduction = 2; reduction <= kMostReduction; reduction *= 2) {
    const int64_t top = region.top / reduction;
    const int64_t left = region.left / reduction;
    const Region scaled{top, left, (region.top + region.height) / reduction - top,
                        (region.left + region.width) / reduction - left};
    if (scaled.height < std::max<int64_t>(enough.height, 1) || scaled.width < std::max<int64_t>(enough.width, 1)) break;
    plan = {reduction, scaled};
  }
  return plan;
}

// Sampling for which a cut-out of columns was found equal to the whole (tests/data/decode_test.cpp).
bool can_crop(const jpeg_decompress_struct& info) {
  const auto is_1_or_2 = [](int factor) { return factor == 1 || factor == 2; };
  for (int i = 0; i < info.num_components; ++i) {
    const auto& component = info.comp_info[i];
    if (!is_1_or_2(component.h_samp_factor) || !is_1_or_2(component.v_samp_factor)) return false;
    if (i > 0 && (component.h_samp_factor != 1 || component.v_samp_factor != 1)) return false;
  }
  return true;
}

// PIL takes every CMYK file as Adobe writes it: inverted.
void cmyk_to_rgb(const uint8_t* from, uint8_t* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i, from += 4, to += 3) {
    for (int channel = 0; channel < 3; ++channel) {
      const unsigned product = (255U - from[channel]) * from[3] + 128U;
      to[channel] = static_cast<uint8_t>(from[3] - ((product + (product >> 8)) >> 8));
    }
  }
}

// Rows of the plan's region go to `out`. `row` has room for one row of the whole image.
void decode_rows(jpeg_decompress_struct& info, const Plan& plan, uint8_t* row, uint8_t* out, int64_t channels) {
  const Region& region = plan.region;
  JDIMENSION first = 0;
  if (can_crop(info) && region.width < static_cast<int64_t>(info.output_width)) {
    // Smooth upsampling of colours looks one stored sample, 2 pixels, to either side.
    constexpr int64_t kMargin = 2;
    const int64_t left = std::max<int64_t>(0, region.left - kMargin);
    const int64_t right = std::min<int64_t>(info.output_width, region.left + region.width + kMargin);
    first = static_cast<JDIMENSION>(left);
    auto width = static_cast<JDIMENSION>(right - left);
    jpeg_crop_scanline(&info, &first, &width);
  }
  if (region.top > 0) jpeg_skip_scanlines(&info, static_cast<JDIMENSION>(region.top));
  const int64_t skip = region.left - first;
  for (int64_t i = 0; i < region.height; ++i, out += region.width * channels) {
    uint8_t* target = row;
    jpeg_read_scanlines(&info, &target, 1);
    if (info.out_color_space == JCS_CMYK) {
      cmyk_to_rgb(row + skip * 4, out, region.width);
    } else {
      std::memcpy(out, row + skip * channels, static_cast<size_t>(region.width * channels));
    }
  }
}

class JpegSource : public ImageSource {
 public:
  JpegSource(Bytes file, std::string name) : file_(std::move(file)), name_(std::move(name)) {
    decoder_.info.err = jpeg_std_error(&decoder_.errors);
    decoder_.errors.error_exit = give_up;
    decoder_.errors.emit_message = on_message;
    decoder_.info.client_data = &decoder_;
    decoder_.progress.progress_monitor = on_progress;
    const bool fine = guarded(decoder_, [this](auto& info) {
      jpeg_create_decompress(&info);
      info.progress = &decoder_.progress;
      jpeg_save_markers(&info, kExifMarker, 0xffff);
      read_header();
    });
    try {
      if (!fine) fail();
      stored_ = {decoder_.info.image_height, decoder_.info.image_width};
      check_pixels(stored_, name_);
    } catch (...) {
      jpeg_destroy_decompress(&decoder_.info);
      throw;
    }
    find_orientation();
  }
  ~JpegSource() override { jpeg_destroy_decompress(&decoder_.info); }
  JpegSource(const JpegSource&) = delete;
  JpegSource& operator=(const JpegSource&) = delete;

  Size size() const override { return orientation_.viewed(stored_); }

  Image read(const Region& region, const Size& enough) const override {
    check_region(region, size());
    const auto plan = plan_for(orientation_.stored(region, stored_), orientation_.viewed(enough));
    const bool grey = decoder_.info.num_components == 1;
    Image image{{plan.region.height, plan.region.width}, grey ? 1 : 3, {}};
    image.pixels.resize(static_cast<size_t>(plan.region.height * plan.region.width * image.channels));
    const bool fine = guarded(decoder_, [&](auto& info) {
      if (!std::exchange(header_is_read_, false)) read_header();
      set_output(plan.reduction);
      jpeg_start_decompress(&info);
      constexpr size_t kMostChannels = 4;
      auto* row = static_cast<uint8_t*>((*info.mem->alloc_large)(reinterpret_cast<j_common_ptr>(&info), JPOOL_IMAGE,
                                                                 info.output_width * kMostChannels));
      decode_rows(info, plan, row, image.pixels.data(), image.channels);
    });
    // Ends the image, not the decoder: the next read starts with the header again.
    jpeg_abort_decompress(&decoder_.info);
    if (!fine) fail();
    return orientation_.apply(std::move(image));
  }

 private:
  // Inside guarded() alone.
  void read_header() const {
    auto& info = decoder_.info;
    jpeg_mem_src(&info, file_.span().data(), file_.size());
    jpeg_read_header(&info, TRUE);
  }

  void set_output(unsigned reduction) const {
    auto& info = decoder_.info;
    info.scale_num = 1;
    info.scale_denom = reduction;
    if (info.num_components == 1) {
      info.out_color_space = JCS_GRAYSCALE;
    } else {
      const bool inks = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
      info.out_color_space = inks ? JCS_CMYK : JCS_RGB;
    }
  }

  void find_orientation() {
    for (const auto* marker = decoder_.info.marker_list; marker != nullptr; marker = marker->next) {
      const std::span<const uint8_t> data(marker->data, marker->data_length);
      if (data.size() < kExifStart.size() || !std::equal(kExifStart.begin(), kExifStart.end(), data.begin())) continue;
      orientation_ = read_orientation(data.subspan(kExifStart.size()));
      return;
    }
  }

  [[noreturn]] void fail() const { fail_file("image", name_, "it is broken: " + std::string(decoder_.message.data())); }

  Bytes file_;
  std::string name_;
  mutable JpegDecoder decoder_{};
  mutable bool header_is_read_ = true;  // by the constructor; each read uses it up
  Size stored_;
  Orientation orientation_;
};

}  // namespace

std::unique_ptr<ImageSource> open_jpeg(Bytes file, std::string name) {
  return std::make_unique<JpegSource>(std::move(file), std::move(name));
}

}  // namespace frn::data
