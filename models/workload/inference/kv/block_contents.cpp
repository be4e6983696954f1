#include "workload/inference/kv/block_contents.h"

#include <algorithm>

#include "base/random.h"

namespace railyard::workload::inference {

namespace {

constexpr std::uint64_t kShared = 1, kOwn = 2;  // first value of a block's content

/// Of ids that stand for different numbers of tokens. If all stand for as many, the same as if block_tokens said it.
BlockPool::Content content_of_unequal(const RequestContent& content, BlockPool::Content before, std::uint64_t begin,
                                      std::uint64_t end) {
  const auto& ends = content.ends;
  auto i = static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), begin) - ends.begin());
  std::uint64_t at = i == 0 ? 0 : ends[i - 1];
  std::uint64_t value = mixed(mixed(before, kShared), begin - at);
  for (at = begin; at < end; at = ends[i++]) value = mixed(value, content.ids[i]);
  return value;
}

}  // namespace

std::uint64_t known_blocks(const RequestContent& content, std::uint64_t prompt_tokens, std::uint32_t block_tokens) {
  const std::uint64_t grain = content.block_tokens;
  // An id of several tokens at the prompt's end may stand for more tokens than the prompt has; the other tokens of the block
  // are of the answer.
  const std::uint64_t tokens = grain == 0   ? content.described()
                               : grain == 1 ? content.ids.size()
                                            : std::min<std::uint64_t>(prompt_tokens, content.ids.size() * grain);
  return tokens / block_tokens;
}

BlockPool::Content known_content(const RequestContent& content, BlockPool::Content before, std::uint64_t block,
                                 std::uint32_t block_tokens) {
  const std::uint64_t begin = block * block_tokens, end = begin + block_tokens, grain = content.block_tokens;
  if (grain == 0) return content_of_unequal(content, before, begin, end);
  std::uint64_t value = mixed(mixed(before, kShared), begin % grain);
  for (std::uint64_t i = begin / grain; i * grain < end; ++i) value = mixed(value, content.ids[i]);
  return value;
}

BlockPool::Content own_content(BlockPool::Content before, std::uint32_t request) {
  return mixed(mixed(before, kOwn), request);
}

std::vector<BlockPool::Content> known_contents(const RequestContent& content, std::uint64_t prompt_tokens,
                                               std::uint32_t block_tokens) {
  std::vector<BlockPool::Content> all(known_blocks(content, prompt_tokens, block_tokens));
  for (std::uint64_t i = 0; i < all.size(); ++i)
    all[i] = known_content(content, i == 0 ? 0 : all[i - 1], i, block_tokens);
  return all;
}

}  // namespace railyard::workload::inference
