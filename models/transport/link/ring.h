// A queue in one growing array: an empty queue needs no memory, and a queue in use needs no allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace railyard::transport {

template <class T>
class Ring {
 public:
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  T& front() { return items_[first_]; }
  const T& front() const { return items_[first_]; }
  T& back() { return (*this)[size_ - 1]; }
  T& operator[](std::size_t i) { return items_[(first_ + i) & (capacity_ - 1)]; }
  const T& operator[](std::size_t i) const { return items_[(first_ + i) & (capacity_ - 1)]; }
  void push_back(T item) {
    if (size_ == capacity_) grow();
    ++size_;
    back() = std::move(item);
  }
  void pop_front() {
    first_ = (first_ + 1) & (capacity_ - 1);
    --size_;
  }

 private:
  void grow() {
    const std::uint32_t capacity = capacity_ == 0 ? 4 : capacity_ * 2;
    std::unique_ptr<T[]> larger(new T[capacity]);
    for (std::size_t i = 0; i < size_; ++i) larger[i] = std::move((*this)[i]);
    items_ = std::move(larger);
    capacity_ = capacity;
    first_ = 0;
  }
  std::unique_ptr<T[]> items_;
  std::uint32_t capacity_ = 0;  // a power of two, or 0 before the first use
  std::uint32_t first_ = 0, size_ = 0;
};

}  // namespace railyard::transport
