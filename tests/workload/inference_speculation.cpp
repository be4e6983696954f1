// Speculative decoding against its closed forms: how many drafts are right, the passes that verify and make them, their
// memory, and CUDA graphs.
#include "tests/support/serving_run.h"
#include "tests/support/systemc_main.h"

#include <cmath>

#include "workload/inference/engine/drafter.h"
#include "workload/inference/scheduler/acceptance.h"

using namespace railyard;
using namespace railyard::test;
using namespace railyard::workload::inference;

namespace {

DraftSpec drafts_of(std::vector<double> acceptance, std::uint64_t seed = 1) {
  DraftSpec spec;
  spec.tokens = static_cast<std::uint32_t>(acceptance.size());
  spec.acceptance = std::move(acceptance);
  spec.seed = seed;
  return spec;
}

/// Mean tokens of a step over many steps of a few requests, each step from the token after the last one.
double drawn_tokens_per_step(const DraftSpec& spec) {
  constexpr std::uint32_t kRequests = 20, kSteps = 5000;
  const Acceptance acceptance(spec);
  double tokens = 0;
  for (std::uint32_t request = 0; request < kRequests; ++request) {
    std::uint64_t token = 1;
    for (std::uint32_t step = 0; step < kSteps; ++step) token += 1 + acceptance.right(request, token, spec.tokens);
    tokens += static_cast<double>(token - 1);
  }
  return tokens / (kRequests * kSteps);
}

std::string speculation(const std::string& rest, const std::string& method = "ngram") {
  return "workload.speculation={method: " + method + ", " + rest + "}";
}

Time time_of(const std::vector<Pass::Step>& steps) {
  Time time;
  for (const Pass::Step& step : steps)
    if (step.kernels != nullptr) time += Time::seconds(step.kernels->seconds);
  return time;
}

/// The draft passes after a batch.
Pass drafts_after(ServingBench& bench, const ScheduledBatch& batch) {
  const InstanceSpec& spec = bench.service().instance(0).spec();
  CudaGraphs none;
  none.mode = workload::GraphMode::none;
  Pass pass;
  Drafter(*spec.speculation, spec.scheduler.drafts.tokens, bench.instance().rank(0).gpu->datasheet(), spec.engine,
          bench.instance().split())
      .add(pass, batch, none, workload::Host());
  return pass;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_step_gives_the_sum_of_powers_of_the_acceptance) {
  for (const double a : {0.0, 0.3, 0.7, 0.9})
    for (const std::uint32_t k : {1u, 3u, 8u}) {
      const std::vector<double> rates = acceptance_of_ratio(a, k);
      const double expected = (1 - std::pow(a, k + 1.0)) / (1 - a);
      BOOST_TEST_INFO_SCOPE("a " << a << ", k " << k);
      BOOST_TEST(tokens_per_step(rates) == expected, boost::test_tools::tolerance(1e-12));
      BOOST_TEST(drawn_tokens_per_step(drafts_of(rates)) == expected, boost::test_tools::tolerance(a == 0 ? 0 : 0.01));
    }
}

BOOST_AUTO_TEST_CASE(positions_and_lengths_give_their_own_means) {
  // By position: that a draft and all before it are right. MiniMax-M3 with EAGLE-3: 2.58 tokens a step.
  const std::vector<double> rates = acceptance_of_positions({0.72, 0.50, 0.36});
  BOOST_TEST(tokens_per_step(rates) == 1 + 0.72 + 0.50 + 0.36, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(drawn_tokens_per_step(drafts_of(rates)) == 2.58, boost::test_tools::tolerance(0.01));
  BOOST_TEST(tokens_per_step(acceptance_of_positions({0.5, 0, 0})) == 1.5);
  // vLLM's synthetic lengths: the same steps, one in so many with a token more.
  BOOST_TEST((acceptance_of_length(2.75, 3) == std::vector<double>{1, 0.75, 0}));
  BOOST_TEST((acceptance_of_length(1, 2) == std::vector<double>{0, 0}));
  BOOST_TEST((acceptance_of_length(3, 2) == std::vector<double>{1, 1}));
  BOOST_TEST(drawn_tokens_per_step(drafts_of(acceptance_of_length(2.75, 3))) == 2.75,
             boost::test_tools::tolerance(0.01));
}

BOOST_AUTO_TEST_CASE(a_draw_belongs_to_the_request_and_its_token) {
  const Acceptance three(drafts_of(acceptance_of_ratio(0.6, 3))), five(drafts_of(acceptance_of_ratio(0.6, 5))),
      other(drafts_of(acceptance_of_ratio(0.6, 3), 2));
  std::uint32_t differ = 0, equal_requests = 0;
  for (std::uint64_t token = 0; token < 500; ++token) {
    // More drafts find the same tokens right; so does a step that begins one token later.
    BOOST_TEST(three.right(7, token, 3) == std::min(3u, five.right(7, token, 5)));
    if (const std::uint32_t right = five.right(7, token, 5); right > 0)
      BOOST_TEST(five.right(7, token + 1, 4) == right - 1);
    BOOST_TEST(three.right(7, token, 2) == std::min(2u, three.right(7, token, 3)));
    differ += three.right(7, token, 3) != other.right(7, token, 3);
    equal_requests += three.right(7, token, 1) == three.right(8, token, 1);
  }
  BOOST_TEST((differ > 200u && differ < 450u));
  BOOST_TEST(equal_requests / 500.0 == 0.6 * 0.6 + 0.4 * 0.4, boost::test_tools::tolerance(0.15));
}

BOOST_AUTO_TEST_CASE(a_step_takes_the_pass_of_its_drafts) {
  ServingBench bench(serving_scenario({"workload.requests={prompt_tokens: 512, output_tokens: 40}",
                                       speculation("tokens: 3, acceptance: 0.6"), "workload.cudagraph={mode: none}"}));
  bench.run();
  const Acceptance acceptance(bench.service().instance(0).spec().scheduler.drafts);
  const std::vector<Time>& tokens = bench.served.at(0).times.tokens;
  BOOST_TEST_REQUIRE(tokens.size() == 40u);
  std::uint64_t known = 1;
  Time at = tokens[0];
  for (std::size_t step = 1; step < bench.steps.size(); ++step) {
    const std::uint64_t produced = 1 + acceptance.right(0, known, 3);
    ScheduledBatch pass;
    pass.items.push_back(decode(0, 512 + known + 3, 4));
    at += bench.pass_time(pass);
    BOOST_TEST((bench.steps[step].completed == at), "step " << step);
    for (std::uint64_t token = known; token < std::min<std::uint64_t>(40, known + produced); ++token)
      BOOST_TEST((tokens[token] == at), "token " << token);
    known += produced;
  }
  BOOST_TEST(known >= 40u);
}

BOOST_AUTO_TEST_CASE(graphs_hold_whole_decodes) {
  CudaGraphs graphs;
  for (std::uint64_t tokens = 1; tokens <= 600; ++tokens) {  // the list of config/vllm.py
    const std::uint64_t size = tokens <= 2     ? tokens
                               : tokens <= 4   ? 4
                               : tokens <= 248 ? ceil_div(tokens, 8) * 8
                               : tokens <= 512 ? ceil_div(tokens, 16) * 16
                                               : tokens;
    BOOST_TEST(graphs.padded(true, tokens) == size);
  }
  // 1, 2, 4, 8, 16 become 3, 6, 9, 18: the next multiples of a decode's tokens. 512 would become 513, so 496 is the last one.
  graphs.decode_tokens = 3;
  for (const auto& [tokens, size] : std::vector<std::pair<std::uint64_t, std::uint64_t>>{{1, 3},
                                                                                         {3, 3},
                                                                                         {4, 6},
                                                                                         {6, 6},
                                                                                         {9, 9},
                                                                                         {12, 18},
                                                                                         {18, 18},
                                                                                         {21, 24},
                                                                                         {24, 24},
                                                                                         {27, 33},
                                                                                         {480, 480},
                                                                                         {498, 498},
                                                                                         {501, 501}})
    BOOST_TEST(graphs.padded(true, tokens) == size, tokens << " tokens");
  BOOST_TEST((graphs.launch(true, 498) == workload::LayerLaunch::nothing));
  BOOST_TEST((graphs.launch(true, 501) == workload::LayerLaunch::attention));
  BOOST_TEST((graphs.launch(false, 18) == workload::LayerLaunch::attention));
}

BOOST_AUTO_TEST_CASE(nothing_right_takes_as_many_steps_as_no_drafts) {
  const auto steps = [](const std::vector<std::string>& sets) {
    ServingBench bench(serving_scenario(sets));
    bench.run();
    return bench.steps.size();
  };
  const std::string requests = "workload.requests={count: 3, prompt_tokens: 100, output_tokens: 30}";
  const std::size_t alone = steps({requests});
  BOOST_TEST(steps({requests, speculation("tokens: 4, acceptance: 0")}) == alone);
  BOOST_TEST(steps({requests, speculation("tokens: 4, synthetic_length: 5")}) == 1 + ceil_div(29, 5));
}

BOOST_AUTO_TEST_CASE(draft_passes_follow_each_pass) {
  for (const std::string& method : std::vector<std::string>{"eagle", "mtp", "draft, draft_model: " + kTinyModel}) {
    BOOST_TEST_INFO_SCOPE(method);
    ServingBench bench(
        serving_scenario({"workload.requests={prompt_tokens: 200, output_tokens: 9}",
                          speculation("tokens: 3, synthetic_length: 4", method), "workload.cudagraph={mode: none}"}));
    bench.run();
    BOOST_TEST_REQUIRE(bench.steps.size() == 3u);  // the prompt and its token, and twice four tokens
    Time at;
    std::vector<ScheduledBatch> passes{chunk(0, 200, true), {}, {}};
    for (std::uint32_t step = 0; step < 3; ++step) {
      ScheduledBatch& batch = passes[step];
      if (step > 0) batch.items.push_back(decode(0, 200 + 4 * step, 4));
      const Pass drafts = drafts_after(bench, batch);
      BOOST_TEST(drafts.drafts.size() == 3u);
      at += bench.pass_time(batch);
      for (const auto& draft : drafts.drafts) at += time_of(draft);
      BOOST_TEST((bench.steps[step].completed == at), "step " << step);
    }
    BOOST_TEST((bench.served.at(0).times.last_token == at));
  }
}

BOOST_AUTO_TEST_CASE(a_draft_pass_costs_what_its_layers_cost) {
  const ScheduledBatch batch = [] {
    ScheduledBatch two;
    two.items = {decode(0, 300, 3), decode(1, 70, 3)};
    return two;
  }();
  {
    ServingBench mtp(serving_scenario({speculation("tokens: 2, acceptance: 0.5", "mtp")}));
    const std::vector<std::vector<Pass::Step>> drafts = drafts_after(mtp, batch).drafts;
    const Pass of_model = plan_pass(mtp.instance(), batch, workload::Host());
    // Between the embedding, which is joined with the hidden state, and the head: a layer of the model, on the whole batch.
    const std::vector<Pass::Step> layer(drafts[0].begin() + 1, drafts[0].end() - 1);
    BOOST_TEST((time_of(layer) == time_of(of_model.layers[0])));
    BOOST_TEST((drafts[0].front().kernels->seconds > of_model.embedding->seconds));
    // Then one token of each sequence.
    const Pass of_one = plan_pass(mtp.instance(), decodes({301, 71}), workload::Host());
    const std::vector<Pass::Step> later(drafts[1].begin() + 1, drafts[1].end() - 1);
    BOOST_TEST((time_of(later) == time_of(of_one.layers[0])));
    BOOST_TEST(drafts[1].back().kernels->seconds == of_one.head->seconds);
  }
  // A draft model that is the model: passes as its own, the first one with the token that the batch has given.
  ServingBench same(serving_scenario({speculation("tokens: 2, acceptance: 0.5", "draft, draft_model: " + kTinyModel)}));
  const std::vector<std::vector<Pass::Step>> drafts = drafts_after(same, batch).drafts;
  ScheduledBatch first = batch;
  for (ScheduledBatch::Item& item : first.items) ++item.tokens;
  const Time head = Time::seconds(plan_pass(same.instance(), decodes({301, 71}), workload::Host()).head->seconds);
  const Time all_heads = Time::seconds(plan_pass(same.instance(), first, workload::Host()).head->seconds);
  BOOST_TEST((time_of(drafts[0]) + all_heads == same.pass_time(first) + head));
  BOOST_TEST((time_of(drafts[1]) == same.pass_time(decodes({302, 72}))));
}

BOOST_AUTO_TEST_CASE(experts_of_a_draft_layer_are_divided_like_those_of_the_model) {
  const ScheduledBatch batch = decodes({300, 200, 100, 50});
  for (const char* mapping : {"tp: 2", "tp: 2, ep: 2", "dp: 4, ep: 4"}) {
    ServingBench bench(serving_scenario({"model.config=" + kSource + "/tests/models/tiny_experts.json",
                                         std::string("workload.instances=[{name: a, ") + mapping + "}]",
                                         speculation("tokens: 1, acceptance: 0.5", "mtp")}));
    const std::vector<Pass::Step> draft = drafts_after(bench, batch).drafts.front();
    Grid& grid = bench.instance();
    const std::vector<Pass::Step> of_model =
        plan_pass(grid, batch, workload::Host(), 0, true).layers[grid.model().kind(common_layer(grid.model()))];
    const std::vector<Pass::Step> layer(draft.begin() + 1, draft.end() - 1);
    BOOST_TEST_REQUIRE(layer.size() == of_model.size());
    BOOST_TEST((time_of(layer) == time_of(of_model)), mapping);
    for (std::size_t i = 0; i < layer.size(); ++i) BOOST_TEST(layer[i].bytes == of_model[i].bytes);
  }
}

BOOST_AUTO_TEST_CASE(drafts_take_memory_of_the_last_stage) {
  const auto of = [](const std::string& method) {
    ServingBench bench(serving_scenario({stages_of(2), speculation("tokens: 2, acceptance: 0.5", method)}));
    std::array<Bytes, 4> memory;  // a block and all, of both stages
    for (std::uint32_t p = 0; p < 2; ++p) {
      memory[p] = bench.instance().block_bytes(p, 16);
      memory[2 + p] = bench.instance().rank(p, 0).gpu->hbm().used() -
                      bench.service().instance(0).scheduler().memory().total * memory[p] - memory[p];
    }
    return memory;
  };
  const transformer::ModelShape model = serving_scenario().model;  // six layers
  const auto ngram = of("ngram"), mtp = of("mtp"), draft = of("draft, draft_model: " + kTinyModel);
  BOOST_TEST((mtp[0] == ngram[0] && draft[0] == ngram[0] && mtp[2] == ngram[2] && draft[2] == ngram[2]));
  BOOST_TEST(3 * mtp[1] == 4 * ngram[1]);
  BOOST_TEST(draft[1] == 3 * ngram[1]);
  BOOST_TEST(mtp[3] - ngram[3] ==
             2 * (transformer::layer_parameters(model).total() + 2ull * model.hidden * model.hidden));
  BOOST_TEST(draft[3] - ngram[3] == 2 * transformer::total_parameters(model));
  // EAGLE-3 has a head over a part of the vocabulary, which is smaller and its own.
  const auto eagle = of("eagle"), smaller = of("eagle, draft_vocab: 1000");
  BOOST_TEST((eagle == mtp));  // of a dense model
  BOOST_TEST(smaller[3] - eagle[3] == 2 * 1000ull * model.hidden);
}

BOOST_AUTO_TEST_CASE(a_hit_loses_its_last_block_where_drafts_need_hidden_states) {
  for (const bool drops : {false, true})
    for (const std::uint32_t prompt : {16u, 17u, 64u, 65u, 200u}) {
      SchedulerSpec spec;
      spec.drafts = drafts_of({0.5, 0.5});
      spec.drafts.drops_last_hit = drops;
      ContinuousScheduler scheduler(spec, 1 + 100);
      RequestContent content;
      content.block_tokens = 1;
      for (std::uint64_t id = 0; id < prompt; ++id) content.ids.push_back(id);
      for (const std::uint32_t number : {0u, 1u}) {
        scheduler.add(number, request(prompt, 4), content, RequestPart::all);
        const std::uint64_t start = step(scheduler).items.back().start, blocks = (prompt - 1) / 16;
        BOOST_TEST(start == (number == 0 ? 0 : 16 * (drops && blocks > 0 ? blocks - 1 : blocks)), prompt << " tokens");
        run_to_end(scheduler);
      }
    }
}

BOOST_AUTO_TEST_CASE(a_request_whose_prompt_came_from_elsewhere_starts_without_drafts) {
  SchedulerSpec spec;
  spec.drafts = drafts_of({1, 1, 1});
  spec.drafts.lookahead = 3;
  spec.computes_first_token = true;
  ContinuousScheduler scheduler(spec, 1 + 100);
  scheduler.add(0, request(30, 9), {}, RequestPart::answer);
  BOOST_TEST(scheduler.compose().reservations.size() == 1u);
  BOOST_TEST(scheduler.memory().held() == 2u);
  scheduler.arrived(0);
  BOOST_TEST(text(step(scheduler)) == "0:1");   // the last token of the prompt again
  BOOST_TEST(scheduler.memory().held() == 3u);  // 30 tokens, and three beyond: 33
  BOOST_TEST(text(step(scheduler)) == "0:4");
  BOOST_TEST(text(step(scheduler)) == "0:4");
  BOOST_TEST(scheduler.empty());
}
