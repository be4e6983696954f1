// What identifies the content of a block of KV cache: the tokens in it and all tokens before it, as one number. An engine's prefix
// index and a router that follows it name blocks by the same numbers. Plain C++; no SystemC.
#pragma once

#include <cstdint>
#include <vector>

#include "workload/inference/kv/block_pool.h"
#include "workload/inference/requests/request.h"

namespace railyard::workload::inference {

/// Full blocks from the prompt's beginning whose tokens `content` gives.
/// @param block_tokens  of the KV cache
std::uint64_t known_blocks(const RequestContent& content, std::uint64_t prompt_tokens, std::uint32_t block_tokens);

/// @param before  content of the block before it; 0 for the first block
/// @param block   its number, below known_blocks()
BlockPool::Content known_content(const RequestContent& content, BlockPool::Content before, std::uint64_t block,
                                 std::uint32_t block_tokens);
/// Of a block that has tokens which nobody else knows.
BlockPool::Content own_content(BlockPool::Content before, std::uint32_t request);

/// Of all known blocks.
std::vector<BlockPool::Content> known_contents(const RequestContent& content, std::uint64_t prompt_tokens,
                                               std::uint32_t block_tokens);

}  // namespace railyard::workload::inference
