#include "workload/parallel/mesh.h"

#include <stdexcept>

namespace railyard::workload {

Mesh::Mesh(std::vector<Rank*> ranks, const Sizes& sizes) : ranks_(std::move(ranks)), sizes_(sizes) {
  std::size_t product = 1;
  for (const std::uint32_t size : sizes) product *= size;
  if (product != ranks_.size()) throw std::logic_error("a mesh needs as many ranks as the product of its sizes");
}

std::uint32_t Mesh::stride(Dimension d) const {
  std::uint32_t stride = 1;
  for (std::size_t lower = 0; lower < static_cast<std::size_t>(d); ++lower) stride *= sizes_[lower];
  return stride;
}

void Mesh::connect(Dimension d, std::size_t stream, const collective::Request& request, transport::Fabric& fabric) {
  std::vector<std::unique_ptr<Communicator>>& communicators = communicators_[static_cast<std::size_t>(d)];
  for (std::uint32_t first = 0; first < size(); ++first) {
    if (place(first, d) != 0) continue;
    std::vector<Rank*> members;
    for (std::uint32_t i = 0; i < size(d); ++i) members.push_back(ranks_[moved(first, d, i)]);
    communicators.push_back(std::make_unique<Communicator>(std::move(members), stream, request, fabric));
  }
}

}  // namespace railyard::workload
