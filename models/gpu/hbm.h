// HBM as a capacity: allocated bytes and their peak.
#pragma once

#include <algorithm>
#include <vector>

#include "base/units.h"

namespace railyard::gpu {

class HbmListener {
 public:
  /// @param used  bytes that are allocated from now on
  virtual void on_used(Bytes used) = 0;

 protected:
  ~HbmListener() = default;
};

class Hbm {
 public:
  explicit Hbm(Bytes capacity) : capacity_(capacity) {}
  void allocate(Bytes bytes) {
    peak_ = std::max(peak_, used_ + bytes);
    set(used_ + bytes);
  }
  /// @pre these bytes are allocated
  void free(Bytes bytes) { set(used_ - bytes); }
  Bytes capacity() const { return capacity_; }
  Bytes used() const { return used_; }
  Bytes peak() const { return peak_; }
  void add_listener(HbmListener& listener) { listeners_.push_back(&listener); }

 private:
  void set(Bytes used) {
    used_ = used;
    for (HbmListener* listener : listeners_) listener->on_used(used);
  }

  Bytes capacity_, used_ = 0, peak_ = 0;
  std::vector<HbmListener*> listeners_;
};

}  // namespace railyard::gpu
