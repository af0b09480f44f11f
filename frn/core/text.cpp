#include "frn/core/text.h"

#include <algorithm>
#include <numeric>

namespace frn {
namespace {

// Letters added, left out, changed, or two neighbours swapped.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1);
  std::vector<size_t> row(b.size() + 1);
  std::vector<size_t> next(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    next[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = row[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      next[j] = std::min({row[j] + 1, next[j - 1] + 1, change});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) next[j] = std::min(next[j], before[j - 2] + 1);
    }
    before.swap(row);
    row.swap(next);
  }
  return row.back();
}

// How many bytes the control character at `at` has; 0: there is none.
size_t control_length(std::string_view text, size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 0x20 || byte == 0x7f) return 1;
  if (byte != 0xc2 || at + 1 == text.size()) return 0;
  const auto next = static_cast<unsigned char>(text[at + 1]);
  return next >= 0x80 && next < 0xa0 ? 2 : 0;
}

}  // namespace

std::string join(std::span<const std::string_view> names, std::string_view separator) {
  std::string out;
  for (const auto name : names) {
    if (!out.empty()) out += separator;
    out += name;
  }
  return out;
}

std::string shell_word(std::string_view text) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=,+%@";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string_view::npos) return std::string(text);
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string shape_text(std::span<const int64_t> sizes) {
  std::string out = "[";
  for (const int64_t size : sizes) {
    if (out.size() > 1) out += ", ";
    out += std::to_string(size);
  }
  return out + "]";
}

std::string_view nearest(std::string_view name, std::span<const std::string_view> known) {
  std::string_view best;
  size_t best_distance = std::max<size_t>(2, name.size() / 3) + 1;
  for (const auto candidate : known) {
    const size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string suggestion(std::string_view name, std::span<const std::string_view> known) {
  const auto near = nearest(name, known);
  return near.empty() ? "" : " (did you mean '" + std::string(near) + "'?)";
}

bool has_control_characters(std::string_view text) {
  for (size_t at = 0; at < text.size(); ++at) {
    if (control_length(text, at) > 0) return true;
  }
  return false;
}

std::string one_line(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t length = control_length(text, at);
    out += length > 0 ? ' ' : text[at];
    at += std::max<size_t>(length, 1);
  }
  return out;
}

}  // namespace frn
