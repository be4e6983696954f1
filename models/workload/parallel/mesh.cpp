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

Mesh::Mesh(std::vector<Rank*> ranks, const MeshSizes& sizes, const RankOrder& order)
    : ranks_(std::move(ranks)), sizes_(sizes), strides_() {
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
    if (std::any_of(dimensions.begin(), dimensions.end(), [&](Dimension d) { return place(first, d) != 0; })) continue;
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
                            const collective::CollectiveRequest& request, transport::Fabric& fabric) const {
  return connect_sets(groups(dimensions), stream, request, fabric);
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
