#include "frn/data/drawing.h"

#include <png.h>

#include <algorithm>
#include <cmath>

#include "frn/core/error.h"
#include "frn/data/pixels.h"

namespace frn::data {
namespace {

// --- Letters: strokes on a grid of 5x7 points, with two more rows below the line ---

constexpr int64_t kLetterWidth = 4;
constexpr int64_t kLetterHeight = 6;
constexpr int64_t kBelowLine = 2;
constexpr int64_t kAdvance = 6;  // from one letter to the next

// For the characters from '!' on. A stroke is a list of points, x and y by a digit each; a blank begins another.
constexpr std::array<std::string_view, 94> kStrokes{
    "2024 26",                           // !
    "1012 3032",                         // "
    "1016 3036 0242 0444",               // #
    "413010010213334445361605 2026",     // $
    "4006 0011 3546",                    // %
    "46110110212003051626 44",           // &
    "2022",                              // '
    "30212536",                          // (
    "10212516",                          // )
    "2125 0244 0442",                    // *
    "2226 0444",                         // +
    "2617",                              // ,
    "0444",                              // -
    "26",                                // .
    "4006",                              // /
    "103041453616050110 1531",           // 0
    "112026 1636",                       // 1
    "01103041420646",                    // 2
    "01103041423313 334445361605",       // 3
    "36300444",                          // 4
    "400003334445361605",                // 5
    "30100105163645443303",              // 6
    "004016",                            // 7
    "13020110304142331304051636454433",  // 8
    "43130201103041453616",              // 9
    "23 26",                             // :
    "23 2617",                           // ;
    "410345",                            // <
    "0343 0545",                         // =
    "014305",                            // >
    "01103041422324 26",                 // ?
    "3424233444413010010516 36",         // @
    "062046 1434",                       // A
    "003041423303 334445360600",         // B
    "4130100105163645",                  // C
    "00304145360600",                    // D
    "40000646 0333",                     // E
    "400006 0333",                       // F
    "41301001051636454323",              // G
    "0006 4046 0343",                    // H
    "1030 2026 1636",                    // I
    "4045361605",                        // J
    "0006 400346",                       // K
    "000646",                            // L
    "0600234046",                        // M
    "06004640",                          // N
    "103041453616050110",                // O
    "06003041423303",                    // P
    "103041453616050110 2446",           // Q
    "06003041423303 2346",               // R
    "413010010213334445361605",          // S
    "0040 2026",                         // T
    "000516364540",                      // U
    "002640",                            // V
    "0016233640",                        // W
    "0046 4006",                         // X
    "002340 2326",                       // Y
    "00400646",                          // Z
    "30202636",                          // [
    "0046",                              // backslash
    "10202616",                          // ]
    "022042",                            // ^
    "0747",                              // _
    "1021",                              // `
    "12324346 441405163645",             // a
    "0006 0312324345361605",             // b
    "4332120305163645",                  // c
    "4046 4332120305163645",             // d
    "04444332120305163645",              // e
    "40302126 0343",                     // f
    "4332120305163645 4247381807",       // g
    "0006 0312324346",                   // h
    "2226 20",                           // i
    "22271808 20",                       // j
    "0006 420446",                       // k
    "2026",                              // l
    "0602 03122326 23324346",            // m
    "0602 0312324346",                   // n
    "123243453616050312",                // o
    "0802 0312324345361605",             // p
    "4842 4332120305163645",             // q
    "0602 03123243",                     // r
    "43321203143445361605",              // s
    "20253646 0242",                     // t
    "0205163645 4246",                   // u
    "022642",                            // v
    "0216243642",                        // w
    "0246 4206",                         // x
    "0226 4218",                         // y
    "02420646",                          // z
    "40303132223334353646",              // {
    "2028",                              // |
    "00101112222314151606",              // }
    "0312233443 4342",                   // ~
};
constexpr std::string_view kUnknown = "0040460600";

std::string_view strokes_of(char32_t character) {
  if (character == U' ') return "";
  return character > U' ' && character < 0x7F ? kStrokes[static_cast<size_t>(character - U'!')] : kUnknown;
}

// --- Pixels ---

struct Point {
  double x, y;
};

class Canvas {
 public:
  explicit Canvas(Image& image) : image_(image) {}

  void fill(double left, double top, double right, double bottom, const Colour& colour) {
    const auto first_x = std::max<int64_t>(0, std::llround(left));
    const auto first_y = std::max<int64_t>(0, std::llround(top));
    const auto last_x = std::min(image_.size.width, static_cast<int64_t>(std::llround(right)));
    const auto last_y = std::min(image_.size.height, static_cast<int64_t>(std::llround(bottom)));
    for (int64_t y = first_y; y < last_y; ++y) {
      for (int64_t x = first_x; x < last_x; ++x) {
        std::copy(colour.begin(), colour.end(), image_.pixels.begin() + 3 * (y * image_.size.width + x));
      }
    }
  }

  void line(const Point& from, const Point& to, double width, const Colour& colour) {
    const double length = std::max(std::abs(to.x - from.x), std::abs(to.y - from.y));
    const auto steps = static_cast<int64_t>(std::ceil(2 * length));
    for (int64_t i = 0; i <= steps; ++i) {
      const double share = steps == 0 ? 0 : static_cast<double>(i) / static_cast<double>(steps);
      const double x = from.x + share * (to.x - from.x);
      const double y = from.y + share * (to.y - from.y);
      fill(x - width / 2, y - width / 2, x + width / 2, y + width / 2, colour);
    }
  }

 private:
  Image& image_;
};

// Bytes of UTF-8 that begin no character are one each.
std::u32string characters_of(std::string_view text) {
  std::u32string out;
  for (const char byte : text) {
    const auto value = static_cast<unsigned char>(byte);
    if ((value & 0xC0U) == 0x80 && !out.empty()) continue;  // goes on with the one before
    out.push_back(value);
  }
  return out;
}

// `unit`: pixels between two points of the grid.
void write_text(Canvas& canvas, std::string_view text, const Point& at, double unit, const Colour& colour) {
  double x = at.x;
  for (const char32_t character : characters_of(text)) {
    Point before{};
    bool begins = true;
    const auto strokes = strokes_of(character);
    for (size_t i = 0; i + 1 < strokes.size();) {
      if (strokes[i] == ' ') {
        begins = true;
        ++i;
        continue;
      }
      const Point point{x + unit * (strokes[i] - '0'), at.y + unit * (strokes[i + 1] - '0')};
      canvas.line(begins ? point : before, point, std::max(1.0, unit * 0.8), colour);
      before = point;
      begins = false;
      i += 2;
    }
    x += unit * kAdvance;
  }
}

Colour ink_on(const Colour& ground) {
  const double light = 0.299 * ground[0] + 0.587 * ground[1] + 0.114 * ground[2];
  return light > 140 ? Colour{0, 0, 0} : Colour{255, 255, 255};
}

void draw(Canvas& canvas, const Size& size, const DrawnBox& box, double line) {
  canvas.fill(box.left, box.top, box.right, box.top + line, box.colour);
  canvas.fill(box.left, box.bottom - line, box.right, box.bottom, box.colour);
  canvas.fill(box.left, box.top, box.left + line, box.bottom, box.colour);
  canvas.fill(box.right - line, box.top, box.right, box.bottom, box.colour);
  if (box.text.empty()) return;
  const double unit = std::max(1.0, line * 0.75);
  const double height = unit * (kLetterHeight + kBelowLine + 2);
  const auto letters = static_cast<double>(characters_of(box.text).size());
  const double width = unit * (letters * kAdvance - (kAdvance - kLetterWidth) + 4);
  // Above the box, or inside where the image ends; never beyond its right edge.
  const double top = box.top >= height ? box.top - height : box.top;
  const double left = std::clamp(box.left, 0.0, std::max(0.0, static_cast<double>(size.width) - width));
  canvas.fill(left, top, left + width, top + height, box.colour);
  write_text(canvas, box.text, {left + 2 * unit, top + 2 * unit}, unit, ink_on(box.colour));
}

}  // namespace

Colour colour_of(int64_t number) {
  // Of about the same lightness, and not told apart by red and green alone.
  static constexpr std::array<Colour, 8> kColours{{{230, 159, 0},
                                                   {86, 180, 233},
                                                   {0, 158, 115},
                                                   {240, 228, 66},
                                                   {0, 114, 178},
                                                   {213, 94, 0},
                                                   {204, 121, 167},
                                                   {148, 103, 189}}};
  const auto count = static_cast<int64_t>(kColours.size());
  return kColours[static_cast<size_t>((number % count + count) % count)];
}

Image drawn(const Image& image, const std::vector<DrawnBox>& boxes) {
  auto out = with_channels(image, 3);
  Canvas canvas(out);
  const auto shorter = static_cast<double>(std::min(out.size.height, out.size.width));
  const double line = std::max(1.0, std::round(shorter / 240));
  for (const auto& box : boxes) draw(canvas, out.size, box, line);
  return out;
}

Image side_by_side(const Image& left, const Image& right) {
  if (left.size.height != right.size.height || left.channels != right.channels) {
    throw Error("drawing", "two images beside each other must have the same height and channels but have not");
  }
  constexpr int64_t kBetween = 4;
  Image out{{left.size.height, left.size.width + kBetween + right.size.width}, left.channels, {}};
  for (int64_t row = 0; row < out.size.height; ++row) {
    const auto add = [&](const Image& from) {
      const auto bytes = from.size.width * from.channels;
      const auto begin = from.pixels.begin() + row * bytes;
      out.pixels.insert(out.pixels.end(), begin, begin + bytes);
    };
    add(left);
    out.pixels.insert(out.pixels.end(), static_cast<size_t>(kBetween * out.channels), uint8_t{255});
    add(right);
  }
  return out;
}

std::string to_png(const Image& image) {
  if (image.pixels.empty()) throw Error("png", "an image must have pixels but has none");
  png_image about{};
  about.version = PNG_IMAGE_VERSION;
  about.width = static_cast<png_uint_32>(image.size.width);
  about.height = static_cast<png_uint_32>(image.size.height);
  about.format = image.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png_alloc_size_t bytes = 0;
  std::string out;
  const auto write = [&](void* memory) {
    return png_image_write_to_memory(&about, memory, &bytes, /*convert_to_8_bit=*/0, image.pixels.data(),
                                     /*row_stride=*/0, /*colormap=*/nullptr) != 0;
  };
  bool fine = write(nullptr);
  if (fine) {
    out.resize(bytes);
    fine = write(out.data());
  }
  png_image_free(&about);
  if (!fine) throw Error("png", std::string("an image cannot be written: ") + &about.message[0]);
  out.resize(bytes);
  return out;
}

}  // namespace frn::data
