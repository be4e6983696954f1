#include "workload/parallel/mesh.h"

#include <algorithm>
#include <stdexcept>

namespace railyard::workload {

void Communicators::add(std::unique_ptr<Communicator> communicator, const std::vector<std::uint32_t>& ranks) {
  for (std::uint32_t member = 0; member < ranks.size(); ++member) {
    if (of_.size() <= ranks[member]) of_.resize(ranks[member] + 1);
    of_[ranks[member]] = {static_cast<std::uint32_t>(all_.size()), member};
  }
  all_.push_back(std::move(communicator));
}

Mesh::Mesh(std::vector<Rank*> ranks, const MeshSizes& sizes, const RankOrder& order, Copies copies)
    : ranks_(std::move(ranks)), sizes_(sizes), strides_(), order_(order), copies_(std::move(copies)) {
  std::uint32_t product = 1;
  for (const Dimension d : order) {
    strides_[static_cast<std::size_t>(d)] = product;
    product *= size(d);
  }
  if (product != ranks_.size()) throw std::logic_error("a mesh needs as many ranks as the product of its sizes");
}

std::vector<std::vector<std::uint32_t>> Mesh::groups(const std::vector<Dimension>& dimensions) const {
  std::vector<std::vector<std::uint32_t>> groups;
  for (std::uint32_t first = 0; first < size(); ++first) {
    if (std::any_of(dimensions.begin(), dimensions.end(), [&](Dimension d) { return coordinate(first, d) != 0; }))
      continue;
    std::vector<std::uint32_t> members{first};
    for (const Dimension d : dimensions) {
      const std::size_t before = members.size();
      for (std::uint32_t place = 1; place < size(d); ++place)
        for (std::size_t i = 0; i < before; ++i) members.push_back(moved(members[i], d, place));
    }
    std::sort(members.begin(), members.end());
    groups.push_back(std::move(members));
  }
  return groups;
}

std::vector<std::vector<std::uint32_t>> adjacent(const std::vector<std::vector<std::uint32_t>>& sets,
                                                 std::uint32_t size) {
  std::vector<std::vector<std::uint32_t>> parts;
  for (const std::vector<std::uint32_t>& set : sets)
    for (auto first = set.begin(); first != set.end(); first += size) parts.emplace_back(first, first + size);
  return parts;
}

std::vector<std::vector<std::uint32_t>> across(const std::vector<std::vector<std::uint32_t>>& sets,
                                               std::uint32_t size) {
  std::vector<std::vector<std::uint32_t>> parts;
  for (const std::vector<std::uint32_t>& set : sets)
    for (std::size_t place = 0; place < size; ++place) {
      parts.emplace_back();
      for (std::size_t i = place; i < set.size(); i += size) parts.back().push_back(set[i]);
    }
  return parts;
}

Communicators Mesh::connect(const std::vector<Dimension>& dimensions, std::size_t stream,
                            const collective::CollectiveRequest& request, transport::Fabric& fabric,
                            std::uint32_t apart) const {
  const std::vector<std::vector<std::uint32_t>> sets = across(groups(dimensions), apart);
  if (copies_.empty() || std::find(dimensions.begin(), dimensions.end(), Dimension::dp) == dimensions.end())
    return connect_sets(sets, stream, request, fabric);
  Communicators communicators;
  for (const std::vector<std::uint32_t>& group : sets) {
    std::vector<Rank*> members;
    for (const std::uint32_t rank : group) members.push_back(ranks_[rank]);
    communicators.add(std::make_unique<Communicator>(std::move(members), stream, with_copies(group), request, fabric),
                      group);
  }
  return communicators;
}

std::uint32_t Mesh::stands_for(std::uint32_t rank) const {
  if (running(copies_) == 1) return 1;
  return static_cast<std::uint32_t>(
      std::count(copies_.begin(), copies_.end(), coordinate(rank, Dimension::dp) / size_of_copy()));
}

std::vector<collective::FoldedMember> Mesh::with_copies(const std::vector<std::uint32_t>& ranks) const {
  const std::uint32_t of_copy = size_of_copy();
  const auto number = [&](const collective::FoldedMember& member) {  // in the whole mesh
    std::uint32_t number = 0, stride = 1;
    for (const Dimension d : order_) {
      std::uint32_t place = this->coordinate(ranks[member.gpu], d), whole = size(d);
      if (d == Dimension::dp) {
        place = member.copy * of_copy + place % of_copy;
        whole = static_cast<std::uint32_t>(copies_.size()) * of_copy;
      }
      number += place * stride;
      stride *= whole;
    }
    return number;
  };
  std::vector<std::pair<std::uint32_t, collective::FoldedMember>> all;
  for (std::uint32_t copy = 0; copy < copies_.size(); ++copy) {
    const bool exists = std::find(copies_.begin(), copies_.end(), copies_[copy]) - copies_.begin() == copy;
    std::uint32_t place = 0;
    for (std::uint32_t r = 0; r < ranks.size(); ++r) {
      if (this->coordinate(ranks[r], Dimension::dp) / of_copy != copies_[copy]) continue;
      const collective::FoldedMember member{r, copy, place++, exists};
      all.emplace_back(number(member), member);
    }
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<collective::FoldedMember> members;
  for (const auto& each : all) members.push_back(each.second);
  return members;
}

Communicators Mesh::connect_sets(const std::vector<std::vector<std::uint32_t>>& sets, std::size_t stream,
                                 const collective::CollectiveRequest& request, transport::Fabric& fabric) const {
  Communicators communicators;
  for (const std::vector<std::uint32_t>& group : sets) {
    std::vector<Rank*> members;
    for (const std::uint32_t rank : group) members.push_back(ranks_[rank]);
    communicators.add(std::make_unique<Communicator>(std::move(members), stream, request, fabric), group);
  }
  return communicators;
}

}  // namespace railyard::workload
