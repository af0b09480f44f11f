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

}  // namespace frn
