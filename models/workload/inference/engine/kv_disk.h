// The disk of a server, for KV of the instances there: reads come one after the other at its rate, each a latency after it was asked for,
// and so do writes, beside them. The latency of a job hides behind the jobs before it.
#pragma once

#include <cstdint>

#include "workload/inference/kv/disk_spec.h"
#include "workload/jobs.h"

namespace railyard::workload::inference {

class KvDisk {
 public:
  /// @param server  its number
  KvDisk(std::uint32_t server, const KvDiskSpec& spec, Executor& executor);

  JobRef read(Bytes bytes, const JobLabel& label, JobClient& client) { return emit(read_, bytes, label, client); }
  JobRef write(Bytes bytes, const JobLabel& label, JobClient& client) { return emit(write_, bytes, label, client); }

 private:
  struct Way {
    gpu::Stream* stream = nullptr;
    Time free;  ///< when its last job is done
  };
  JobRef emit(Way& way, Bytes bytes, const JobLabel& label, JobClient& client);

  KvDiskSpec spec_;
  Executor& executor_;
  Rank& host_;
  Way read_, write_;
};

}  // namespace railyard::workload::inference
