#include "frn/metrics/id_index.h"

#include <algorithm>

#include "frn/core/error.h"

namespace frn::coco {

// COCO's image ids go up to 600,000: a table of 16 MB is the most that is worth it.
constexpr uint64_t kLargestTable = 4'000'000;

IdIndex::IdIndex(std::span<const int64_t> ids) : ids_(ids.begin(), ids.end()) {
  if (ids.size() >= kNone) throw Error("coco", "there must be fewer than 4 billion ids");
  std::sort(ids_.begin(), ids_.end());
  ids_.erase(std::unique(ids_.begin(), ids_.end()), ids_.end());
  if (ids_.empty()) return;
  const uint64_t range = static_cast<uint64_t>(ids_.back()) - static_cast<uint64_t>(ids_.front());
  if (range >= kLargestTable) return;
  table_.assign(range + 1, kNone);
  for (size_t i = 0; i < ids_.size(); ++i) {
    table_[static_cast<uint64_t>(ids_[i]) - static_cast<uint64_t>(ids_.front())] = static_cast<uint32_t>(i);
  }
}

std::optional<uint32_t> IdIndex::search(int64_t id) const {
  const auto found = std::lower_bound(ids_.begin(), ids_.end(), id);
  if (found == ids_.end() || *found != id) return std::nullopt;
  return static_cast<uint32_t>(found - ids_.begin());
}

}  // namespace frn::coco
