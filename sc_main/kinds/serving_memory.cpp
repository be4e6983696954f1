#include "sc_main/kinds/serving_memory.h"

#include <fmt/format.h>
#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "base/input_error.h"

namespace railyard {

using workload::inference::InstanceRole;
using workload::inference::InstanceSpec;
using workload::inference::Request;
using workload::inference::ServingSpec;
using workload::inference::StageMemory;

namespace {

const gpu::GpuDatasheet& gpu_of(const Scenario& scenario, const InstanceSpec& instance) {
  return scenario.machine.groups[instance.group].gpu;
}

void check_longest(const ServingSpec& spec, const InstanceSpec& instance, std::uint32_t blocks) {
  if (!spec.longest) return;
  const auto& [tokens, where] = *spec.longest;
  const std::uint64_t needed = ceil_div(instance.scheduler.most_slots(tokens), instance.scheduler.block_tokens);
  if (needed < blocks) return;
  throw InputError(where,
                   fmt::format("workload.requests: a request of {} tokens, prompt and answer, needs {} KV blocks; "
                               "accepted: up to {}, all that a request can have",
                               tokens, needed, blocks - 1));
}

}  // namespace

std::vector<StageMemory> stage_memory(const Scenario& scenario, const InstanceSpec& instance) {
  return workload::inference::stage_memory(scenario.model, instance, instance.memory,
                                           gpu_of(scenario, instance).hbm.visible_bytes());
}

std::uint32_t kv_blocks(const Scenario& scenario, const InstanceSpec& instance) {
  const ServingSpec& spec = scenario.spec<ServingSpec>();
  const gpu::GpuDatasheet& gpu = gpu_of(scenario, instance);
  const std::vector<StageMemory> stages = stage_memory(scenario, instance);
  const auto least = std::min_element(
      stages.begin(), stages.end(), [](const StageMemory& a, const StageMemory& b) { return a.blocks() < b.blocks(); });
  if (least->blocks() < 2)
    throw InputError(
        scenario.workload_origin,
        fmt::format("workload: a rank of stage {} on {} has no memory for KV cache: {:.2f} GB are missing for two "
                    "blocks, with {:.2f} GB of weights, {:.2f} GB of activations and {:.2f} GB reserved in {:.2f} GB; "
                    "set a larger tp or pp, or a smaller max_batched_tokens",
                    least - stages.begin(), gpu.name, (2 * static_cast<double>(least->block) - least->left) * 1e-9,
                    static_cast<double>(least->weights) * 1e-9, static_cast<double>(least->activations) * 1e-9,
                    static_cast<double>(instance.memory.engine_reserved_bytes) * 1e-9,
                    gpu.hbm.visible_bytes() * instance.memory.memory_limit_ratio * 1e-9));
  std::uint32_t blocks = least->blocks();
  if (instance.kv_blocks) {
    const auto& [written, key, where] = *instance.kv_blocks;
    if (written > blocks)
      throw InputError(where,
                       fmt::format("{}: {} is more than memory holds; accepted: up to {}", key, written, blocks));
    blocks = written;
  }
  check_longest(spec, instance, blocks);
  return blocks;
}

std::vector<std::vector<std::uint64_t>> tier_kv_blocks(const Scenario& scenario, const TierMemory& tier,
                                                       const std::vector<std::uint32_t>& pools) {
  const ServingSpec& spec = scenario.spec<ServingSpec>();
  std::vector<std::vector<std::uint64_t>> blocks(spec.instances.size());
  if (tier.bytes_per_server == 0) return blocks;
  using Server = std::pair<std::uint32_t, std::uint32_t>;  // group, number
  struct Use {
    std::uint32_t ranks = 0;
    double block_bytes = 0;  ///< of a block, over these ranks
  };
  struct Store {
    std::size_t instance = 0;
    std::uint32_t pool = 0;
    std::map<Server, Use> uses;
  };
  std::vector<Store> stores;
  std::map<Server, std::uint32_t> ranks;
  std::map<std::pair<std::uint32_t, Server>, std::uint32_t> pool_ranks;
  for (std::size_t i = 0; i < spec.instances.size(); ++i) {
    const InstanceSpec& instance = spec.instances[i];
    const workload::inference::Mapping& mapping = instance.mapping;
    const std::vector<StageMemory> stages = stage_memory(scenario, instance);
    for (std::uint32_t replica = 0; replica < mapping.dp; ++replica) {
      const auto number = static_cast<std::uint32_t>(stores.size());
      Store& store = stores.emplace_back();
      store.instance = i;
      store.pool = pools.empty() ? number : pools[number];
      for (const std::uint32_t rank : mapping.ranks_of(replica)) {
        const Server server{instance.group, mapping.placement[rank] / scenario.machine.board.gpus};
        Use& use = store.uses[server];
        ++use.ranks;
        use.block_bytes += static_cast<double>(stages[rank / (mapping.tp * mapping.dp)].block);
        ++ranks[server];
        ++pool_ranks[{store.pool, server}];
      }
    }
  }
  for (const Store& store : stores) {
    double least = std::numeric_limits<double>::max(), needed = 0;
    for (const auto& [server, use] : store.uses) {
      const double share = static_cast<double>(pool_ranks[{store.pool, server}]) / ranks[server];
      least = std::min(least, tier.bytes_per_server * share / use.block_bytes);
      needed = std::max(needed, use.block_bytes / share);
    }
    if (least < 1)
      throw InputError(tier.where,
                       fmt::format("workload.kv_tiers.{}.bytes_per_server: {:.9g} hold no block of KV cache of "
                                   "instance {}; accepted: at least {:.0f}",
                                   tier.name, tier.bytes_per_server, spec.instances[store.instance].name, needed));
    blocks[store.instance].push_back(static_cast<std::uint64_t>(least));
  }
  return blocks;
}

transformer::MemoryLoad whole_sequence_load(const ServingSpec& spec, const InstanceSpec& instance) {
  const bool is_answer = instance.role == InstanceRole::decode;
  transformer::MemoryLoad load;
  for (const Request& r : *spec.listed)
    load.kv_tokens = std::max<std::uint64_t>(load.kv_tokens, r.prompt_tokens + (is_answer ? r.output_tokens : 0));
  load.pass_tokens = std::min(instance.whole->max_batched_tokens, instance.whole->longest_pass);
  if (is_answer)
    load.logit_rows = instance.whole->max_seqs;
  else
    load.new_tokens = load.pass_tokens;
  return load;
}

void check_whole_sequences(const Scenario& scenario, const InstanceSpec& instance) {
  const ServingSpec& spec = scenario.spec<ServingSpec>();
  const gpu::GpuDatasheet& gpu = gpu_of(scenario, instance);
  const transformer::MemoryCheck check = transformer::check_memory(
      scenario.model, instance.mapping.stage_layers, instance.mapping.tp, whole_sequence_load(spec, instance),
      gpu.hbm.capacity_gb * 1e9, instance.memory.memory_limit_ratio);
  if (!check.fits)
    throw InputError(instance.where, fmt::format("{} on {}: {}", instance.key, gpu.name, check.sentence));
}

}  // namespace railyard
