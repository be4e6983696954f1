// Weights of instances that join, on their way: each rank gets its share, from the memory of its socket over PCIe, or from the same rank of
// an instance that has them, by copy engines. Their horizon is the next instant at which an instance joins.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "transport/horizon.h"
#include "workload/inference/engine/instance.h"
#include "workload/inference/service/serving_spec.h"
#include "workload/jobs.h"
#include "workload/traffic.h"

namespace railyard::workload::inference {

class WeightLoadsClient {
 public:
  virtual void on_weights_loaded(std::uint32_t instance) = 0;

 protected:
  ~WeightLoadsClient() = default;
};

class WeightLoads final : private JobClient, private JobNamer {
 public:
  /// @param changes  the joins among them are prepared
  /// @param hosts    of each instance: the memories of its ranks' sockets
  WeightLoads(const std::vector<InstanceChange>& changes, const std::vector<std::unique_ptr<Instance>>& instances,
              const std::vector<std::vector<transport::Window>>& hosts, Executor& executor, WeightLoadsClient& client);

  /// @param join  one of the changes
  void start(const InstanceChange& join);
  bool is_loading() const { return under_way_ > 0; }
  /// Bytes that have arrived.
  Bytes loaded() const { return loaded_; }
  /// All messages that start() can send.
  std::vector<collective::OtherTraffic> traffic();
  void add_traffic(std::vector<transport::Traffic>& all) const;

 private:
  /// From a memory to a rank, on a stream of the rank that has the memory.
  struct Way {
    Rank* from = nullptr;
    std::size_t stream = 0;
    transport::Window source = 0, destination = 0;
    Bytes bytes = 0;
  };
  struct Load {
    InstanceChange join;
    std::vector<Way> ways;  ///< by rank
    std::uint32_t left = 0;
  };
  class Sends final : public transport::Horizon {
   public:
    Sends(const WeightLoads& of, const transport::Fabric& fabric) : Horizon("weights"), of_(of), fabric_(fabric) {}
    void begun() { begins(fabric_.now()); }

   private:
    Time next() override;
    const WeightLoads& of_;
    const transport::Fabric& fabric_;
  };
  // WeightLoad_PP[p]_TP[t]_Inst[name]
  struct Fields {
    std::uint32_t load;
    std::uint32_t rank;
  };

  void on_job_begun(const Job&) override { sends_.begun(); }
  void on_job_done(const Job& job) override;
  std::string name(std::uint64_t arguments) const override;
  std::string work(std::uint64_t arguments) const override;
  const char* kind(std::uint64_t) const override { return "weights"; }
  Recorded recorded(std::uint64_t) const override { return Recorded::stage; }

  const std::vector<std::unique_ptr<Instance>>& instances_;
  Executor& executor_;
  WeightLoadsClient& client_;
  std::vector<Load> loads_;  ///< ordered by time
  std::uint64_t under_way_ = 0;
  Bytes loaded_ = 0;
  Sends sends_;
};

}  // namespace railyard::workload::inference
