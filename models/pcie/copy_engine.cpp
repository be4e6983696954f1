#include "pcie/copy_engine.h"

#include "pcie/host_memory.h"

namespace railyard::pcie {

void CopyEngine::pass(const Chunk& chunk) {
  chunks_.push_back(chunk);
  if (chunks_.size() == 1) chunk.memory->begin(chunk);
}

void CopyEngine::passed() {
  chunks_.pop_front();
  if (!chunks_.empty()) chunks_.front().memory->begin(chunks_.front());
}

}  // namespace railyard::pcie
