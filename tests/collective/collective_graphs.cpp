// Every algorithm's graph on ideal links: closed forms, the bytes it moves, and what a slower link or a longer hop does to it.
#include <functional>

#include "tests/support/collective_star.h"
#include "tests/support/systemc_main.h"

using namespace railyard;
using collective::Algorithm;
using collective::CollectiveSpec;
using collective::Operation;
using test::collective_of;
using test::CollectiveStar;
using test::gb;
using test::ideal;

namespace {

const Time kHop = Time::ns(300);
const Time kAlpha = kHop * 2;
constexpr Bytes kBytes = 960'000;

struct Link {
  std::uint64_t gb_per_s = 50;
  Time hop = kHop;
  transport::LinkDirection direction() const { return ideal(gb(gb_per_s), hop); }
  Time line(Bytes bytes) const { return gb(gb_per_s).time_for(bytes); }
  Time alpha() const { return hop * 2; }
};

Time run(const CollectiveSpec& spec, std::uint32_t members, const Link& link, std::uint32_t servers = 1,
         Bytes cut = 1000) {
  CollectiveStar star(members, link.direction(), cut, servers);
  return star.run_once(spec);
}

CollectiveSpec chunked(Operation operation, Algorithm algorithm, Bytes chunk, std::uint32_t channels = 1) {
  CollectiveSpec spec = collective_of(operation, algorithm, kBytes);
  spec.chunk_bytes = chunk;
  spec.channels = channels;
  return spec;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_chain_goes_up_and_down_once) {
  for (const std::uint32_t n : {2u, 4u, 8u}) {
    const Link link;
    const Time took = run(collective_of(Operation::all_reduce, Algorithm::tree, kBytes), n, link);
    BOOST_TEST(took.fs() == ((link.line(kBytes) + link.alpha()) * (2 * (n - 1))).fs());
  }
}

BOOST_AUTO_TEST_CASE(chunks_overlap_on_a_chain_of_two) {
  // One direction of each link carries the reduction, the other the result: the second starts one chunk later.
  const Link link;
  constexpr std::uint32_t kChunks = 8;
  const Time took = run(chunked(Operation::all_reduce, Algorithm::tree, kBytes / kChunks), 2, link);
  BOOST_TEST(took.fs() == (link.line(kBytes) + link.line(kBytes / kChunks) + link.alpha() * 2).fs());
}

BOOST_AUTO_TEST_CASE(two_children_share_their_parents_link) {
  // Four servers of one: 1 and 3 hang below 2, which hangs below 0.
  const Link link;
  for (const Bytes cut : {500, 1000, 4000}) {
    const Time took = run(collective_of(Operation::all_reduce, Algorithm::tree, kBytes), 4, link, 4, cut);
    const Time expected = link.line(kBytes) * 6 + link.alpha() * 4;
    BOOST_TEST((took <= expected));
    BOOST_TEST((took + link.line(cut) * 4 >= expected));
  }
}

BOOST_AUTO_TEST_CASE(no_server_is_inside_of_both_trees) {
  for (const std::uint32_t n : {2u, 3u, 4u, 5u, 6u, 7u, 8u, 16u, 31u, 64u}) {
    const auto a = collective::BinaryTree::of(n, 0), b = collective::BinaryTree::of(n, 1);
    std::uint32_t roots = 0;
    for (std::uint32_t s = 0; s < n; ++s) {
      BOOST_TEST(a.children[s].size() <= 2u);
      BOOST_TEST(b.children[s].size() <= 2u);
      if (n > 2) BOOST_TEST((a.children[s].size() < 2 || b.children[s].size() < 2), n << " servers, " << s);
      for (const auto* tree : {&a, &b}) {
        if (tree->parent[s] == collective::BinaryTree::kNone) ++roots;
        std::uint32_t depth = 0;
        for (std::uint32_t up = s; tree->parent[up] != collective::BinaryTree::kNone; up = tree->parent[up])
          BOOST_TEST_REQUIRE(++depth <= 7u);
      }
    }
    BOOST_TEST(roots == 2u);
  }
}

BOOST_AUTO_TEST_CASE(one_shot_and_direct_exchanges_take_one_latency) {
  for (const std::uint32_t n : {2u, 4u, 8u}) {
    const Link link;
    const Time shot = run(collective_of(Operation::all_reduce, Algorithm::one_shot, kBytes), n, link);
    BOOST_TEST(shot.fs() == (link.line(kBytes * (n - 1)) + link.alpha()).fs());
    const Time exchanged = run(collective_of(Operation::all_to_all, Algorithm::direct, kBytes), n, link);
    BOOST_TEST(exchanged.fs() == (link.line(kBytes / n * (n - 1)) + link.alpha()).fs());
    const Time sent = run(collective_of(Operation::send_recv, Algorithm::direct, kBytes), n, link);
    BOOST_TEST(sent.fs() == (link.line(kBytes) + link.alpha()).fs());
  }
}

BOOST_AUTO_TEST_CASE(barriers_are_flags_that_everybody_waits_for) {
  constexpr std::uint32_t n = 4;
  const Link link;
  CollectiveSpec spec = collective_of(Operation::all_reduce, Algorithm::one_shot, kBytes);
  const Time without = run(spec, n, link);
  spec.barriers_before = spec.barriers_after = 1;
  const Time flags = link.line(collective::kFlagBytes * (n - 1)) + link.alpha();
  BOOST_TEST(run(spec, n, link).fs() == (without + flags * 2).fs());
}

BOOST_AUTO_TEST_CASE(a_broadcast_and_a_reduce_go_down_the_ring_in_pieces) {
  for (const Operation operation : {Operation::broadcast, Operation::reduce}) {
    for (const std::uint32_t n : {2u, 4u, 8u}) {
      for (const std::uint32_t root : {0u, n - 1}) {
        const Link link;
        constexpr std::uint32_t kPieces = 8;
        CollectiveSpec spec = chunked(operation, Algorithm::ring, kBytes / kPieces);
        spec.root = root;
        const Time piece = link.line(kBytes / kPieces);
        BOOST_TEST(run(spec, n, link).fs() == (piece * (kPieces + n - 2) + link.alpha() * (n - 1)).fs());
      }
    }
  }
}

// The root of a broadcast receives nothing, the root of a reduce sends nothing; all others pass on what they get.
BOOST_AUTO_TEST_CASE(a_chain_begins_or_ends_at_its_root) {
  constexpr std::uint32_t n = 4, kRoot = 2;
  collective::Group group;
  group.members.resize(n);
  for (const Operation operation : {Operation::broadcast, Operation::reduce}) {
    CollectiveSpec spec = chunked(operation, Algorithm::ring, kBytes);
    spec.root = kRoot;
    const auto program = make_program(spec, group);
    for (std::uint32_t member = 0; member < n; ++member) {
      collective::Action action;
      program->describe(member, 0, 0, action);
      const bool sends = operation == Operation::broadcast ? member != (kRoot + n - 1) % n : member != kRoot;
      const bool receives = operation == Operation::broadcast ? member != kRoot : member != (kRoot + 1) % n;
      BOOST_TEST(action.transfers.size() == (sends ? 1u : 0u));
      BOOST_TEST(action.lanes == (receives ? 1u : 0u));
      if (sends) BOOST_TEST(action.transfers[0].to == (member + 1) % n);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_broadcast_pays_a_step_once_a_chunk) {
  constexpr std::uint32_t n = 4, kPieces = 8;
  const Link link;
  const Time step = Time::us(5);  // a piece takes 2.4 us, so that a step for each would show
  for (const std::uint32_t chunks : {1u, 2u}) {
    CollectiveSpec spec = chunked(Operation::broadcast, Algorithm::ring, kBytes / chunks);
    spec.slices = kPieces / chunks;
    const Time without = run(spec, n, link);
    spec.cost.step = step;
    BOOST_TEST(run(spec, n, link).fs() == (without + step * (n - 1)).fs());  // each sender's first one
  }
}

BOOST_AUTO_TEST_CASE(hierarchical_is_its_three_parts) {
  // Two servers of four: shards of S/4, halves of them around the rail's ring of two, shards back.
  const Link link;
  const Time took = run(collective_of(Operation::all_reduce, Algorithm::hierarchical, kBytes), 8, link, 2);
  const Time inside = link.line(kBytes / 4 * 3) + link.alpha();
  const Time rail = (link.line(kBytes / 8) + link.alpha()) * 2;
  BOOST_TEST(took.fs() == (inside * 2 + rail).fs());
}

BOOST_AUTO_TEST_CASE(in_switch_all_reduce_moves_the_vector_and_an_nth) {
  for (const std::uint32_t n : {2u, 4u, 8u}) {
    const Link link;
    CollectiveStar star(n, link.direction(), 1000);
    const Time took = star.run_once(chunked(Operation::all_reduce, Algorithm::nvls, kBytes / n / 16));
    for (std::uint32_t m = 0; m < n; ++m) {
      const Bytes flags = 16 * (n - 1) * collective::kFlagBytes;
      BOOST_TEST(star.sent(m) == kBytes + kBytes / n + flags);
      BOOST_TEST(star.received(m) == kBytes + kBytes / n + flags);
    }
    const Time line = link.line(kBytes + kBytes / n);
    BOOST_TEST((took >= line));
    BOOST_TEST(took.seconds() == line.seconds(),
               boost::test_tools::tolerance(0.25));  // sixteen chunks, the first and last alone
  }
}

BOOST_AUTO_TEST_CASE(registered_vectors_cross_once_without_copies) {
  // A gather: members store their part once, and get all parts. A scatter: the switch reads all of each vector for sums, of which
  // members get their part.
  for (const Operation operation : {Operation::all_gather, Operation::reduce_scatter}) {
    const bool gathers = operation == Operation::all_gather;
    for (const std::uint32_t n : {2u, 4u, 8u}) {
      const Link link;
      CollectiveSpec spec = chunked(operation, Algorithm::nvls, kBytes / n / 16);
      spec.registered = true;
      CollectiveStar star(n, link.direction(), 1000);
      const Time took = star.run_once(spec);
      const Bytes flags = gathers ? 0 : (n - 1) * collective::kFlagBytes;  // once, not for each chunk
      for (std::uint32_t m = 0; m < n; ++m) {
        BOOST_TEST(star.sent(m) == (gathers ? kBytes / n : kBytes) + flags);
        BOOST_TEST(star.received(m) == (gathers ? kBytes : kBytes / n) + flags);
      }
      BOOST_TEST((took >= link.line(kBytes)));
      BOOST_TEST(took.seconds() == link.line(kBytes).seconds(), boost::test_tools::tolerance(0.15));
      // Few CTAs: a member's part at their rate.
      spec.cost.channel_rate = gb(1);
      spec.channels = 2;
      CollectiveStar few(n, link.direction(), 1000);
      BOOST_TEST(few.run_once(spec).seconds() == gb(2).time_for(kBytes / n).seconds(),
                 boost::test_tools::tolerance(0.15));
    }
  }
}

BOOST_AUTO_TEST_CASE(every_byte_that_an_algorithm_needs_crosses_the_links) {
  struct Case {
    Operation operation;
    Algorithm algorithm;
    std::uint32_t servers;
    Bytes all_sent;
  };
  constexpr std::uint32_t n = 8;
  const std::vector<Case> cases{
      {Operation::all_reduce, Algorithm::ring, 1, 2 * (n - 1) * kBytes},
      {Operation::all_reduce, Algorithm::ring, 2, 2 * (n - 1) * kBytes},
      {Operation::all_reduce, Algorithm::tree, 1, 2 * (n - 1) * kBytes},
      {Operation::all_reduce, Algorithm::tree, 4, 2 * (n - 1) * kBytes},
      {Operation::all_reduce, Algorithm::hierarchical, 2, 2 * (n - 1) * kBytes},
      {Operation::reduce_scatter, Algorithm::ring, 1, (n - 1) * kBytes},
      {Operation::all_to_all, Algorithm::direct, 2, (n - 1) * kBytes},
      // Three of four parts for the other server cross a neighbour first.
      {Operation::all_to_all, Algorithm::pxn, 2, (n - 1) * kBytes + n * (kBytes / n) * 3},
  };
  for (const Case& c : cases) {
    for (const std::uint32_t channels : {1u, 4u, 5u}) {
      CollectiveStar star(n, Link().direction(), 4000, c.servers);
      CollectiveSpec spec = collective_of(c.operation, c.algorithm, kBytes, 2);
      spec.channels = channels;
      spec.chunk_bytes = 50'000;
      spec.slots = 8;
      BOOST_TEST_REQUIRE(collective::unsupported(spec, star.group()) == nullptr);
      star.run_once(spec);
      Bytes sent = 0, received = 0;
      for (std::uint32_t m = 0; m < n; ++m) {
        sent += star.sent(m);
        received += star.received(m);
      }
      BOOST_TEST(sent == c.all_sent, name_of(c.algorithm) << " over " << c.servers << " servers");
      BOOST_TEST(received == c.all_sent);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_longer_hop_and_a_slower_link_change_each_algorithm_as_its_graph_says) {
  struct Case {
    Operation operation;
    Algorithm algorithm;
    std::uint64_t latencies;
  };
  constexpr std::uint32_t n = 4;
  for (const Case& c :
       {Case{Operation::all_reduce, Algorithm::ring, 2 * (n - 1)}, Case{Operation::all_gather, Algorithm::ring, n - 1},
        Case{Operation::all_reduce, Algorithm::tree, 2 * (n - 1)}, Case{Operation::all_reduce, Algorithm::one_shot, 1},
        Case{Operation::all_reduce, Algorithm::two_shot, 2}, Case{Operation::all_to_all, Algorithm::direct, 1}}) {
    const CollectiveSpec spec = collective_of(c.operation, c.algorithm, kBytes);
    Link link, longer, slower;
    longer.hop = kHop + Time::ns(500);
    slower.gb_per_s /= 2;
    const Time base = run(spec, n, link);
    BOOST_TEST(run(spec, n, longer).fs() == (base + Time::ns(1000) * c.latencies).fs());
    const Time bytes = base - kAlpha * c.latencies;
    BOOST_TEST(run(spec, n, slower).fs() == (base + bytes).fs());
  }
}

BOOST_AUTO_TEST_CASE(slots_hold_a_sender_back) {
  // A receiver that takes 2 us for each chunk of 1 us: with one slot the sender waits for it, as at a small window.
  const Link link;
  constexpr std::uint32_t kChunks = 20;
  CollectiveSpec spec = chunked(Operation::send_recv, Algorithm::direct, kBytes / kChunks);
  spec.cost.step = Time::us(2);
  spec.slots = 1;
  const Time one = run(spec, 2, link);
  const Time chunk = link.line(kBytes / kChunks);
  // Sender's step, line and latency, receiver's step, and the slot is free again.
  BOOST_TEST(one.fs() == ((spec.cost.step * 2 + chunk + link.alpha()) * kChunks).fs());
  spec.slots = 8;
  BOOST_TEST((run(spec, 2, link) < one));
}

BOOST_AUTO_TEST_CASE(channels_write_at_their_rate_and_hold_their_ctas) {
  const Link link;
  CollectiveSpec spec = collective_of(Operation::all_gather, Algorithm::ring, 2 * kBytes);
  spec.channels = 2;
  spec.cost.channel_rate = gb(10);
  // Two channels of 10 GB/s on a link of 50: the chunk goes and is copied at 20.
  const Time chunk = gb(20).time_for(kBytes);
  BOOST_TEST(run(spec, 2, link).fs() == (chunk * 2 + link.alpha()).fs());
  spec.cost.channel_rate = gb(400);
  BOOST_TEST(run(spec, 2, link).fs() == (link.line(kBytes) + link.alpha() + gb(800).time_for(kBytes)).fs());
}

BOOST_AUTO_TEST_CASE(a_longer_vector_takes_no_less_time) {
  // Chunks keep their size, and the last one is short: a byte more does not refill the pipeline with smaller chunks.
  struct Graph {
    Operation operation;
    Algorithm algorithm;
    std::uint32_t servers = 1;
  };
  constexpr Bytes kChunk = 64'000;
  for (const Graph& graph :
       {Graph{Operation::broadcast, Algorithm::ring}, Graph{Operation::reduce, Algorithm::ring},
        Graph{Operation::all_reduce, Algorithm::ring}, Graph{Operation::all_gather, Algorithm::ring},
        Graph{Operation::all_reduce, Algorithm::tree, 2}, Graph{Operation::broadcast, Algorithm::tree},
        Graph{Operation::all_reduce, Algorithm::nvls}, Graph{Operation::all_reduce, Algorithm::nvls_tree, 2},
        Graph{Operation::all_reduce, Algorithm::hierarchical, 2}, Graph{Operation::all_to_all, Algorithm::direct},
        Graph{Operation::send_recv, Algorithm::direct}}) {
    Time before;
    for (Bytes chunks = 1; chunks <= 3; ++chunks) {
      for (const Bytes more : {0, 8, 8000}) {
        CollectiveSpec spec = chunked(graph.operation, graph.algorithm, kChunk, 2);
        spec.bytes = 16 * kChunk * chunks + more;
        spec.slots = 8;
        spec.cost.step = Time::us(1);
        const Time took = run(spec, 8, Link(), graph.servers, 0);
        // Trees of two servers meet on links, in another order with another last chunk.
        BOOST_TEST(took.seconds() >= before.seconds() * 0.99,
                   name_of(graph.operation) << ' ' << name_of(graph.algorithm) << ' ' << spec.bytes);
        before = took;
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(an_in_switch_all_reduce_has_32_heads) {
  // Heads alone read sums and send them to all: of 36 members, the last four send nothing but flags.
  CollectiveStar star(36, Link().direction(), 0);
  CollectiveSpec spec = chunked(Operation::all_reduce, Algorithm::nvls, 4000);
  spec.bytes = 32 * 36 * 1000;
  star.run_once(spec);
  const Bytes flags = 32 * collective::kFlagBytes * 9;
  BOOST_TEST(star.sent(35) == spec.bytes + flags);                                // operands
  BOOST_TEST(star.sent(0) == spec.bytes + spec.bytes / 32 + flags - flags / 32);  // and the sums of its own slice
}
