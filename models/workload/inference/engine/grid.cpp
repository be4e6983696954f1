#include "workload/inference/engine/grid.h"

#include <fmt/format.h>

#include "gpu/datasheet.h"
#include "workload/traffic.h"

namespace railyard::workload::inference {

namespace {

collective::CollectiveRequest stage_request(const collective::Engine& engine, TrafficClass traffic_class) {
  collective::CollectiveRequest request;
  request.engine = engine;
  request.in_graph = true;
  request.traffic_class = number(traffic_class);
  return request;
}

}  // namespace

Grid::Grid(const std::string& name, const std::string& index, const transformer::ModelShape& model,
           const Mapping& mapping, const Host& host, const collective::Engine& engine,
           const std::vector<gpu::Gpu*>& gpus, Executor& executor)
    : model_(model),
      executor_(executor),
      stages_(transformer::stages_of(mapping.stage_layers)),
      kernels_(gpus.front()->datasheet()),
      timer_(model, mapping.tp, kernels_, mapping.profile) {
  timer_.set_libraries(engine.attention, engine.block_scaled_products);
  timer_.set_expert_ranks(mapping.experts);
  for (const transformer::Stage& stage : stages_) weights_.push_back(inference::weight_bytes(model_, stage, mapping));
  const std::uint32_t width = mapping.tp * mapping.dp;
  std::vector<Rank*> ranks;
  std::uint32_t layer = 0;
  for (std::uint32_t p = 0; p < mapping.pp; ++p) {
    first_layer_.push_back(layer);
    layer += stages_[p].layers;
    for (std::uint32_t t = 0; t < width; ++t) {
      const std::uint32_t r = p * width + t;
      Rank& rank = executor.add_rank(name, r, index + fmt::format("[{}][{}]", p, t), *gpus[r]);
      for (const char* stream : {"compute", "pp", "kv"}) rank.add_stream(stream);
      if (t == 0 && host.is_modelled()) rank.add_stream("host");
      ranks.push_back(&rank);
    }
  }
  kv_ = std::make_unique<KvCache>(model_, stages_, mapping.tp, ranks);
  mesh_ = std::make_unique<Mesh>(std::move(ranks), MeshSizes{mapping.tp, 1, mapping.dp, 1, mapping.pp, 1});
  groups_ =
      mesh_->connect({Dimension::tp, Dimension::ep}, kCompute,
                     stage_request(engine, mapping.dp > 1 ? TrafficClass::ep : TrafficClass::tp), executor.fabric());
  for (std::uint32_t p = 0; p < mapping.pp && mapping.tp > 1 && mapping.dp > 1; ++p)
    in_replicas_.push_back(std::make_unique<Communicator>(communicator(p).ranks(), kCompute, mapping.dp,
                                                          stage_request(engine, TrafficClass::tp), executor.fabric()));
}

void Grid::connect_halves() {
  // DeepEP's low-latency kernels end when their messages are posted; a hook receives them (csrc/deep_ep.cpp,
  // low_latency_dispatch(), return_recv_hook). Its buffers hold two exchanges, one of which is received before the next.
  collective::CollectiveRequest request = communicator(0).request();
  request.takes_sms = false;
  std::vector<std::size_t> streams;
  for (std::uint32_t t = 0; t < width(); ++t) {
    streams.push_back(rank(t).streams.size());
    rank(t).add_stream("exchange");
  }
  exchanges_ = std::make_unique<Communicator>(communicator(0).ranks(), std::move(streams), request, executor_.fabric());
}

void Grid::connect_stages() {
  if (pp() == 1) return;
  collective::CollectiveRequest request;
  request.in_graph = true;  // the host's time for launches is its time for a step
  request.traffic_class = number(TrafficClass::pp);
  std::vector<std::size_t> in;
  for (std::uint32_t r = 0; r < ranks(); ++r) {
    in.push_back(rank(r).streams.size());
    rank(r).add_stream("pp_in");
  }
  for (std::uint32_t r = 0; r < ranks(); ++r) {
    const std::uint32_t to = (r + tp()) % ranks();
    hops_.push_back(std::make_unique<Communicator>(std::vector<Rank*>{&rank(r), &rank(to)},
                                                   std::vector<std::size_t>{kPp, in[to]}, request, executor_.fabric()));
  }
}

JobRef Grid::exchange(std::uint32_t stage, std::uint32_t t, Bytes bytes, const JobLabel& label, JobClient& client,
                      JobRef after) {
  Communicator& hop = *hops_[stage * tp() + t];
  // A receiver that has begun polls with its SMs, so it begins with the sender.
  const execution::Exchange exchange{0, 1, 0, bytes};
  executor_.send(hop, exchange, label, client, {after});
  return executor_.receive(hop, exchange, label, client, {after});
}

void Grid::load(double limit_ratio, std::uint64_t pass_tokens, std::uint64_t logit_rows, std::uint64_t new_tokens) {
  for (std::uint32_t r = 0; r < ranks(); ++r) {
    const transformer::Stage& s = stages_[r / width()];
    rank(r).gpu->hbm().allocate(weight_bytes(r / width()) + activation_bytes(model_, s, tp(), pass_tokens, logit_rows));
  }
  kv_->set_limit(limit_ratio, new_tokens);
}

void Grid::load_paged(std::uint64_t pass_tokens, std::uint64_t logit_rows, std::uint32_t blocks,
                      std::uint32_t block_tokens, const DraftMemory& drafts) {
  drafts_ = drafts;
  for (std::uint32_t r = 0; r < ranks(); ++r) {
    const transformer::Stage& s = stages_[r / width()];
    rank(r).gpu->hbm().allocate(weight_bytes(r / width()) + activation_bytes(model_, s, tp(), pass_tokens, logit_rows) +
                                blocks * block_bytes(r / width(), block_tokens));
  }
}

void Grid::add_traffic(std::vector<transport::Traffic>& all, double tokens, std::int64_t group,
                       std::uint32_t tensors) const {
  const auto window = [&](std::uint32_t r) { return rank(r).gpu->window(); };
  const double hidden = static_cast<double>(hidden_bytes(model_, 1)) * tokens;
  for (std::uint32_t p = 0; p < pp(); ++p) {
    // Each member sends nearly twice the vector of every all-reduce, here in equal shares to all peers.
    const std::vector<transport::Window>& members = communicator(p).group().members;
    const auto add = [&](transformer::RankGroup of, std::size_t together) {
      double bytes = 0;
      for (const transformer::LayerStep& step : layer_collectives(model_, 1, split()))
        if (step.group == of || in_replicas_.empty())
          bytes += 2 * static_cast<double>(step.bytes) * tokens * stage(p).layers / static_cast<double>(together);
      for (std::size_t a = 0; a < members.size(); ++a)
        for (std::size_t b = a / together * together; b < (a / together + 1) * together; ++b)
          if (a != b)
            all.push_back({members[a], members[b], number(TrafficClass::tp), bytes,
                           group == transport::Traffic::kNobody ? group : group + static_cast<std::int64_t>(p)});
    };
    add(transformer::RankGroup::ep, members.size());
    if (!in_replicas_.empty()) add(transformer::RankGroup::tp, tp());
  }
  for (std::uint32_t r = 0; r < ranks() && pp() > 1; ++r)  // to the next stage; sampled tokens to the first stage
    all.push_back({window(r), window((r + tp()) % ranks()), number(TrafficClass::pp), tensors * hidden / tp(),
                   transport::Traffic::kNobody, true});
}

void allow_reuse(const std::vector<Grid*>& grids, std::vector<collective::OtherTraffic> others,
                 transport::Fabric& fabric, bool begin_together) {
  std::vector<Communicator*> groups;
  for (const Grid* grid : grids)
    for (std::uint32_t p = 0; p < grid->pp(); ++p) {
      groups.push_back(&grid->communicator(p));
      Communicator& of_tp = grid->communicator(p, transformer::RankGroup::tp);
      if (&of_tp == groups.back()) continue;
      groups.push_back(&of_tp);
      // Collectives of replicas run beside the exchanges of the other micro-batch.
      if (grid->divides()) groups.push_back(&grid->exchanges());
    }
  for (const Grid* grid : grids)
    for (std::uint32_t r = 0; r < grid->ranks() && grid->pp() > 1; ++r)
      others.push_back({*grid->rank(r).memory, *grid->rank((r + grid->tp()) % grid->ranks()).memory,
                        number(TrafficClass::pp), &grid->sends(r / grid->tp())});
  Communicator::allow_reuse(groups, others, fabric, begin_together);
  for (const Grid* grid : grids)
    if (grid->divides() && grid->tp() == 1) grid->exchanges().share_reuse(grid->communicator(0));
}

}  // namespace railyard::workload::inference
