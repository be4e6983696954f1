#include "workload/training/run/optimizer_offload.h"

namespace railyard::workload::training {

using Jobs = TrainingJobs;

OptimizerOffload::OptimizerOffload(const TrainingSpec& spec, const transformer::StatePrecision& precision,
                                   const Mesh& mesh, HostRanks& hosts, const TrainingJobs& jobs)
    : spec_(spec),
      precision_(precision),
      hosts_(hosts),
      jobs_(jobs),
      sent_(mesh.size()),
      update_(hosts.add_streams("adam", true)),
      up_(hosts.add_streams("weights", false)) {
  for (std::uint32_t r = 0; r < mesh.size(); ++r) {
    down_.push_back(mesh.rank(r).streams.size());
    mesh.rank(r).add_stream("gradients");
  }
}

void OptimizerOffload::send_gradients(std::uint32_t rank, std::uint32_t bucket, std::uint64_t parameters,
                                      JobRef after) {
  if (parameters == 0) return;
  const JobRef job = hosts_.store(rank, down_[rank], parameters * precision_.gradients,
                                  jobs_.label(Jobs::kStateCopy, 0, bucket, rank), {after});
  sent_[rank].push_back({bucket, parameters, job});
}

std::vector<JobRef> OptimizerOffload::update(std::uint32_t rank, const std::vector<JobRef>& after,
                                             RankPrograms& programs) {
  std::vector<JobRef> weights;
  for (const Sent& sent : sent_[rank]) {
    std::vector<JobRef> waits = after;
    waits.push_back(sent.job);
    Rank& host = hosts_.socket(rank);
    const Time duration = Time::seconds(static_cast<double>(sent.parameters * adam_bytes()) / hosts_.bytes_per_s());
    const JobRef updated = programs.host_work(host, host.stream(update_[rank]), duration,
                                              jobs_.label(Jobs::kHostUpdate, 0, sent.bucket, rank), waits);
    weights.push_back(hosts_.load(rank, up_[rank], sent.parameters * precision_.weights,
                                  jobs_.label(Jobs::kStateCopy, 0, sent.bucket, rank, true), {updated}));
  }
  sent_[rank].clear();
  return weights;
}

void OptimizerOffload::add_traffic(std::vector<transport::Traffic>& all, std::uint32_t rank, double parameters) const {
  hosts_.add_traffic(all, rank, parameters * static_cast<double>(precision_.gradients) * spec_.steps,
                     parameters * static_cast<double>(precision_.weights) * spec_.steps);
}

}  // namespace railyard::workload::training
