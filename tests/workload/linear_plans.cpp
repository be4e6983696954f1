// Coupled products against their closed forms, on links with a rate and a latency only, and kernels that only SMs limit.
#include "tests/support/systemc_main.h"
#include "tests/support/training_bench.h"
#include "workload/linear/emission.h"

using namespace railyard;
using namespace railyard::test;
using namespace railyard::workload::linear;

namespace {

constexpr std::uint32_t kRanks = 4;
constexpr Bytes kBytes = 40'000'000;

/// Four ranks on GPUs of one server. A product of 1/n of the rows takes 1/n of the time.
struct LinearBench : JobBench {
  LinearBench() : JobBench(training_machine(), kRanks, {"compute", "send", "receive"}) {
    product.ranks = kRanks;
    product.bytes = kBytes;
    product.gpu = &ranks[0]->gpu->datasheet();
  }

  /// Time of the plan; the product takes `whole`.
  Time run(Coupling coupling, Method method, Time whole, const Options& options) {
    product.coupling = coupling;
    product.operation =
        coupling == Coupling::gather ? collective::Operation::all_gather : collective::Operation::reduce_scatter;
    const std::uint32_t sms = product.gpu->sm.count;
    product.part = [whole, sms](std::uint32_t parts, std::uint32_t) {
      return kernel_time_of(Time::fs(whole.fs() / parts), sms);
    };
    if (part) product.part = part;
    workload::RankPrograms programs(ranks, 0, {}, executor, *this);
    CoupledRanks coupled(ranks, {0, 1, 2}, {}, fabric);
    Time begun, ended;
    std::int64_t emitted = 0;
    when_done = [&](const Job&) {
      programs.done();
      ended = fabric.now();
    };
    later_on(fabric.now() + Time::us(1), [&] {
      begun = fabric.now();
      const ProductPlan plan = plan_of(product, method, options);
      coupled.emit(traffic_only ? plan.traffic() : plan, programs,
                   [&](const Action&, bool, bool, std::uint32_t) { return label(0); });
      emitted = programs.live();
    });
    JobBench::run();
    BOOST_TEST(emitted > 0);
    BOOST_TEST(programs.live() == 0);
    return ended - begun;
  }
  /// A shard alone, by a copy engine.
  Time copied(Bytes bytes) { return Time::seconds(product.gpu->copy.engine_us * 1e-6) + alone(0, 1, bytes); }
  /// The collective alone.
  Time collective(Coupling coupling, Bytes bytes) {
    const Bytes all = std::exchange(product.bytes, bytes);
    const Time with = run(coupling, Method::serial, Time::us(1), {});
    product.bytes = all;
    return with - Time::us(1);
  }

  CoupledProduct product;
  std::function<gpu::KernelTime(std::uint32_t, std::uint32_t)> part;  ///< in place of equal parts of a whole time
  bool traffic_only = false;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_ring_takes_one_product_and_the_longer_of_product_and_chunk_for_each_other_rank) {
  LinearBench b;
  const Time chunk = b.copied(kBytes / kRanks);
  for (const std::uint64_t percent : {20, 100, 300}) {
    const Time part = Time::fs(chunk.fs() / 100 * percent);
    const Time whole = part * kRanks;
    const Time hidden = b.run(Coupling::gather, Method::ring, whole, {});
    BOOST_TEST((hidden == part + later(part, chunk) * (kRanks - 1)));
    Options after;
    after.order = RingOrder::after_gemm;
    BOOST_TEST((b.run(Coupling::gather, Method::ring, whole, after) == whole + chunk * (kRanks - 1)));
  }
}

BOOST_AUTO_TEST_CASE(a_pipelined_product_takes_its_pieces_and_reduce_scatters_in_turn) {
  LinearBench b;
  for (const std::uint32_t splits : {1u, 2u, 4u, 8u}) {
    const Time scatter = b.collective(Coupling::scatter, kBytes / splits);
    for (const std::uint64_t percent : {20, 100, 300}) {
      const Time piece = Time::fs(scatter.fs() / 100 * percent);
      Options options;
      options.splits = splits;
      options.comm_sms = 0;
      const Time time = b.run(Coupling::scatter, Method::pipelined, piece * splits, options);
      BOOST_TEST((time == piece + later(piece, scatter) * (splits - 1) + scatter));
      if (splits == 1) BOOST_TEST((time == b.run(Coupling::scatter, Method::serial, piece, {})));
    }
  }
}

// Rank i owns piece i: its sum goes down the ring to rank i.
BOOST_AUTO_TEST_CASE(pieces_may_be_reduced_to_their_owners) {
  LinearBench b;
  Options options;
  options.comm_sms = 0;
  options.reduce = PieceSum::to_owner;
  const ProductPlan plan = [&] {
    b.product.part = [&](std::uint32_t, std::uint32_t) { return kernel_time_of(Time::us(1), 1); };
    return plan_of(b.product, Method::pipelined, options);
  }();
  BOOST_TEST((plan.operation == collective::Operation::reduce));
  std::uint32_t owner = 0;
  for (const Action& action : plan.actions) {
    if (action.work != Action::Work::collective) continue;
    BOOST_TEST(action.root == owner++);
    BOOST_TEST(action.bytes == kBytes / kRanks);
  }
  BOOST_TEST(owner == kRanks);
  // Products longer than a reduce hide all but the last; infinitely short ones leave the reduces.
  const Time reduce = b.run(Coupling::scatter, Method::pipelined, Time::fs(4), options);
  const Time piece = reduce * 2;
  const Time last = b.run(Coupling::scatter, Method::pipelined, piece * kRanks, options) - piece * kRanks;
  BOOST_TEST((last * kRanks >= reduce));
  BOOST_TEST((last < reduce));
}

BOOST_AUTO_TEST_CASE(every_method_takes_at_least_its_longer_part_and_at_most_both) {
  LinearBench b;
  for (const Coupling coupling : {Coupling::gather, Coupling::scatter}) {
    const Time traffic = b.collective(coupling, kBytes);
    for (const std::uint64_t percent : {20, 100, 300}) {
      const Time whole = Time::fs(traffic.fs() / 100 * percent);
      const Time serial = b.run(coupling, Method::serial, whole, {});
      BOOST_TEST((serial == whole + traffic));
      for (const Method method : {Method::beside, Method::decomposed, Method::ring, Method::pipelined, Method::bulk}) {
        if (!couples(method, coupling)) continue;
        BOOST_TEST_CONTEXT("method " << static_cast<int>(method) << " at " << percent) {
          Options options;
          options.comm_sms = 0;
          const Time time = b.run(coupling, method, whole, options);
          BOOST_TEST((time >= later(whole, traffic)));
          BOOST_TEST((time <= serial));
        }
      }
    }
  }
}

// Copies by copy engines cost what they cost alone, one after the other.
BOOST_AUTO_TEST_CASE(copies_of_shards_pay_for_their_engine) {
  LinearBench b;
  for (const Bytes bytes : {Bytes{4096}, kBytes}) {
    b.product.bytes = bytes;
    const Time shard = b.copied(bytes / kRanks);
    const Time time = b.run(Coupling::gather, Method::decomposed, Time::fs(4), {});
    BOOST_TEST((time >= shard * (kRanks - 1)));
    BOOST_TEST((time <= shard * (kRanks - 1) + Time::ns(1)));
  }
}

// All tiles of a product of one wave take its whole time, so none ends earlier after the last shard, or before the first
// of their results leaves. A product of many waves hides its tiles.
BOOST_AUTO_TEST_CASE(a_fused_product_ends_a_tile_after_its_last_shard) {
  LinearBench b;
  const Time arrival = b.copied(kBytes / kRanks) * (kRanks - 1);
  for (const std::uint32_t waves : {1u, 8u}) {
    const Time whole = arrival;
    const std::uint32_t sms = b.product.gpu->sm.count;
    b.part = [=](std::uint32_t parts, std::uint32_t) {
      gpu::KernelTime time = kernel_time_of(Time::fs(whole.fs() / parts), sms);
      time.waves = waves;
      return time;
    };
    const Time tile = Time::fs(whole.fs() / waves);
    const Time gather = b.run(Coupling::gather, Method::fused, whole, {});
    BOOST_TEST((gather >= arrival + tile));
    BOOST_TEST((gather <= arrival + later(tile, Time::fs(whole.fs() / kRanks)) + Time::ns(2)));
    const Time scatter = b.run(Coupling::scatter, Method::fused, whole, {});
    BOOST_TEST((scatter >= tile + b.alone(0, 1, kBytes / kRanks) * (kRanks - 1)));
  }
}

// What a method hides is a share of its own kernels or its own traffic.
BOOST_AUTO_TEST_CASE(a_plan_takes_at_least_its_traffic_alone) {
  LinearBench b;
  for (const Coupling coupling : {Coupling::gather, Coupling::scatter})
    for (const Method method :
         {Method::serial, Method::decomposed, Method::fused, Method::ring, Method::pipelined, Method::bulk}) {
      if (!couples(method, coupling)) continue;
      b.traffic_only = true;
      const Time traffic = b.run(coupling, method, Time::us(50), {});
      b.traffic_only = false;
      const Time time = b.run(coupling, method, Time::us(50), {});
      BOOST_TEST_CONTEXT("method " << static_cast<int>(method)) {
        BOOST_TEST((traffic > Time()));
        BOOST_TEST((time >= traffic));
        BOOST_TEST((time >= Time::us(50)));
      }
    }
}
