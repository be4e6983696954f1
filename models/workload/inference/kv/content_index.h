// Blocks by their content: a table with open addressing, because every block that is filled or taken changes it. An entry lies at
// its place or, behind other entries, before the next free place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace railyard::workload::inference {

class ContentIndex {
 public:
  using Content = std::uint64_t;
  /// Blocks with the same content, as a list.
  struct Entry {
    Content content = 0;
    std::uint32_t first = 0, last = 0;  ///< 0: no block, the place is free
  };

  /// Null: no block has this content.
  const Entry* find(Content content) const {
    const Entry& entry = entries_[place_of(content)];
    return entry.first == 0 ? nullptr : &entry;
  }
  Entry* find(Content content) {
    Entry& entry = entries_[place_of(content)];
    return entry.first == 0 ? nullptr : &entry;
  }
  /// Entries may move. @pre find(content) is null
  void add(Content content, std::uint32_t block) {
    if (4 * ++size_ > 3 * entries_.size()) grow();
    entries_[place_of(content)] = {content, block, block};
  }
  /// Entries may move. @pre find(content) is not null
  void remove(Content content) {
    std::size_t free = place_of(content);
    entries_[free].first = 0;
    --size_;
    // Entries behind it move up, unless that would put them before their place.
    for (std::size_t i = next(free); entries_[i].first != 0; i = next(i)) {
      const std::size_t behind = (i - home_of(entries_[i].content)) & (entries_.size() - 1);
      if (behind < ((i - free) & (entries_.size() - 1))) continue;
      entries_[free] = entries_[i];
      entries_[i].first = 0;
      free = i;
    }
  }

 private:
  std::size_t next(std::size_t place) const { return (place + 1) & (entries_.size() - 1); }
  std::size_t home_of(Content content) const {
    return static_cast<std::size_t>((content * 0x9e3779b97f4a7c15ull) >> 20) & (entries_.size() - 1);
  }
  /// Of this content, or the free place for it.
  std::size_t place_of(Content content) const {
    std::size_t place = home_of(content);
    while (entries_[place].first != 0 && entries_[place].content != content) place = next(place);
    return place;
  }
  void grow() {
    std::vector<Entry> before(2 * entries_.size());
    before.swap(entries_);
    for (const Entry& entry : before)
      if (entry.first != 0) entries_[place_of(entry.content)] = entry;
  }

  std::vector<Entry> entries_ = std::vector<Entry>(64);  ///< a power of two
  std::size_t size_ = 0;
};

}  // namespace railyard::workload::inference
