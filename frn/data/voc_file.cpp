#include "frn/data/voc_file.h"

#include <charconv>
#include <cmath>
#include <pugixml.hpp>

#include "frn/core/text.h"
#include "frn/data/bytes.h"

namespace frn::data {
namespace {

constexpr std::string_view kVocFileOperation = "voc";
constexpr double kMostPixels = 1e9;
constexpr size_t kMostShown = 60;  // of a text that is wrong

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r\n";
  const auto first = text.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpaces) - first + 1);
}

std::string shown(std::string_view text) {
  return "'" + one_line(text.substr(0, kMostShown)) + (text.size() > kMostShown ? "...'" : "'");
}

// Finite, and so small that sums and products stay exact enough.
bool parse_number(std::string_view text, double& number) {
  const auto [after, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && after == text.data() + text.size() && std::abs(number) <= kMostPixels;
}

// Of a file, for messages.
class Reader {
 public:
  explicit Reader(std::string_view source) : source_(source) {}

  [[noreturn]] void fail(const std::string& sentence) const { fail_file(kVocFileOperation, source_, sentence); }

  double number(const pugi::xml_node& parent, const char* name, const std::string& what) const {
    const std::string_view text = trimmed(parent.child(name).text().get());
    double number = 0;
    if (parse_number(text, number)) return number;
    fail(what + " must have a number of pixels <" + name + "> but has " + (text.empty() ? "none" : shown(text)));
  }

  Size size(const pugi::xml_node& annotation) const {
    const auto node = annotation.child("size");
    if (!node) return {};
    const auto side = [&](const char* name) {
      const double value = number(node, name, "<size>");
      if (value >= 0) return static_cast<int64_t>(value);
      fail(std::string("<size> must have a <") + name + "> of at least 0 but has " +
           shown(node.child(name).text().get()));
    };
    return {side("height"), side("width")};
  }

  VocObject object(const pugi::xml_node& node, size_t place) const {
    const auto what = "object " + std::to_string(place);
    const std::string name(trimmed(node.child("name").text().get()));
    if (name.empty()) fail(what + " must have a <name> but has none");
    const auto box = node.child("bndbox");
    if (!box) fail(what + " (" + shown(name) + ") must have a <bndbox> but has none");
    const auto side = [&](const char* side_name) { return number(box, side_name, what + "'s <bndbox>"); };
    return {.name = name,
            .xmin = side("xmin"),
            .ymin = side("ymin"),
            .xmax = side("xmax"),
            .ymax = side("ymax"),
            .difficult = trimmed(node.child("difficult").text().get()) == "1"};
  }

 private:
  std::string_view source_;
};

}  // namespace

VocFile parse_voc(std::span<const uint8_t> bytes, std::string_view source) {
  const Reader reader(source);
  pugi::xml_document document;
  const auto result = document.load_buffer(bytes.data(), bytes.size());
  if (!result) {
    reader.fail("it must be XML but is not at byte " + std::to_string(result.offset) + ": " + result.description());
  }
  const auto annotation = document.child("annotation");
  if (!annotation) reader.fail("it must hold <annotation>, as files of Pascal VOC do, but does not");
  VocFile file{reader.size(annotation), {}};
  for (const auto& node : annotation.children("object")) {
    file.objects.push_back(reader.object(node, file.objects.size() + 1));
  }
  return file;
}

}  // namespace frn::data
