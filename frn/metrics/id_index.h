// Ids of a COCO file, which may have gaps of any size, as numbers from 0 in ascending order.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace frn::coco {

class IdIndex {
 public:
  explicit IdIndex(std::span<const int64_t> ids);  // those that come twice count once

  size_t size() const { return ids_.size(); }
  int64_t id(size_t index) const { return ids_[index]; }

  std::optional<uint32_t> find(int64_t id) const {
    if (table_.empty()) return search(id);
    // Ids below the first one wrap around, past the end.
    const uint64_t offset = static_cast<uint64_t>(id) - static_cast<uint64_t>(ids_.front());
    if (offset >= table_.size() || table_[offset] == kNone) return std::nullopt;
    return table_[offset];
  }

 private:
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  std::optional<uint32_t> search(int64_t id) const;

  std::vector<int64_t> ids_;
  std::vector<uint32_t> table_;  // by id - ids_[0]; empty: the ids lie too far apart for one
};

}  // namespace frn::coco
