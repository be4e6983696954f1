// Strong index types: a GpuId cannot be used as a NicId, and only a GpuId can index a table of GPUs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace railyard {

template <class Tag>
class Index {
 public:
  constexpr Index() = default;
  constexpr explicit Index(std::uint32_t value) : value_(value) {}
  constexpr std::uint32_t value() const { return value_; }
  constexpr bool valid() const { return value_ != kNone; }
  constexpr bool operator==(Index o) const { return value_ == o.value_; }
  constexpr bool operator!=(Index o) const { return value_ != o.value_; }
  constexpr bool operator<(Index o) const { return value_ < o.value_; }

 private:
  static constexpr std::uint32_t kNone = 0xffffffffu;
  std::uint32_t value_ = kNone;
};

using GpuId = Index<struct GpuTag>;    ///< a GPU of the machine, over all groups and servers
using NicId = Index<struct NicTag>;    ///< a NIC of the machine
using PortId = Index<struct PortTag>;  ///< a port of one device

/// A std::vector that only its own index type can index.
template <class I, class T>
class Table {
 public:
  Table() = default;
  explicit Table(std::size_t size, const T& value = T()) : items_(size, value) {}
  T& operator[](I i) { return items_[i.value()]; }
  const T& operator[](I i) const { return items_[i.value()]; }
  I push_back(T item) {
    items_.push_back(std::move(item));
    return I(static_cast<std::uint32_t>(items_.size() - 1));
  }
  void resize(std::size_t size, const T& value = T()) { items_.resize(size, value); }
  std::size_t size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }
  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }

 private:
  std::vector<T> items_;
};

}  // namespace railyard

template <class Tag>
struct std::hash<railyard::Index<Tag>> {
  std::size_t operator()(railyard::Index<Tag> i) const noexcept { return i.value(); }
};
