#include "collective/nccl_tables.h"

namespace railyard::collective {

namespace {

void set_latencies(NcclTables& t) {
  t.ring_base_us.simple = 8.4;
  t.ring_base_us.ll = 6.6;
  t.ring_base_us.ll128 = 14.0;
  t.tree_base_us.simple = 8.4;
  t.tree_base_us.ll = 6.8;
  t.tree_base_us.ll128 = 14.0;

  NcclTables::Hop& nvlink = t.nvlink_hop;
  nvlink.tree_us.simple = 4.0;
  nvlink.tree_us.ll = 0.6;
  nvlink.tree_us.ll128 = 1.25;
  nvlink.ring_us.simple = 3.4;
  nvlink.ring_us.ll = 0.6;
  nvlink.ring_us.ll128 = 1.9;
  nvlink.nvls_us = nvlink.nvls_tree_us = 25;
  nvlink.collnet_direct_us = 3.7;

  NcclTables::Hop& pcie = t.pcie_hop;
  pcie.tree_us.simple = 4.0;
  pcie.tree_us.ll = 1.0;
  pcie.tree_us.ll128 = 1.9;
  pcie.ring_us.simple = 5.7;
  pcie.ring_us.ll = 1.0;
  pcie.ring_us.ll128 = 2.5;
  pcie.collnet_direct_us = 3.7;

  NcclTables::Hop& network = t.network_hop;
  network.tree_us.simple = 14;
  network.tree_us.ll = 5.0;
  network.tree_us.ll128 = 8.5;
  network.ring_us.simple = 14;
  network.ring_us.ll = 2.7;
  network.ring_us.ll128 = 4.0;
  network.nvls_us = 18;
  network.nvls_tree_us = 20.9;
  network.collnet_direct_us = 31;
}

void set_generations(NcclTables& t) {
  t.volta.one_server_speeds = {40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3};
  t.volta.several_servers_speeds = {48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4, 1.2, 0.24, 0.12};
  t.volta.ll_gb_per_s = 39;
  t.volta.ring_ll128_gb_per_s = 20;
  t.volta.tree_ll128_gb_per_s.one = 20;
  t.volta.tree_ll128_gb_per_s.two = 20;
  t.volta.tree_ll128_gb_per_s.more = 20;
  t.volta.tree_gb_per_s.one = 26.5;
  t.volta.tree_gb_per_s.two = 18.5;
  t.volta.tree_gb_per_s.more = 10;
  t.volta.nvls_tree_gb_per_s.one = 26.5;
  t.volta.nvls_tree_gb_per_s.two = 18.5;
  t.volta.nvls_tree_gb_per_s.more = 10;
  t.volta.plateau_ratio = 1.9;

  t.ampere.one_server_speeds = t.volta.one_server_speeds;
  t.ampere.several_servers_speeds = t.volta.several_servers_speeds;
  t.ampere.ll_gb_per_s = 87.7;
  t.ampere.ring_ll128_gb_per_s = 20;
  t.ampere.tree_ll128_gb_per_s.one = 20;
  t.ampere.tree_ll128_gb_per_s.two = 20;
  t.ampere.tree_ll128_gb_per_s.more = 20;
  t.ampere.tree_gb_per_s.one = 24;
  t.ampere.tree_gb_per_s.two = 23.6;
  t.ampere.tree_gb_per_s.more = 17.8;
  t.ampere.nvls_tree_gb_per_s.one = 24;
  t.ampere.nvls_tree_gb_per_s.two = 23.6;
  t.ampere.nvls_tree_gb_per_s.more = 17.8;
  t.ampere.plateau_ratio = 1.4;

  t.hopper.one_server_speeds = {60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3};
  t.hopper.several_servers_speeds = {48, 45, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12};
  t.hopper.ll_gb_per_s = 141;
  t.hopper.ring_ll128_gb_per_s = 36.7;
  t.hopper.tree_ll128_gb_per_s.one = 36.7;
  t.hopper.tree_ll128_gb_per_s.two = 36.7;
  t.hopper.tree_ll128_gb_per_s.more = 29;
  t.hopper.tree_gb_per_s.one = 38.7;
  t.hopper.tree_gb_per_s.two = 41.4;
  t.hopper.tree_gb_per_s.more = 36;
  t.hopper.nvls_tree_gb_per_s.one = 0;
  t.hopper.nvls_tree_gb_per_s.two = 57.7;
  t.hopper.nvls_tree_gb_per_s.more = 45.5;
  t.hopper.nvls_efficiency_ratio = 0.85;
  t.hopper.plateau_ratio = 1.4;

  t.blackwell.one_server_speeds = {90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18};
  t.blackwell.several_servers_speeds = {96, 48, 45.1, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12};
  t.blackwell.ll_gb_per_s = 282;
  t.blackwell.ring_ll128_gb_per_s = 34.5;
  t.blackwell.tree_ll128_gb_per_s.one = 55.6;
  t.blackwell.tree_ll128_gb_per_s.two = 31.67;
  t.blackwell.tree_ll128_gb_per_s.more = 20;
  t.blackwell.tree_gb_per_s.one = 70;
  t.blackwell.tree_gb_per_s.two = 42.8;
  t.blackwell.tree_gb_per_s.more = 24;
  t.blackwell.nvls_tree_gb_per_s.one = 0;
  t.blackwell.nvls_tree_gb_per_s.two = 96;
  t.blackwell.nvls_tree_gb_per_s.more = 43.8;
  t.blackwell.nvls_efficiency_ratio = 0.74;
  t.blackwell.plateau_ratio = 1.4;
}

void set_network(NcclTables& t) {
  t.intel_ll_gb_per_s.two = 39;
  t.intel_ll_gb_per_s.more = 20.4;
  t.amd_ll_gb_per_s.two = 22.5;
  t.amd_ll_gb_per_s.more = 19;
  t.intel_post_us = 1;
  t.amd_post_us = 2;
  t.simple_posts = 3;
  t.plateau_bytes = 64;
  t.lone_gpu_tree_ratio = 0.85;
  t.tree_sizes = 23;
  t.tree_ratio.simple = {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
                         .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9};
  t.tree_ratio.ll = {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1};
  t.tree_ratio.ll128 = {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1};
  t.collnet_member_us = 0.4;
  t.collnet_from_hopper_ratio = 0.85;
  t.collnet_most_gpus = 8;
  t.collnet_threads = 640;
  t.collnet_thread_bytes = 512;
}

void set_links(NcclTables& t) {
  t.nvlink[1].planned_gb_per_s = 18;
  t.nvlink[2].planned_gb_per_s = 20;
  t.nvlink[3].planned_gb_per_s = 20;
  t.nvlink[4].planned_gb_per_s = 20.6;
  t.nvlink[5].planned_gb_per_s = 40.1;
  t.nvlink[1].wire_gb_per_s = 20;
  t.nvlink[2].wire_gb_per_s = 25;
  t.nvlink[3].wire_gb_per_s = 25;
  t.nvlink[4].wire_gb_per_s = 25;
  t.nvlink[5].wire_gb_per_s = 50;
  t.card_nvlink.planned_gb_per_s = 12;
  t.card_nvlink.wire_gb_per_s = 14.0625;
  t.amd_sockets_gb_per_s = 16;
  t.intel_sockets_gb_per_s = 10;
  t.intel_gen5_sockets_gb_per_s = 22;
  t.gen5_root_gb_per_s = 40;
  t.intel_peer_cost_ratio = 1.2;
  t.most_graph_channels = 32;
  t.slowest_gb_per_s = 0.1;
  t.next_speed_ratio = 0.49;
}

void set_transport(NcclTables& t) {
  constexpr Bytes kKib = 1 << 10;
  t.thread_bytes.simple = 64;
  t.thread_bytes.ll = t.thread_bytes.ll128 = 8;
  t.least_threads = 64;
  t.most_threads.simple = t.most_threads.ll = 512;
  t.most_threads.ll128 = 640;
  t.blackwell_nvls_tree_channels = 32;
  t.most_heads = 32;
  t.slot_bytes.simple = 512 * kKib;
  t.slot_bytes.ll = 32 * kKib;
  t.slot_bytes.ll128 = 576'000;
  t.slots = 8;
  t.ring_slots = 4;
  t.ring_slices = 2;
  t.nvls_chunk_bytes = 128 * kKib;
  t.nvls_tree_far_chunk_bytes = 64 * kKib;
  t.ll_line_bytes = 8;
  t.ll128_line_bytes = 60;
  NcclTables::PointToPoint& p = t.point_to_point;
  p.nvlink_step_bytes = 512 * kKib;
  p.other_step_bytes = 128 * kKib;
  p.ll_step_bytes = 64 * kKib;
  p.ll_part_bytes = 16 * kKib;
  p.pcie_channels_per_peer = 2;
  p.least_network_channels = 2;
  p.network_channel_gb_per_s = 14;
  p.receiving_warps = 9;
}

void set_fitted(NcclTables& t) {
  // What NCCL plans with on AMD hosts (src/graph/tuning.cc), and what all-gathers of 1 to 4 KiB over two servers of eight H200
  // show (28.4 us; with 1 us, as on Intel hosts, 24). In Simple a proxy posts data and flag.
  t.fitted.proxy_us = 2;
  t.fitted.simple_posts = 2;
  // In LL a proxy reads both flags of every line in host memory before it sends them (src/transport/net.cc, sendProxyProgress), so
  // NCCL plans LL over servers by the CPU. Its authors measured machines of eight NICs (DGX-2, DGX A100). A proxy then moves 2.4 to
  // 2.6 GB/s. Of two servers with one GPU each, 8 KiB more take 4 us and 16 KiB more 8 us (NVIDIA/dgx-spark-playbooks pull
  // request 103: 28, 32 and 40 us for 8, 16 and 32 KiB), 2.1 GB/s.
  t.fitted.ll_proxies = 8;
  // A read over PCIe. Rings over eight RTX PRO 6000 below two sockets take 1.3 to 1.6 us for each line of 4 KiB in each of
  // two channels (ai-dynamo/aiconfigurator 095f58a, comm tables).
  t.fitted.host_line_ns = 1500;
  // The same for all GPUs; chosen with rings of 1 MiB to 16 GiB on A100, H100 and B200 (validation/nccl.csv).
  t.fitted.actions_to_drift_one = 100;
}

NcclTables v2_29() {
  NcclTables tables;
  set_latencies(tables);
  set_generations(tables);
  set_network(tables);
  set_links(tables);
  set_transport(tables);
  set_fitted(tables);
  return tables;
}

}  // namespace

NcclGeneration nccl_generation(gpu::Architecture architecture) {
  switch (facts_of(architecture).compute_capability) {
    case 7: return NcclGeneration::volta;
    case 9: return NcclGeneration::hopper;
    case 10: return NcclGeneration::blackwell;
    default: return NcclGeneration::ampere;
  }
}

const NcclTables& nccl_tables() {
  static const NcclTables tables = v2_29();
  return tables;
}

NcclMessageRules rules_of(NcclVersion version) {
  NcclMessageRules rules;
  rules.by_message = version < NcclVersion::v2_29;
  rules.counts_channels = version == NcclVersion::v2_27;
  return rules;
}

}  // namespace railyard::collective
