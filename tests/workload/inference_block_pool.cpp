// The block pool: which block is taken, what is found, and what is forgotten.
#define BOOST_TEST_MODULE inference_block_pool
#include "workload/inference/kv/block_pool.h"

#include <boost/test/unit_test.hpp>
#include <list>
#include <random>
#include <vector>

using railyard::workload::inference::BlockPool;

namespace {

constexpr BlockPool::Content kA = 71, kB = 72;

}  // namespace

BOOST_AUTO_TEST_CASE(one_block_is_reserved) {
  BlockPool pool(4);
  BOOST_TEST(pool.total() == 3u);
  for (std::uint32_t left = 3; left > 0; --left) {
    BOOST_TEST(pool.free() == left);
    BOOST_TEST(pool.take() != BlockPool::kNone);
  }
  BOOST_TEST(pool.held() == 3u);
}

BOOST_AUTO_TEST_CASE(blocks_are_taken_in_the_order_of_their_release) {
  BlockPool pool(5);
  const BlockPool::Block a = pool.take(), b = pool.take(), c = pool.take(), d = pool.take();
  for (const BlockPool::Block block : {c, a, d, b}) pool.release(block);
  for (const BlockPool::Block block : {c, a, d, b}) BOOST_TEST(pool.take() == block);
}

BOOST_AUTO_TEST_CASE(a_released_block_is_found_until_it_is_taken) {
  BlockPool pool(3);
  const BlockPool::Block a = pool.take();
  pool.fill(a, kA);
  BOOST_TEST(pool.find(kA) == a);
  pool.release(a);
  BOOST_TEST(pool.find(kA) == a);
  BOOST_TEST(pool.free() == 2u);
  BOOST_TEST(pool.take() != a);  // the other block has been free for longer
  BOOST_TEST(pool.find(kA) == a);
  BOOST_TEST(pool.take() == a);
  BOOST_TEST(pool.find(kA) == BlockPool::kNone);
  pool.fill(a, kB);  // the block can have content again
  BOOST_TEST(pool.find(kA) == BlockPool::kNone);
  BOOST_TEST(pool.find(kB) == a);
}

BOOST_AUTO_TEST_CASE(a_shared_block_is_free_after_its_last_release) {
  BlockPool pool(3);
  const BlockPool::Block a = pool.take();
  pool.fill(a, kA);
  pool.share(a);
  pool.release(a);
  BOOST_TEST(pool.held() == 1u);
  pool.release(a);
  BOOST_TEST(pool.held() == 0u);
  pool.share(a);  // a free block of a prefix is held again, without being taken
  BOOST_TEST(pool.held() == 1u);
  BOOST_TEST(pool.references(a) == 1u);
  BOOST_TEST(pool.find(kA) == a);
  BOOST_TEST(pool.take() != a);
}

BOOST_AUTO_TEST_CASE(a_shared_block_is_released_to_the_end_of_the_free_blocks) {
  BlockPool pool(3);
  const BlockPool::Block a = pool.take(), b = pool.take();
  pool.fill(a, kA);
  pool.release(a);
  pool.release(b);
  pool.share(a);
  pool.release(a);
  BOOST_TEST(pool.take() == b);
  BOOST_TEST(pool.take() == a);
}

BOOST_AUTO_TEST_CASE(of_equal_blocks_the_first_that_was_filled_is_found) {
  BlockPool pool(4);
  const BlockPool::Block a = pool.take(), b = pool.take(), c = pool.take();
  for (const BlockPool::Block block : {b, a, c}) pool.fill(block, kA);
  BOOST_TEST(pool.find(kA) == b);
  pool.release(b);
  BOOST_TEST(pool.take() == b);
  BOOST_TEST(pool.find(kA) == a);
  pool.release(c);
  BOOST_TEST(pool.take() == c);
  BOOST_TEST(pool.find(kA) == a);
  pool.release(a);
  BOOST_TEST(pool.take() == a);
  BOOST_TEST(pool.find(kA) == BlockPool::kNone);
}

// Random actions against lists that are searched.
BOOST_AUTO_TEST_CASE(random_actions_agree_with_lists) {
  struct Block {
    BlockPool::Content content = 0;  // 0: none
    int references = 0;
    int turn = 0;  // in which it was filled
  };
  constexpr std::uint32_t kBlocks = 12;
  std::mt19937 random(1);
  BlockPool pool(kBlocks);
  std::vector<Block> blocks(kBlocks);
  std::list<std::uint32_t> free;
  for (std::uint32_t b = 1; b < kBlocks; ++b) free.push_back(b);
  const auto find = [&](BlockPool::Content content) {
    std::uint32_t found = BlockPool::kNone;
    for (std::uint32_t b = 1; b < kBlocks; ++b) {
      if (blocks[b].content == content && (found == BlockPool::kNone || blocks[b].turn < blocks[found].turn)) found = b;
    }
    return found;
  };
  for (int turn = 0; turn < 100'000; ++turn) {
    const BlockPool::Content content = 1 + random() % 6;
    const std::uint32_t any = 1 + random() % (kBlocks - 1);
    switch (random() % 4) {
      case 0:
        if (free.empty()) break;
        BOOST_TEST_REQUIRE(pool.take() == free.front());
        blocks[free.front()] = {0, 1, 0};
        free.pop_front();
        break;
      case 1:
        if (blocks[any].references == 0 || blocks[any].content != 0) break;
        pool.fill(any, content);
        blocks[any].content = content;
        blocks[any].turn = turn;
        break;
      case 2:
        if (blocks[any].references == 0) break;
        pool.release(any);
        if (--blocks[any].references == 0) free.push_back(any);
        break;
      case 3:
        const std::uint32_t found = find(content);
        if (found == BlockPool::kNone) break;
        pool.share(found);
        if (blocks[found].references++ == 0) free.remove(found);
        break;
    }
    BOOST_TEST_REQUIRE(pool.free() == free.size());
    BOOST_TEST_REQUIRE(pool.free() + pool.held() == pool.total());
    for (BlockPool::Content c = 1; c <= 6; ++c) BOOST_TEST_REQUIRE(pool.find(c) == find(c));
  }
}
