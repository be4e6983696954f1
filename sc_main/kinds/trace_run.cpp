#include "sc_main/kinds/trace_run.h"

#include <fmt/format.h>
#include <algorithm>
#include <set>

#include "sc_main/output_file.h"

namespace railyard {

using namespace workload::execution_trace;

TraceRun::TraceRun(const Scenario& scenario, platforms::Machine& machine, execution::Executor& executor)
    : WorkloadRun(scenario, machine, executor) {
  for (std::uint32_t rank = 0; rank < trace().ranks.size(); ++rank) gpus_.push_back(GpuId(rank));
  const std::vector<std::string> names = TracePlayer::streams(trace());
  std::vector<const char*> streams;
  for (const std::string& name : names) streams.push_back(name.c_str());
  const std::vector<execution::Rank*> ranks = add_ranks(gpus_, streams);
  std::map<transport::Window, execution::Rank*> sockets;
  std::vector<execution::Rank*> hosts;
  std::vector<gpu::Stream*> loads;
  for (const GpuId id : gpus_) {
    const transport::Window memory = machine_.host_of(id).window();
    execution::Rank*& host = sockets[memory];
    if (host == nullptr) host = &executor_.add_host("host", static_cast<std::uint32_t>(sockets.size() - 1), memory);
    hosts.push_back(host);
    loads.push_back(&host->add_stream(fmt::format("load{}", hosts.size() - 1)));
  }
  player_ = std::make_unique<TracePlayer>(spec(), ranks, hosts, loads, executor_);
}

std::uint64_t TraceRun::nodes() const {
  std::uint64_t nodes = 0;
  for (const RankTrace& rank : trace().ranks) nodes += trace().programs[rank.program].nodes.size();
  return nodes;
}

std::string TraceRun::progress() const {
  return fmt::format("{} of {} jobs done", player_->finished(), player_->jobs());
}

double TraceRun::done_ratio() const { return player_->jobs() == 0 ? 1 : done_of(player_->finished(), player_->jobs()); }

std::vector<TrafficClass> TraceRun::classes() const {
  std::set<std::uint8_t> numbers{number(TrafficClass::tp), number(TrafficClass::pp)};
  for (const CommGroup& group : trace().groups) numbers.insert(number(group.traffic_class));
  for (const Program& program : trace().programs) {
    for (const TraceNode& node : program.nodes) {
      if (node.spec) numbers.insert(node.spec->traffic_class);
      if (node.engine) numbers.insert(node.engine->traffic_class);
    }
  }
  std::vector<TrafficClass> classes;
  for (const std::uint8_t number : numbers) classes.push_back(static_cast<TrafficClass>(number));
  return classes;
}

std::vector<RouteOfInterest> TraceRun::routes() {
  std::vector<RouteOfInterest> routes;
  std::vector<bool> shown(kTrafficClasses.size());
  const auto add = [&](const std::string& what, TrafficClass traffic_class, std::uint32_t from, std::uint32_t to) {
    if (shown[number(traffic_class)]) return;
    shown[number(traffic_class)] = true;
    routes.push_back(
        {fmt::format("{}: rank {} to rank {}", what, from, to), traffic_class, gpus_[from].value(), gpus_[to].value()});
  };
  for (const Meeting& meeting : spec().order->meetings) {
    if (meeting.is_exchange) {
      add("send", TrafficClass::pp, meeting.ranks[0], meeting.ranks[1]);
    } else {
      const CommGroup& group = trace().groups[meeting.group];
      add("group " + group.name, group.traffic_class, group.ranks[0], group.ranks[1]);
    }
  }
  return routes;
}

std::vector<RankSets> TraceRun::rank_sets() {
  std::vector<RankSets> sets;
  const auto& communicators = player_->communicators();
  for (std::size_t g = 0; g < communicators.size(); ++g) {
    if (!communicators[g]) continue;
    const CommGroup& group = trace().groups[g];
    const std::string name = group.name.substr(0, group.name.find('['));  // "tp" of "tp[3]"
    if (sets.empty() || sets.back().group != name) sets.push_back({name, {}});
    sets.back().ranks.push_back(group.ranks);
  }
  return sets;
}

std::map<std::string, TraceRun::Traffic> TraceRun::traffic_kinds() const {
  std::map<std::string, Traffic> kinds;
  const auto add = [&](const std::string& what, Bytes bytes) {
    ++kinds[what].count;
    kinds[what].bytes += bytes;
  };
  for (const Meeting& meeting : spec().order->meetings) {
    const TraceNode& node = trace().nodes(meeting.ranks[0])[meeting.nodes[0]];
    add(meeting.is_exchange ? "send" : name_of(node.operation), node.bytes);
  }
  for (const Emission& e : spec().order->emissions) {
    if (e.meeting != Emission::kAlone) continue;
    const TraceNode& node = trace().nodes(e.rank)[e.node];
    if (node.kind == NodeKind::load) add("load", node.bytes);
    if (node.kind == NodeKind::store) add("store", node.bytes);
  }
  return kinds;
}

Value TraceRun::traffic_by_kind(std::uint64_t Traffic::*member) const {
  Value kinds = Value::empty_group();
  for (const auto& [what, sum] : traffic_kinds()) kinds[what] = sum.*member;
  return kinds;
}

Value TraceRun::explain() {
  return {{"ranks", trace().ranks.size()},
          {"nodes", nodes()},
          {"jobs", player_->jobs()},
          {"traffic_count", traffic_by_kind(&Traffic::count)},
          {"traffic_bytes", traffic_by_kind(&Traffic::bytes)}};
}

std::string TraceRun::explain_text(const Value& e) const {
  std::string text = fmt::format("{}: {} jobs\n\n  {:<16} {:>10} {:>20}\n", title(), e["jobs"].integer(), "", "number",
                                 "bytes in all");
  for (const auto& [what, sum] : traffic_kinds())
    text += fmt::format("  {:<16} {:>10} {:>20}\n", what, sum.count, sum.bytes);
  return text;
}

void TraceRun::add_setup(Value& setup) const {
  setup["ranks"] = trace().ranks.size();
  setup["nodes"] = nodes();
}

double TraceRun::mean_s(Time RankResult::*member) const {
  double sum = 0;
  for (const RankResult& result : player_->results()) sum += (result.*member).seconds();
  return sum / static_cast<double>(player_->results().size());
}

const Metrics<TraceRun>& TraceRun::declared_metrics() {
  using Run = TraceRun;
  static const Metrics<Run> metrics{
      {"ranks", "", "ranks of the trace", [](const Run& run) -> Value { return run.trace().ranks.size(); }},
      {"nodes", "", "nodes of all ranks", [](const Run& run) -> Value { return run.nodes(); }},
      {"makespan_s", "s", "from the start to the end of the last node",
       [](const Run& run) -> Value { return run.player_->end().seconds(); }},
      {"compute_s", "s", "compute nodes of a rank, mean of all ranks",
       [](const Run& run) -> Value { return run.mean_s(&RankResult::compute); }},
      {"exposed_s", "s", "time until a rank's last node in which the rank ran no compute node, mean of all ranks",
       [](const Run& run) -> Value { return run.mean_s(&RankResult::end) - run.mean_s(&RankResult::compute); }},
      {"traffic_count.[kind]", "", "number of collectives by operation, and of sends, loads and stores",
       [](const Run& run) { return run.traffic_by_kind(&Traffic::count); }},
      {"traffic_bytes.[kind]", "B", "sum of their sizes",
       [](const Run& run) { return run.traffic_by_kind(&Traffic::bytes); }},
  };
  return metrics;
}

std::string TraceRun::title() const {
  return fmt::format("{} nodes of {} ranks on {}", nodes(), trace().ranks.size(), machine_text(scenario_));
}

std::string TraceRun::table() const {
  constexpr std::size_t kShown = 8;
  const std::vector<RankResult>& results = player_->results();
  std::string text =
      fmt::format("{}\n\n  {:<6} {:>8} {:>12} {:>12} {:>12}\n", title(), "rank", "nodes", "end", "compute", "exposed");
  std::vector<std::size_t> order(results.size());
  for (std::size_t r = 0; r < order.size(); ++r) order[r] = r;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return results[b].end < results[a].end; });
  for (std::size_t i = 0; i < std::min(kShown, order.size()); ++i) {
    const RankResult& r = results[order[i]];
    text += fmt::format("  {:<6} {:>8} {:>12} {:>12} {:>12}\n", order[i], r.nodes, duration_text(r.end.seconds()),
                        duration_text(r.compute.seconds()), duration_text((r.end - r.compute).seconds()));
  }
  if (order.size() > kShown)
    text += fmt::format("  the latest {} of {} ranks; all of them are in ranks.csv\n", kShown, order.size());
  return text;
}

void TraceRun::write_tables(const OutputDirectory& directory) {
  OutputFile out(directory.file("ranks.csv"));
  out.print("rank,gpu,nodes,end_s,compute_s,exposed_s\n");
  for (std::size_t rank = 0; rank < gpus_.size(); ++rank) {
    const RankResult& r = player_->results()[rank];
    out.print("{},{},{},{:.15f},{:.15f},{:.15f}\n", rank, machine_.gpu(gpus_[rank]).name(), r.nodes, r.end.seconds(),
              r.compute.seconds(), (r.end - r.compute).seconds());
  }
}

RunKind trace_run() { return run_kind<TraceRun>(); }

}  // namespace railyard
