#include "sc_main/scenario/datasheets/connector_record.h"

namespace railyard::scenario {

Record<workload::inference::KvConnector> connector_record() {
  using workload::inference::KvConnector;
  constexpr double kLongestPostUs = 1e6, kLongestMeetingUs = 1e8, kLongestLeaseS = 1e5;
  Record<KvConnector> r;
  r.add("descriptor_us", &KvConnector::descriptor_us,
        "time of a thread of each rank to post one descriptor: a piece of memory that is one on both sides")
      .range(0, kLongestPostUs);
  r.add("merges_adjacent", &KvConnector::merges_adjacent, "blocks that are neighbours on both sides are one piece");
  r.add("cross_layer_blocks", &KvConnector::cross_layer_blocks,
        "all layers of a block are one piece; else the keys and the values of each layer");
  r.add("scatters_heads", &KvConnector::scatters_heads,
        "ranks that divide the heads in different ways: a piece for each token and layer; else for each block");
  r.choice("staging", &KvConnector::staging, words_of(workload::inference::kKvStagingNames),
           "KV that a kernel of the GPU with the prompt gathers in one buffer, which is one piece, and a kernel of the "
           "other GPU "
           "brings to its blocks. none; resharded: that of ranks which divide the heads in different ways; all");
  r.add("seen_at_step", &KvConnector::seen_at_step,
        "an engine that is in a step learns at its end that KV has arrived; else at once");
  r.add("metadata_us", &KvConnector::metadata_us,
        "first contact of two instances: time of a rank to get the metadata of each rank from which it reads, or to "
        "which it "
        "writes")
      .range(0, kLongestMeetingUs);
  r.add("prepare_us", &KvConnector::prepare_us,
        "the same: time to prepare a descriptor, for each piece of all KV cache of these ranks")
      .range(0, kLongestPostUs);
  r.add("lease_s", &KvConnector::lease_s,
        "pull: KV of a prompt that no instance asks for is given up after this time. An instance that waits for it "
        "renews two thirds of it. 0: never")
      .range(0, kLongestLeaseS);
  return r;
}

}  // namespace railyard::scenario
