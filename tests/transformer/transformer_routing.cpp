// Shares of experts, and of the expert-parallel ranks that hold them.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/support/systemc_main.h"
#include "transformer/routing.h"

using namespace railyard::transformer;

namespace {

std::vector<double> sorted(std::vector<double> shares) {
  std::sort(shares.rbegin(), shares.rend());
  return shares;
}

double sum(const std::vector<double>& shares) { return std::accumulate(shares.begin(), shares.end(), 0.0); }

}  // namespace

BOOST_AUTO_TEST_CASE(without_skew_all_experts_have_the_same_share) {
  for (const double share : expert_shares({0, 3}, 8, 2, 5))
    BOOST_TEST(share == 1.0 / 8, boost::test_tools::tolerance(1e-12));
  const auto loads = rank_loads(expert_shares({0, 3}, 8, 2, 5), 4);
  for (const RankLoad& load : loads) BOOST_TEST(load.of(12345) == 12345u);
}

BOOST_AUTO_TEST_CASE(shares_follow_zipf) {
  const std::vector<double> shares = sorted(expert_shares({0.5, 0}, 64, 1, 0));
  for (std::size_t i = 0; i < shares.size(); ++i)
    BOOST_TEST(shares[i] / shares[0] == std::pow(i + 1, -0.5), boost::test_tools::tolerance(1e-9));
  BOOST_TEST(sum(shares) == 1, boost::test_tools::tolerance(1e-12));
}

BOOST_AUTO_TEST_CASE(a_token_goes_to_an_expert_once) {
  for (const double skew : {0.0, 0.5, 1.0, 2.0, 10.0})
    for (const std::uint32_t k : {1u, 2u, 6u, 8u}) {
      const std::vector<double> shares = sorted(expert_shares({skew, 0}, 8, k, 0));
      BOOST_TEST(shares[0] <= 1.0 / k + 1e-12);
      BOOST_TEST(sum(shares) == 1, boost::test_tools::tolerance(1e-9));
    }
  // With k of 2 and a steep law, two experts get all but a few of the copies.
  const std::vector<double> steep = sorted(expert_shares({10, 0}, 8, 2, 0));
  BOOST_TEST(steep[0] == 0.5, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(steep[1] > 0.49);
}

BOOST_AUTO_TEST_CASE(layers_and_seeds_have_orders_of_their_own) {
  const Routing routing{1, 7};
  const std::vector<double> first = expert_shares(routing, 16, 2, 0), second = expert_shares(routing, 16, 2, 1);
  BOOST_TEST((first == expert_shares(routing, 16, 2, 0)));
  BOOST_TEST((first != second));
  BOOST_TEST((first != expert_shares({1, 8}, 16, 2, 0)));
  BOOST_TEST((sorted(first) == sorted(second)));
}

BOOST_AUTO_TEST_CASE(ranks_get_the_copies_of_their_experts) {
  const std::vector<double> shares = expert_shares({1, 0}, 16, 2, 0);
  constexpr std::uint32_t kRanks = 4;
  constexpr std::uint64_t kCopies = 1'000'000;
  std::uint64_t all = 0;
  const auto loads = rank_loads(shares, kRanks);
  for (std::uint32_t r = 0; r < kRanks; ++r) {
    const double share = shares[4 * r] + shares[4 * r + 1] + shares[4 * r + 2] + shares[4 * r + 3];
    BOOST_TEST(static_cast<double>(loads[r].of(kCopies)) == share * kRanks * kCopies,
               boost::test_tools::tolerance(1e-5));
    all += loads[r].of(kCopies);
  }
  BOOST_TEST(static_cast<double>(all) == 1.0 * kRanks * kCopies, boost::test_tools::tolerance(1e-5));
}

BOOST_AUTO_TEST_CASE(places_of_experts_follow_their_loads) {
  const auto exact = boost::test_tools::tolerance(1e-12);
  // 256 experts and 32 more places on 16 ranks: 14 whole experts and 4 halves on each.
  for (const double share : balanced_shares(std::vector<double>(256, 1.0 / 256), 32, 16))
    BOOST_TEST(share == 1.0 / 16, exact);
  // The heaviest goes with the lightest.
  for (const double share :
       balanced_shares({8 / 36.0, 7 / 36.0, 6 / 36.0, 5 / 36.0, 4 / 36.0, 3 / 36.0, 2 / 36.0, 1 / 36.0}, 0, 4))
    BOOST_TEST(share == 9 / 36.0, exact);
  // Ten twelfths, in two places.
  for (const double share : balanced_shares({10 / 12.0, 1 / 12.0, 1 / 12.0}, 1, 2)) BOOST_TEST(share == 0.5, exact);
  // Each rank has room for two places: 0.5 alone would be more even.
  BOOST_TEST((balanced_shares({0.5, 0.25, 0.125, 0.125}, 0, 2) == std::vector<double>{0.625, 0.375}));
}

BOOST_AUTO_TEST_CASE(copies_of_popular_experts_even_out_ranks) {
  for (const double skew : {0.3, 0.6, 1.0, 1.5})
    for (std::uint32_t layer = 0; layer < 8; ++layer) {
      const std::vector<double> experts = expert_shares({skew, 1}, 256, 8, layer);
      const auto fullest = [&](std::uint32_t copies) {
        const std::vector<double> ranks = balanced_shares(experts, copies, 32);
        BOOST_TEST(sum(ranks) == 1, boost::test_tools::tolerance(1e-9));
        return 32 * *std::max_element(ranks.begin(), ranks.end());
      };
      BOOST_TEST(fullest(0) >= 32 * *std::max_element(experts.begin(), experts.end()));
      BOOST_TEST(fullest(128) < 1.02);
    }
}

BOOST_AUTO_TEST_CASE(a_trace_gives_the_shares_of_a_layer) {
  Routing routing;
  routing.traced = std::make_shared<const std::map<std::uint32_t, std::vector<double>>>(
      std::map<std::uint32_t, std::vector<double>>{{1, {0.5, 0.25, 0.25, 0}}, {3, {0.25, 0.25, 0.25, 0.25}}});
  BOOST_TEST((expert_shares(routing, 4, 2, 1) == std::vector<double>{0.5, 0.25, 0.25, 0}));
  BOOST_TEST((expert_shares(routing, 4, 2, 3) == std::vector<double>(4, 0.25)));
}
