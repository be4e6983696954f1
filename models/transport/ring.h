// A queue in one growing array: empty ones cost no memory, busy ones no allocation.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace railyard::transport {

template <class T>
class Ring {
 public:
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  T& front() { return items_[first_]; }
  const T& front() const { return items_[first_]; }
  T& operator[](std::size_t i) { return items_[(first_ + i) & (items_.size() - 1)]; }
  const T& operator[](std::size_t i) const { return items_[(first_ + i) & (items_.size() - 1)]; }
  void push_back(T item) {
    if (size_ == items_.size()) grow();
    ++size_;
    (*this)[size_ - 1] = std::move(item);
  }
  void pop_front() {
    first_ = (first_ + 1) & (items_.size() - 1);
    --size_;
  }

 private:
  void grow() {
    std::vector<T> larger(items_.empty() ? 4 : items_.size() * 2);
    for (std::size_t i = 0; i < size_; ++i) larger[i] = std::move((*this)[i]);
    items_ = std::move(larger);
    first_ = 0;
  }
  std::vector<T> items_;  // a power of two
  std::size_t first_ = 0, size_ = 0;
};

}  // namespace railyard::transport
