// DeepEP's kernels on ideal links, against their closed forms: bytes on each link, and times.
#include "collective/deepep.h"

#include "collective/program.h"
#include "tests/support/collective_star.h"
#include "tests/support/systemc_main.h"

using namespace railyard;
using collective::Algorithm;
using collective::CollectiveSpec;
using collective::Operation;
using collective::TokenExchange;
using test::CollectiveStar;
using test::gb;
using test::ideal;
using Leg = TokenExchange::Leg;

namespace {

constexpr std::uint64_t kRate = 50;  // GB/s
const Time kHop = Time::ns(300);

CollectiveSpec exchange(Leg leg, Bytes bytes, Bytes network_bytes) {
  CollectiveSpec spec = test::collective_of(Operation::all_to_all, Algorithm::direct, bytes);
  spec.tokens.leg = leg;
  spec.tokens.network_bytes = network_bytes;
  spec.channels = collective::kDeepEpSms;
  return spec;
}

}  // namespace

BOOST_AUTO_TEST_CASE(in_a_server_each_rank_gets_its_tokens_once) {
  constexpr std::uint32_t n = 8;
  constexpr Bytes kPart = 100'000;
  for (const Leg leg : {Leg::dispatch, Leg::combine}) {
    CollectiveStar star(n, ideal(gb(kRate), kHop), 1000);
    const Time took = star.run_once(exchange(leg, n * kPart, n * kPart));
    BOOST_TEST(took.fs() == (gb(kRate).time_for((n - 1) * kPart) + kHop * 2).fs());
    for (std::uint32_t m = 0; m < n; ++m) {
      BOOST_TEST(star.sent(m) == (n - 1) * kPart);
      BOOST_TEST(star.received(m) == (n - 1) * kPart);
    }
  }
}

BOOST_AUTO_TEST_CASE(between_servers_a_token_crosses_once_for_each_server) {
  // Each link carries what a member sends to other servers, and what it passes on to its own: of all servers' tokens.
  constexpr std::uint32_t kServers = 3, kLocal = 4, n = kServers * kLocal;
  constexpr Bytes kOfRank = 20'000, kOfServer = 50'000;
  for (const Leg leg : {Leg::dispatch, Leg::combine}) {
    CollectiveStar star(n, ideal(gb(kRate), kHop), 1000, kServers);
    CollectiveSpec spec = exchange(leg, n * kOfRank, kServers * kOfServer);
    const Time took = star.run_once(spec);
    const Bytes far = (kServers - 1) * kOfServer, near = (kLocal - 1) * kServers * kOfRank;
    for (std::uint32_t m = 0; m < n; ++m) {
      BOOST_TEST(star.sent(m) == far + near);
      BOOST_TEST(star.received(m) == far + near);
    }
    // Whole messages: a member passes on what it has.
    BOOST_TEST(took.fs() == (gb(kRate).time_for(far + near) + kHop * 4).fs());
    // In chunks, both hops run at the same time, and the link is always busy.
    CollectiveStar piecewise(n, ideal(gb(kRate), kHop), 1000, kServers);
    spec.chunk_bytes = 100;
    const Time short_took = piecewise.run_once(spec);
    BOOST_TEST(short_took.fs() >= gb(kRate).time_for(far + near).fs());
    BOOST_TEST(short_took.fs() < took.fs());
    for (std::uint32_t m = 0; m < n; ++m) BOOST_TEST(piecewise.sent(m) == far + near);
  }
}

BOOST_AUTO_TEST_CASE(the_rank_with_most_tokens_receives_and_sends_back_most) {
  constexpr std::uint32_t kServers = 2, kLocal = 2, n = kServers * kLocal;
  constexpr Bytes kBytes = 80'000, kNetwork = 60'000;
  CollectiveSpec spec = exchange(Leg::dispatch, kBytes, kNetwork);
  spec.shares.of = std::make_shared<const std::vector<std::uint32_t>>(std::vector<std::uint32_t>{4, 2, 1, 1});
  spec.tokens.of_servers = std::make_shared<const std::vector<std::uint32_t>>(std::vector<std::uint32_t>{2, 1});
  const std::vector<Bytes> of_member{40'000, 20'000, 10'000, 10'000}, of_server{40'000, 20'000};
  for (const Leg leg : {Leg::dispatch, Leg::combine}) {
    spec.tokens.leg = leg;
    CollectiveStar star(n, ideal(gb(kRate), kHop), 1000, kServers);
    const Time took = star.run_once(spec);
    for (std::uint32_t m = 0; m < n; ++m) {
      const std::uint32_t server = m / kLocal, neighbour = m ^ 1u;
      const Bytes to_experts = of_server[1 - server] + kServers * of_member[neighbour];  // sent by dispatch
      const Bytes at_experts = of_server[server] + kServers * of_member[m];              // received by dispatch
      BOOST_TEST(star.sent(m) == (leg == Leg::dispatch ? to_experts : at_experts));
      BOOST_TEST(star.received(m) == (leg == Leg::dispatch ? at_experts : to_experts));
      BOOST_TEST(took.fs() >= gb(kRate).time_for(at_experts).fs());
    }
  }
}

BOOST_AUTO_TEST_CASE(numbers_are_a_flag_to_each_rank_before_the_first_token) {
  constexpr std::uint32_t n = 4;
  CollectiveStar flags(n, ideal(gb(kRate), kHop), 1000);
  CollectiveSpec notify = exchange(Leg::notify, 0, 0);
  notify.tokens.notifies = true;
  const Time late = Time::us(5);
  const Time told = flags.run_once(notify, {Time(), late});
  BOOST_TEST(told.fs() >= (late + kHop * 2).fs());  // all wait for the last one
  for (std::uint32_t m = 0; m < n; ++m) BOOST_TEST(flags.sent(m) == (n - 1) * collective::kFlagBytes);

  CollectiveSpec spec = exchange(Leg::combine, n * 50'000, n * 50'000);
  CollectiveStar without(n, ideal(gb(kRate), kHop), 1000);
  const Time alone = without.run_once(spec);
  spec.tokens.notifies = true;
  CollectiveStar with(n, ideal(gb(kRate), kHop), 1000);
  const Time together = with.run_once(spec);
  BOOST_TEST(together.fs() > (alone + kHop * 2).fs());
  BOOST_TEST(together.fs() < (alone + kHop * 3).fs());
}

BOOST_AUTO_TEST_CASE(buffers_are_those_of_deepeps_formula) {
  // Of hidden states of 7168 numbers in 16 bits: 10 channels, 8 peers, room for 288 tokens, each with 8 + 128 x 12 + 512 bytes.
  constexpr Bytes kHidden = 14336, kToken = kHidden + 8 + 128 * 12 + 512;
  constexpr Bytes kNvlink = 10 * 8 * (11 * 4 + 288 * kToken), kNetwork = 10 * 4 * 2 * (18 * 4 + 128 * (kToken + 16));
  const auto aligned = [](Bytes bytes) { return (bytes + 127) / 128 * 128; };
  BOOST_TEST(collective::deepep_buffer_bytes(32, kHidden) == aligned(kNvlink) + aligned(kNetwork));
  BOOST_TEST(collective::deepep_buffer_bytes(8, kHidden) == aligned(10 * 8 * (5 * 4 + 256 * kToken)));
  BOOST_TEST((collective::deepep_chunks(12) == nullptr));
}

BOOST_AUTO_TEST_CASE(servers_with_unequal_numbers_of_ranks_have_no_exchange) {
  collective::Group group;
  group.members.resize(3);
  const CollectiveSpec spec = exchange(Leg::dispatch, 1000, 1000);
  BOOST_TEST((collective::unsupported(spec, group) == nullptr));
  group.server = {0, 0, 1};
  BOOST_TEST((collective::unsupported(spec, group) != nullptr));
}
