// Blocks of KV that are on their way to host memory, from disks or from another instance's host memory, and the requests that wait for
// them. A request waits for one read at a time. Plain C++; no SystemC.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "workload/inference/kv/kv_peers.h"
#include "workload/inference/kv/kv_tier.h"

namespace railyard::workload::inference {

class HostReads {
 public:
  struct Read {
    KvTier::Contents contents;
    std::optional<KvPeers::Lender> lender;  ///< none: disks
    std::vector<std::uint32_t> requests;    ///< that wait for it
  };

  /// @return its number, which no other read gets
  std::uint32_t begin(KvTier::Contents contents, std::optional<KvPeers::Lender> lender) {
    for (const KvTier::Content content : contents) numbers_[content] = next_;
    reads_[next_].contents = std::move(contents);
    reads_[next_].lender = lender;
    return next_++;
  }
  /// The read that brings a block; none: nobody reads it.
  std::optional<std::uint32_t> of(KvTier::Content content) const {
    const auto found = numbers_.find(content);
    return found == numbers_.end() ? std::nullopt : std::optional(found->second);
  }
  void join(std::uint32_t number, std::uint32_t request) { reads_.at(number).requests.push_back(request); }
  void leave(std::uint32_t request) {
    for (auto& [number, read] : reads_)
      read.requests.erase(std::remove(read.requests.begin(), read.requests.end(), request), read.requests.end());
  }
  Read end(std::uint32_t number) {
    Read read = reads_.extract(number).mapped();
    for (const KvTier::Content content : read.contents) numbers_.erase(content);
    return read;
  }
  /// Nobody waits any more. Numbers go on.
  void clear() {
    for (const auto& [number, read] : reads_)
      if (read.lender) read.lender->end(read.contents);
    reads_.clear();
    numbers_.clear();
  }

 private:
  std::map<std::uint32_t, Read> reads_;  ///< by number
  std::unordered_map<KvTier::Content, std::uint32_t> numbers_;
  std::uint32_t next_ = 0;
};

}  // namespace railyard::workload::inference
