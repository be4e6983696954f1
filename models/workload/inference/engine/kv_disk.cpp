#include "workload/inference/engine/kv_disk.h"

namespace railyard::workload::inference {

KvDisk::KvDisk(std::uint32_t server, const KvDiskSpec& spec, Executor& executor)
    : spec_(spec), executor_(executor), host_(executor.add_host("kv_disk", server)) {
  read_.stream = &host_.add_stream("read");
  write_.stream = &host_.add_stream("write");
}

JobRef KvDisk::emit(Way& way, Bytes bytes, const JobLabel& label, JobClient& client) {
  const Time now = executor_.fabric().now(), begin = later(now, way.free);
  const Time first = later(now + Time::seconds(spec_.latency_us * 1e-6), way.free);
  way.free = first + Time::seconds(static_cast<double>(bytes) / (spec_.gb_per_s * 1e9));
  return executor_.delay(host_, *way.stream, way.free - begin, label, client);
}

}  // namespace railyard::workload::inference
