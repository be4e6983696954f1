// The first contact of two instances between which KV moves: when they meet, and who waits for that.
#include "tests/support/serving_run.h"
#include "tests/support/systemc_main.h"

using namespace railyard;
using namespace railyard::test;
using namespace railyard::workload::inference;

// A handshake: metadata of the rank that is read, then a descriptor for each block, and keys and values of six layers, of its whole cache.
BOOST_AUTO_TEST_CASE(two_instances_meet_when_the_first_kv_moves) {
  // The second request comes while the two meet, the third one after that; the fourth one reads from another instance.
  const auto request = [](double arrival_s, const char* from) {
    return fmt::format("{{arrival_s: {}, prompt_tokens: 1000, output_tokens: 4, instance: {}, decode_instance: d}}",
                       arrival_s, from);
  };
  const std::string list = "workload.requests={list: [" + request(0, "p") + ", " + request(0.02, "p") + ", " +
                           request(1, "p") + ", " + request(2, "q") + "]}";
  const std::string three =
      "workload.instances=[{name: p, role: prefill}, {name: q, role: prefill, gpus: [2]}, {name: d, role: decode, "
      "gpus: [4]}]";
  const auto run_with = [&](const std::string& contact) {
    ServingBench run(tiny_serving(
        {list, three, "workload.kv_blocks=1000", "workload.scheduler.max_batched_tokens=1024",
         "workload.kv_transfer={descriptor_us: 10, metadata_us: 30000, prepare_us: 5, first_contact: " + contact +
             "}"}));
    run.run();
    for (const Stay& served : run.served) {
      Time sum;
      for (const Time part : served.ttft.all()) sum += part;
      BOOST_TEST_REQUIRE((sum == served.times.first_token - served.request.arrival));
    }
    return run.served;
  };
  std::vector<Stay> warm = run_with("before"), cold = run_with("in_run");
  const Time meeting = Time::us(30000) + Time::us(5 * 1000 * 6 * 2);
  const auto part = [](Stay& of, TtftPart which) { return of.ttft[which]; };
  for (Stay& served : warm) BOOST_TEST((part(served, TtftPart::kv_handshake) == Time()));
  BOOST_TEST((part(cold[0], TtftPart::kv_handshake) == meeting));
  BOOST_TEST((part(cold[3], TtftPart::kv_handshake) == meeting));
  BOOST_TEST((part(cold[2], TtftPart::kv_handshake) == Time()));
  // It waits for the rest of the first one's handshake.
  BOOST_TEST((cold[1].prefilled() + part(cold[1], TtftPart::kv_handshake) == cold[0].prefilled() + meeting));
  // A request alone: nothing but the handshake is added.
  for (const std::size_t i : {0u, 3u}) {
    BOOST_TEST((cold[i].kv_landed() == warm[i].kv_landed() + meeting));
    BOOST_TEST((part(cold[i], TtftPart::kv_post) == part(warm[i], TtftPart::kv_post)));
  }
  BOOST_TEST((cold[2].times.tokens == warm[2].times.tokens));
}

BOOST_AUTO_TEST_CASE(each_rank_meets_those_from_which_it_reads) {
  // tp 2 -> 1: one rank meets two, one after the other; 1 -> 2: two ranks meet one, at the same time.
  const std::string one = "workload.requests={list: [{prompt_tokens: 1000, output_tokens: 4}]}";
  for (const auto& [from, to, meetings] : {std::tuple{2, 1, 2}, std::tuple{1, 2, 1}, std::tuple{2, 2, 1}}) {
    BOOST_TEST_INFO_SCOPE(from << " -> " << to);
    ServingBench run(tiny_serving(
        {one,
         fmt::format(
             "workload.instances=[{{name: p, role: prefill, tp: {}}}, {{name: d, role: decode, tp: {}, gpus: {}}}]",
             from, to, to == 2 ? "[4, 5]" : "[4]"),
         "workload.kv_transfer={metadata_us: 1000, first_contact: in_run}"}));
    run.run();
    BOOST_TEST((run.served[0].ttft[TtftPart::kv_handshake] == Time::us(1000u * static_cast<unsigned>(meetings))));
  }
}

BOOST_AUTO_TEST_CASE(instances_that_push_meet_when_there_is_kv_to_write) {
  const std::string list =
      "workload.requests={list: [{prompt_tokens: 1024, output_tokens: 4}, {arrival_s: 1, prompt_tokens: 1024, "
      "output_tokens: 4}]}";
  for (const std::string mode : {"push_at_end", "push_per_chunk", "push_per_layer"}) {
    for (const std::uint32_t metadata_us : {0u, 1000u, 100'000u}) {
      BOOST_TEST_INFO_SCOPE(mode << " " << metadata_us);
      struct Run {
        std::vector<Stay> served;
        Time begun;  // the first copy
      };
      const auto run_with = [&](const std::string& contact) {
        ServingBench run(tiny_serving(
            {list, "workload.instances=[{name: d, role: decode, gpus: [4]}, {name: p, role: prefill}]",
             "workload.kv_blocks=1000", "workload.scheduler.max_batched_tokens=512",
             fmt::format("workload.kv_transfer={{mode: {}, metadata_us: {}, prepare_us: 0.5, first_contact: {}}}", mode,
                         metadata_us, contact)}));
        run.run();
        Time begun = Time::max();
        for (const JobRow& row : run.records.all)
          if (row.name().rfind("Handoff_", 0) == 0) begun = sooner(begun, row.start);
        return Run{run.served, begun};
      };
      Run warm = run_with("before"), cold = run_with("in_run");
      Stay& first = cold.served[0];
      // The KV is there, and the blocks have been announced; then comes the handshake.
      const Time announced = *first.visits.back().kv_promised + Time::us(metadata_us);
      const Time met = later(warm.begun, announced) + Time::seconds((metadata_us + 0.5 * 1000 * 6 * 2) * 1e-6);
      BOOST_TEST((cold.begun == met));
      BOOST_TEST((first.ttft[TtftPart::kv_handshake] == later(met, first.prefilled()) - first.prefilled()));
      Time sum;
      for (const Time part : first.ttft.all()) sum += part;
      BOOST_TEST((sum == first.times.first_token - first.request.arrival));
      BOOST_TEST((warm.served[0].ttft[TtftPart::kv_handshake] == Time()));
      BOOST_TEST((cold.served[1].times.tokens == warm.served[1].times.tokens));
    }
  }
}
