// Ranks of a mesh: their numbers, their places, and the communicators of each dimension.
#include "tests/support/job_bench.h"
#include "tests/support/systemc_main.h"
#include "workload/parallel/mesh.h"

#include <set>

using namespace railyard;
using namespace railyard::test;
using workload::Communicators;
using workload::Dimension;
using workload::Mesh;
using workload::RankOrder;

namespace {

constexpr std::array<Dimension, 6> kAll{Dimension::tp, Dimension::gtp, Dimension::cp,
                                        Dimension::ep, Dimension::dp,  Dimension::pp};

/// Ranks 0 to n-1, for numbers only.
std::vector<Rank*> numbered(std::deque<Rank>& storage, std::uint32_t n) {
  std::vector<Rank*> ranks;
  for (std::uint32_t r = 0; r < n; ++r) ranks.push_back(&storage.emplace_back("rank", r, "", std::nullopt));
  return ranks;
}

}  // namespace

BOOST_AUTO_TEST_CASE(ranks_are_numbered_as_megatron_numbers_them) {
  // Megatron-LM, order tp-cp-ep-dp-pp, TP 2, DP 3, PP 2: the tensor-parallel groups are pairs of neighbours, the data-parallel
  // groups take every second rank of a stage, the pipelines every sixth rank.
  std::deque<Rank> storage;
  const Mesh mesh(numbered(storage, 12), {2, 1, 1, 3, 2, 1});
  const auto group = [&](std::uint32_t rank, Dimension d) {
    std::vector<std::uint32_t> members;
    for (std::uint32_t place = 0; place < mesh.size(d); ++place) members.push_back(mesh.moved(rank, d, place));
    return members;
  };
  BOOST_TEST((group(9, Dimension::tp) == std::vector<std::uint32_t>{8, 9}));
  BOOST_TEST((group(9, Dimension::dp) == std::vector<std::uint32_t>{7, 9, 11}));
  BOOST_TEST((group(9, Dimension::pp) == std::vector<std::uint32_t>{3, 9}));
  BOOST_TEST((group(9, Dimension::ep) == std::vector<std::uint32_t>{9}));
}

BOOST_AUTO_TEST_CASE(places_in_all_dimensions_tell_every_rank_apart) {
  std::deque<Rank> storage;
  const Mesh mesh(numbered(storage, 2 * 3 * 2 * 3 * 2 * 2), {2, 3, 2, 3, 2, 2});
  std::set<std::vector<std::uint32_t>> places;
  for (std::uint32_t r = 0; r < mesh.size(); ++r) {
    std::vector<std::uint32_t> place;
    for (const Dimension d : kAll) {
      place.push_back(mesh.coordinate(r, d));
      BOOST_TEST(mesh.moved(r, d, mesh.coordinate(r, d)) == r);
    }
    places.insert(place);
  }
  BOOST_TEST(places.size() == mesh.size());
}

BOOST_AUTO_TEST_CASE(every_rank_is_in_one_communicator_of_each_dimension) {
  JobBench b;
  const Mesh mesh(b.ranks, {2, 1, 1, 2, 1, 1});
  for (const Dimension d : {Dimension::tp, Dimension::dp}) {
    const Communicators groups = mesh.connect({d}, JobBench::kComm, {}, b.fabric);
    BOOST_TEST(groups.all().size() == 2u);
    for (std::uint32_t r = 0; r < mesh.size(); ++r) {
      BOOST_TEST(groups.of(r).size() == 2u);
      BOOST_TEST(groups.member(r) == mesh.coordinate(r, d));
      BOOST_TEST((&groups.of(r).rank(mesh.coordinate(r, d)) == b.ranks[r]));
    }
  }
  BOOST_CHECK_THROW(Mesh(b.ranks, {3, 1, 1, 1, 1, 1}), std::logic_error);
}

BOOST_AUTO_TEST_CASE(an_order_of_ranks_puts_its_first_dimension_on_adjacent_ranks) {
  std::deque<Rank> storage;
  const RankOrder order{Dimension::tp, Dimension::gtp, Dimension::pp, Dimension::dp, Dimension::cp, Dimension::ep};
  const Mesh mesh(numbered(storage, 2 * 3 * 2), {2, 1, 1, 3, 2, 1}, order);
  for (std::uint32_t r = 0; r < mesh.size(); ++r) {
    BOOST_TEST(mesh.coordinate(r, Dimension::tp) == r % 2);
    BOOST_TEST(mesh.coordinate(r, Dimension::pp) == r / 2 % 2);
    BOOST_TEST(mesh.coordinate(r, Dimension::dp) == r / 4);
  }
}

BOOST_AUTO_TEST_CASE(groups_of_two_dimensions_have_all_ranks_that_differ_only_there) {
  std::deque<Rank> storage;
  const Mesh mesh(numbered(storage, 2 * 2 * 3), {2, 2, 1, 3, 1, 1});
  const auto groups = mesh.groups({Dimension::dp, Dimension::cp});
  BOOST_TEST(groups.size() == 2u);
  for (std::uint32_t g = 0; g < groups.size(); ++g) {
    BOOST_TEST(groups[g].size() == 6u);
    for (std::uint32_t i = 0; i < groups[g].size(); ++i) BOOST_TEST(groups[g][i] == 2 * i + g);
  }
}

BOOST_AUTO_TEST_CASE(ranks_that_divide_weights_are_next_to_tensor_parallel_ranks) {
  std::deque<Rank> storage;
  const Mesh mesh(numbered(storage, 2 * 4 * 3), {2, 1, 1, 3, 1, 4});
  for (std::uint32_t r = 0; r < mesh.size(); ++r) {
    BOOST_TEST(mesh.coordinate(r, Dimension::tp) == r % 2);
    BOOST_TEST(mesh.coordinate(r, Dimension::gtp) == r / 2 % 4);
    BOOST_TEST(mesh.coordinate(r, Dimension::dp) == r / 8);
  }
  BOOST_TEST((mesh.groups({Dimension::gtp})[1] == std::vector<std::uint32_t>{1, 3, 5, 7}));
}
