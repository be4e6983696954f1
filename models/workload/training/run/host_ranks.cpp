#include "workload/training/run/host_ranks.h"

#include <fmt/format.h>

#include "gpu/datasheet.h"
#include "workload/traffic.h"

namespace railyard::workload::training {

HostRanks::HostRanks(const HostSide& hosts, const Mesh& mesh, Executor& executor, RankPrograms& programs)
    : hosts_(hosts), mesh_(mesh), programs_(programs) {
  for (const transport::Window memory : hosts_.memories)
    if (sockets_.find(memory) == sockets_.end()) {
      const auto number = static_cast<std::uint32_t>(sockets_.size());
      sockets_.emplace(memory, &executor.add_host("host", number, memory));
    }
}

std::vector<std::size_t> HostRanks::add_streams(const char* name, bool shared) {
  std::map<Rank*, std::size_t> of_all;
  std::vector<std::size_t> numbers;
  for (std::uint32_t r = 0; r < mesh_.size(); ++r) {
    Rank& host = socket(r);
    const auto known = of_all.find(&host);
    if (shared && known != of_all.end()) {
      numbers.push_back(known->second);
      continue;
    }
    numbers.push_back(host.streams.size());
    of_all[&host] = host.streams.size();
    host.add_stream(shared ? std::string(name) : fmt::format("{}_{}", name, r));
  }
  return numbers;
}

JobRef HostRanks::copy(std::uint32_t rank, Rank& from, std::size_t stream, const execution::CopyTarget& to,
                       const JobLabel& label, std::vector<JobRef> after) {
  execution::Copy copy;
  copy.transfers = {to};
  copy.traffic_class = number(TrafficClass::offload);
  copy.start = Time::seconds(mesh_.rank(rank).gpu->datasheet().copy.engine_us * 1e-6);
  JobRef& last = last_[{&from, stream}];
  if (last.job != nullptr) after.push_back(last);
  return last = programs_.copy(from, from.stream(stream), std::move(copy), label, after);
}

JobRef HostRanks::store(std::uint32_t rank, std::size_t stream, Bytes bytes, const JobLabel& label,
                        const std::vector<JobRef>& after) {
  return copy(rank, mesh_.rank(rank), stream, {hosts_.memories[rank], bytes}, label, after);
}

JobRef HostRanks::load(std::uint32_t rank, std::size_t stream, Bytes bytes, const JobLabel& label,
                       const std::vector<JobRef>& after) {
  return copy(rank, socket(rank), stream, {mesh_.rank(rank).gpu->window(), bytes}, label, after);
}

void HostRanks::add_traffic(std::vector<transport::Traffic>& all, std::uint32_t rank, double stored,
                            double loaded) const {
  const transport::Window gpu = mesh_.rank(rank).gpu->window(), host = hosts_.memories[rank];
  if (stored > 0) all.push_back({gpu, host, number(TrafficClass::offload), stored});
  if (loaded > 0) all.push_back({host, gpu, number(TrafficClass::offload), loaded});
}

}  // namespace railyard::workload::training
