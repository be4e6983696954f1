#include "workload/inference/service/weight_loads.h"

#include <fmt/format.h>
#include <algorithm>
#include <map>

#include "gpu/datasheet.h"

namespace railyard::workload::inference {

WeightLoads::WeightLoads(const std::vector<InstanceChange>& changes,
                         const std::vector<std::unique_ptr<Instance>>& instances,
                         const std::vector<std::vector<transport::Window>>& hosts, Executor& executor,
                         WeightLoadsClient& client)
    : instances_(instances), executor_(executor), client_(client), sends_(*this, executor.fabric()) {
  std::map<transport::Window, Rank*> sockets;
  for (const InstanceChange& change : changes) {
    if (change.what != InstanceChange::What::join) continue;
    Load& load = loads_.emplace_back();
    load.join = change;
    Grid& grid = instances[change.instance]->grid();
    for (std::uint32_t r = 0; r < grid.ranks(); ++r) {
      Way& way = load.ways.emplace_back();
      if (change.weights_from) {
        way.from = &instances[*change.weights_from]->grid().rank(r);
      } else {
        Rank*& socket = sockets[hosts[change.instance][r]];
        if (socket == nullptr)
          socket = &executor.add_host("weights_host", static_cast<std::uint32_t>(sockets.size() - 1),
                                      hosts[change.instance][r]);
        way.from = socket;
      }
      way.from->add_stream("weights");
      way.stream = way.from->streams.size() - 1;
      way.source = *way.from->memory;
      way.destination = grid.rank(r).gpu->window();
      way.bytes = grid.weight_bytes(r / grid.width());
    }
  }
}

Time WeightLoads::Sends::next() {
  const Time now = fabric_.now();
  if (of_.under_way_ > 0) return now;
  for (const Load& load : of_.loads_)
    if (load.join.at >= now) return load.join.at;
  return Time::max();
}

void WeightLoads::start(const InstanceChange& join) {
  const auto load = std::find_if(loads_.begin(), loads_.end(), [&](const Load& one) {
    return one.join.at == join.at && one.join.instance == join.instance;
  });
  Fields fields{static_cast<std::uint32_t>(load - loads_.begin()), 0};
  for (const Way& way : load->ways) {
    execution::Copy copy;
    copy.transfers = {{way.destination, way.bytes}};
    copy.traffic_class = number(TrafficClass::weights);
    ++load->left;
    ++under_way_;
    executor_.copy(*way.from, way.from->stream(way.stream), std::move(copy), JobLabel::of(*this, fields), *this);
    ++fields.rank;
  }
}

std::vector<collective::OtherTraffic> WeightLoads::traffic() {
  std::vector<collective::OtherTraffic> all;
  for (const Load& load : loads_)
    for (const Way& way : load.ways)
      all.push_back({way.source, way.destination, number(TrafficClass::weights), &sends_});
  return all;
}

void WeightLoads::add_traffic(std::vector<transport::Traffic>& all) const {
  for (const Load& load : loads_)
    for (const Way& way : load.ways)
      all.push_back({way.source, way.destination, number(TrafficClass::weights), static_cast<double>(way.bytes)});
}

void WeightLoads::on_job_done(const Job& job) {
  Load& load = loads_[job.label().as<Fields>().load];
  --under_way_;
  loaded_ += job.bytes();
  if (--load.left == 0) client_.on_weights_loaded(load.join.instance);
}

std::string WeightLoads::name(std::uint64_t arguments) const {
  const auto f = JobLabel::fields_of<Fields>(arguments);
  const Instance& instance = *instances_[loads_[f.load].join.instance];
  return fmt::format("WeightLoad_PP[{}]_TP[{}]_Inst[{}]", f.rank / instance.grid().width(),
                     f.rank % instance.grid().width(), instance.name());
}

std::string WeightLoads::work(std::uint64_t arguments) const {
  return fmt::format("Load[{}]", JobLabel::fields_of<Fields>(arguments).load);
}

}  // namespace railyard::workload::inference
