#include "sc_main/scenario/workload.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <set>

#include "sc_main/scenario/datasheets/datasheets.h"
#include "sc_main/scenario/kinds/traces.h"
#include "sc_main/scenario/table/times.h"
#include "sc_main/scenario/table/words.h"

namespace railyard::scenario {

using transformer::ModelShape;
using workload::prefill::Mapping;
using workload::prefill::PrefillSpec;
using workload::prefill::Request;

namespace {

[[noreturn]] void refuse(const Source& source, const std::string& key, const std::string& what) {
  throw InputError(place_of(source.root, key), key + ": " + what);
}

std::string count(std::uint64_t n, const std::string& noun) {
  return std::to_string(n) + " " + noun + (n == 1 ? "" : "s");
}

std::vector<Request> written_requests(const RequestsSection& requests, std::uint32_t otherwise_output) {
  std::vector<Request> result;
  if (requests.list.empty()) {
    result.assign(requests.count, {Time(), requests.prompt_tokens, requests.output_tokens.value_or(otherwise_output)});
    return result;
  }
  constexpr long double kFsPerSecond = 1e15L;
  for (const RequestItem& item : requests.list) {
    result.push_back(
        {long_time(item.arrival_s * kFsPerSecond), item.prompt_tokens, item.output_tokens.value_or(otherwise_output)});
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const Request& a, const Request& b) { return a.arrival < b.arrival; });
  return result;
}

std::vector<Request> resolve_requests(const PrefillSection& written, const Source& source) {
  const std::string key = "workload.requests";
  const RequestsSection& requests = written.requests;
  const NodePtr steps = value_at(source.root, "workload.decode.steps");
  const bool is_list = value_at(source.root, key + ".list") != nullptr;
  std::vector<Request> result;
  if (!requests.file.empty()) {
    const std::string path = requests.file;
    result = load_trace(requests, path, place_of(source.root, key + ".file"));
  } else {
    if (is_list && requests.list.empty()) refuse(source, key + ".list", "is empty; at least one request");
    if (steps && !written.decode.steps) {  // `trace`
      const auto has_output = [](const RequestItem& item) { return item.output_tokens.has_value(); };
      const auto missing = std::find_if_not(requests.list.begin(), requests.list.end(), has_output);
      if (missing != requests.list.end()) {
        refuse(source, key + ".list." + std::to_string(missing - requests.list.begin()),
               "has no output_tokens, which workload.decode.steps: trace needs");
      }
      if (!is_list && !requests.output_tokens)
        refuse(source, key, "has no output_tokens, which workload.decode.steps: trace needs");
    }
    result = written_requests(requests, kDefaultSteps + 1);
  }
  if (written.decode.steps) {
    for (Request& request : result) request.output_tokens = *written.decode.steps + 1;
  }
  return result;
}

std::vector<std::uint32_t> resolve_stages(const MappingSection& written, std::uint32_t pp, const ModelShape& model,
                                          const std::string& key, const Source& source) {
  if (pp > model.layers)
    refuse(source, key + ".pp",
           std::to_string(pp) + " is more than the " + count(model.layers, "layer") + " of " + model.name);
  if (!written.stage_layers) {
    std::vector<std::uint32_t> even(pp, model.layers / pp);
    for (std::uint32_t p = 0; p < model.layers % pp; ++p) ++even[p];
    return even;
  }
  const std::vector<std::uint32_t>& layers = *written.stage_layers;
  if (layers.size() != pp) {
    refuse(source, key + ".stage_layers",
           "has " + count(layers.size(), "stage") + "; " + key + ".pp is " + std::to_string(pp));
  }
  const std::uint64_t sum = std::accumulate(layers.begin(), layers.end(), std::uint64_t{0});
  if (sum != model.layers) {
    refuse(source, key + ".stage_layers",
           "adds up to " + std::to_string(sum) + "; " + model.name + " has " + count(model.layers, "layer"));
  }
  return layers;
}

std::vector<std::uint32_t> resolve_placement(const std::optional<std::vector<std::uint32_t>>& written,
                                             std::uint32_t ranks, std::uint32_t gpus, const std::string& group,
                                             const Source& source) {
  if (!written) {
    std::vector<std::uint32_t> identity(ranks);
    std::iota(identity.begin(), identity.end(), 0u);
    return identity;
  }
  const std::string nested = "workload.placement." + group;
  const std::string key = value_at(source.root, nested) ? nested : "workload.placement";
  if (written->size() != ranks) {
    refuse(source, key,
           "lists " + count(written->size(), "GPU") + "; the " + group + " group runs " + count(ranks, "rank"));
  }
  std::set<std::uint32_t> taken;
  for (std::size_t rank = 0; rank < written->size(); ++rank) {
    const std::uint32_t gpu = (*written)[rank];
    const std::string item = key + "." + std::to_string(rank);
    if (gpu >= gpus)
      refuse(source, item,
             "no GPU " + std::to_string(gpu) + "; the " + group + " group has GPUs 0 to " + std::to_string(gpus - 1));
    if (!taken.insert(gpu).second) refuse(source, item, "GPU " + std::to_string(gpu) + " twice; each holds one rank");
  }
  return *written;
}

Mapping resolve_mapping(const MappingSection& written, const Mapping* otherwise, const std::string& group,
                        const std::optional<std::vector<std::uint32_t>>& placement, const ModelShape& model,
                        const platforms::MachineSpec& machine, const Source& source) {
  const std::string key = "workload." + group;
  Mapping mapping;
  mapping.tp = written.tp.value_or(otherwise ? otherwise->tp : 1);
  mapping.pp = written.pp.value_or(otherwise ? otherwise->pp : 1);
  check_heads(mapping.tp, model, key + ".tp", source);
  mapping.stage_layers = resolve_stages(written, mapping.pp, model, key, source);
  const auto spec =
      std::find_if(machine.groups.begin(), machine.groups.end(), [&](const auto& g) { return g.name == group; });
  const std::uint32_t gpus = spec->servers * machine.board.gpus;
  if (mapping.ranks() > gpus) {
    const std::uint64_t servers = ceil_div(mapping.ranks(), machine.board.gpus);
    refuse(source, key + ".tp",
           "tp " + std::to_string(mapping.tp) + " x pp " + std::to_string(mapping.pp) + " needs " +
               count(mapping.ranks(), "GPU") + "; the " + group + " group has " + std::to_string(gpus) + " (" +
               count(spec->servers, "server") + " of " + std::to_string(machine.board.gpus) + "); set machine.groups." +
               group + ".servers to " + std::to_string(servers) + " or more");
  }
  mapping.placement = resolve_placement(placement, mapping.ranks(), gpus, group, source);
  return mapping;
}

}  // namespace

void check_heads(std::uint32_t tp, const ModelShape& model, const std::string& key, const Source& source) {
  if (model.heads % tp != 0) {
    refuse(source, key,
           std::to_string(tp) + " does not divide the " + count(model.heads, "attention head") + " of " + model.name);
  }
  if (model.kv_heads % tp != 0 && tp % model.kv_heads != 0) {
    refuse(source, key,
           std::to_string(tp) + " neither divides nor is a multiple of the " + count(model.kv_heads, "KV head") +
               " of " + model.name);
  }
}

workload::Host resolve_host(const HostSection& written) {
  workload::Host host = load_host(written.preset);
  host.async = written.async.value_or(host.async);
  host.step_us = written.step_us.value_or(host.step_us);
  host.sequence_us = written.sequence_us.value_or(host.sequence_us);
  host.layer_us = written.layer_us.value_or(host.layer_us);
  host.request_us = written.request_us.value_or(host.request_us);
  host.token_us = written.token_us.value_or(host.token_us);
  return host;
}

PrefillSpec resolve_prefill(const PrefillSection& written, const ModelShape& model,
                            const platforms::MachineSpec& machine, const Source& source) {
  PrefillSpec spec;
  spec.prefill =
      resolve_mapping(written.prefill, nullptr, "prefill", written.placement.prefill, model, machine, source);
  spec.decode =
      resolve_mapping(written.decode, &spec.prefill, "decode", written.placement.decode, model, machine, source);
  spec.requests = resolve_requests(written, source);
  spec.chunk_tokens = written.chunk_tokens;
  spec.memory_limit_ratio = written.memory_limit_ratio;
  spec.nic_rule = written.nic_rule;
  spec.handoff = written.handoff;
  spec.pp_send = written.pp_send;
  spec.max_batch = written.decode.max_batch;
  spec.host = resolve_host(written.host);
  return spec;
}

}  // namespace railyard::scenario
