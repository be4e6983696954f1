#include "sc_main/why.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "base/output.h"
#include "sc_main/jobs_csv.h"

namespace railyard {

namespace {

using transport::CostKind;
using Doubt = probe::CriticalPath::Doubt;
using Measure = probe::CriticalPath::Measure;

constexpr int kSchemaVersion = 3;
/// The table leaves out what is less of a metric than this.
constexpr double kLeastShown = 0.001;
/// In the table.
constexpr std::array<const char*, transport::kCostKinds> kLabels{"kernels",
                                                                 "kernel slow-down by contention",
                                                                 "slow GPUs",
                                                                 "collectives waiting for SMs",
                                                                 "collective protocol steps",
                                                                 "DMA engines and copy rates",
                                                                 "latency",
                                                                 "serialisation on the bottleneck link",
                                                                 "queueing",
                                                                 "host software",
                                                                 "delays",
                                                                 "idle: no work had arrived"};
constexpr std::array<const char*, execution::kHostWorkNames.size()> kHostLabels{
    "steps and launches", "clients", "router", "API server", "posts", "handshakes"};

/// Of a row of the table: where most of it was.
std::string most_at(const Value& row) {
  if (!row.contains("worst_link")) return {};
  return fmt::format("   most at {} {}", row["worst_link"].text(), row["worst_link_direction"].text());
}

/// A metric as the field calls it.
std::string title_of(const std::string& metric) {
  if (metric == "ttft_s") return "TTFT";
  if (metric == "tpot_s") return "TPOT";
  return metric == "end_s" ? "the run" : metric;
}

}  // namespace

Why::Why(Simulation& simulation) : simulation_(simulation), links_(link_table(simulation)) {
  probe::CriticalPath::Groups group_of;
  for (std::size_t row = 0; row < links_.size(); ++row) {
    auto group =
        std::find_if(groups_.begin(), groups_.end(), [&](const LinkGroup& g) { return g.kind == links_[row].kind; });
    if (group == groups_.end()) group = groups_.insert(groups_.end(), {links_[row].kind, {}});
    group->rows.push_back(row);
    group_of[&links_[row].counters()] = static_cast<std::size_t>(group - groups_.begin());
  }
  probe::CriticalPath::Stragglers stragglers;
  for (const MachineEvent& event : simulation.scenario().events) {
    if (event.kind != MachineEvent::Kind::slow_gpu) continue;
    for (std::uint32_t g = 0; g < simulation.machine().gpus(); ++g) {
      const gpu::Gpu& gpu = simulation.machine().gpu(GpuId(g));
      if (event.name == gpu.name() && stragglers.emplace(&gpu, stragglers_.size()).second)
        stragglers_.push_back(event.name);
    }
  }
  frees_ = {kTrafficClasses.size(), groups_.size(), stragglers_.size()};
  path_.emplace(simulation.fabric(), frees_, std::move(group_of), std::move(stragglers));
  if (!simulation.modules().empty()) path_->leave_out(number(TrafficClass::other));
  simulation.workload().executor().follow(*path_, *path_);
}

void Why::add_without(Value& row, const Measure& measure, std::size_t free) const {
  row["without_s"] = Value();
  if (measure.if_free.empty()) {
    row["without_s"] = 0.0;
    return;
  }
  switch (measure.doubt(free)) {
    case Doubt::none: row["without_s"] = measure.if_free[free] / static_cast<double>(measure.count); break;
    case Doubt::arrivals: row["not_predicted"] = "arrivals"; break;
    case Doubt::queues: row["not_predicted"] = "queues"; break;
  }
}

Value Why::result(const Measure& measure) const {
  const double n = static_cast<double>(std::max<std::uint64_t>(1, measure.count));
  const auto of = [&](CostKind kind, std::uint32_t which, const transport::PortCounters* port) {
    const auto found = measure.cost_seconds.find({kind, which, port});
    return found == measure.cost_seconds.end() ? 0.0 : found->second / n;
  };

  // In the order of the table of links, so that sums do not depend on where ports lie in memory.
  std::array<std::array<double, transport::kCostKinds>, kTrafficClasses.size()> by_class{};
  std::vector<double> wire(links_.size()), queue(links_.size()), engine(links_.size());
  for (std::size_t c = 0; c < by_class.size(); ++c) {
    const auto which = static_cast<std::uint32_t>(c);
    for (std::size_t row = 0; row < links_.size(); ++row) {
      const double bytes = of(CostKind::wire, which, &links_[row].counters()),
                   waits = of(CostKind::queue, which, &links_[row].counters());
      wire[row] += bytes;
      queue[row] += waits;
      const double engines = of(CostKind::engine, which, &links_[row].counters());
      engine[row] += engines;
      by_class[c][static_cast<std::size_t>(CostKind::engine)] += engines;
      by_class[c][static_cast<std::size_t>(CostKind::wire)] += bytes;
      by_class[c][static_cast<std::size_t>(CostKind::queue)] += waits;
    }
    for (const CostKind kind : {CostKind::step, CostKind::engine, CostKind::latency, CostKind::queue})
      by_class[c][static_cast<std::size_t>(kind)] += of(kind, which, nullptr);
  }

  Value r;
  r["metric"] = measure.metric;
  r["count"] = measure.count;
  r["mean_s"] = measure.seconds / n;
  r["costs"] = Value::empty_list();
  for (std::size_t k = 0; k < transport::kCostKinds; ++k) {
    const auto kind = static_cast<CostKind>(k);
    double path_s = 0;
    if (transport::of_traffic(kind)) {
      for (const auto& costs : by_class) path_s += costs[k];
    } else if (kind == CostKind::kernel) {
      for (std::size_t limit = 0; limit < gpu::kKernelLimitNames.size(); ++limit)
        path_s += of(kind, static_cast<std::uint32_t>(limit), nullptr);
    } else if (kind == CostKind::straggler) {
      for (std::size_t gpu = 0; gpu < stragglers_.size(); ++gpu)
        path_s += of(kind, static_cast<std::uint32_t>(gpu), nullptr);
    } else if (kind == CostKind::host) {
      for (std::size_t work = 0; work < execution::kHostWorkNames.size(); ++work)
        path_s += of(kind, static_cast<std::uint32_t>(work), nullptr);
    } else {
      path_s = of(kind, 0, nullptr);
    }
    Value row{{"cost", transport::kCostKindNames[k]}, {"path_s", path_s}};
    add_without(row, measure, k);
    const auto most = std::max_element(engine.begin(), engine.end());
    if (kind == CostKind::engine && most != engine.end() && *most > 0) {
      const LinkRow& worst = links_[static_cast<std::size_t>(most - engine.begin())];
      row["worst_link"] = worst.name;
      row["worst_link_direction"] = worst.direction;
      row["worst_link_s"] = *most;
    }
    r["costs"].push_back(std::move(row));
  }
  r["kernels"] = Value::empty_list();
  for (std::size_t limit = 0; limit < gpu::kKernelLimitNames.size(); ++limit) {
    Value row{{"limit", gpu::kKernelLimitNames[limit]},
              {"path_s", of(CostKind::kernel, static_cast<std::uint32_t>(limit), nullptr)}};
    add_without(row, measure, frees_.of_resource(limit));
    r["kernels"].push_back(std::move(row));
  }
  r["stragglers"] = Value::empty_list();
  for (std::size_t gpu = 0; gpu < stragglers_.size(); ++gpu) {
    Value row{{"gpu", stragglers_[gpu]}, {"path_s", of(CostKind::straggler, static_cast<std::uint32_t>(gpu), nullptr)}};
    add_without(row, measure, frees_.of_straggler(gpu));
    r["stragglers"].push_back(std::move(row));
  }
  r["hosts"] = Value::empty_list();
  for (std::size_t work = 0; work < execution::kHostWorkNames.size(); ++work) {
    Value row{{"work", execution::kHostWorkNames[work]},
              {"path_s", of(CostKind::host, static_cast<std::uint32_t>(work), nullptr)}};
    add_without(row, measure, frees_.of_host(work));
    r["hosts"].push_back(std::move(row));
  }
  r["held_s"] = measure.held_seconds / n;
  r["classes"] = Value::empty_list();
  for (const TrafficClass traffic_class : simulation_.classes()) {
    const std::size_t c = number(traffic_class);
    Value row{{"class", name(traffic_class)}, {"path_s", 0.0}};
    double path_s = 0;
    for (const CostKind kind : {CostKind::step, CostKind::engine, CostKind::latency, CostKind::wire, CostKind::queue}) {
      const double seconds = by_class[c][static_cast<std::size_t>(kind)];
      row[std::string(transport::kCostKindNames[static_cast<std::size_t>(kind)]) + "_s"] = seconds;
      path_s += seconds;
    }
    row["path_s"] = path_s;
    add_without(row, measure, frees_.of_class(c));
    r["classes"].push_back(row);
  }
  r["links"] = Value::empty_list();
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    double bytes = 0, waits = 0, most = 0;
    const LinkRow* worst = nullptr;
    for (const std::size_t row : groups_[g].rows) {
      bytes += wire[row];
      waits += queue[row];
      if (wire[row] + queue[row] <= most) continue;
      most = wire[row] + queue[row];
      worst = &links_[row];
    }
    if (worst == nullptr) continue;
    Value row{{"links", groups_[g].kind},
              {"directions", groups_[g].rows.size()},
              {"path_s", bytes + waits},
              {"wire_s", bytes},
              {"queue_s", waits}};
    add_without(row, measure, frees_.of_group(g));
    row.append({{"worst_link", worst->name}, {"worst_link_direction", worst->direction}, {"worst_link_s", most}});
    r["links"].push_back(std::move(row));
  }
  return r;
}

std::vector<Measure> Why::measures() const {
  std::vector<Measure> all = path_->measures();
  all.push_back(path_->end());
  return all;
}

Value Why::results() const {
  Value all;
  all["schema_version"] = kSchemaVersion;
  all["kind"] = simulation_.workload().kind();
  all["platform"] = simulation_.scenario().platform;
  all["scenario"] = simulation_.scenario().name;
  all["paths"] = Value::empty_list();
  for (const Measure& measure : measures()) all["paths"].push_back(result(measure));
  return all;
}

std::string Why::table(const Value& results) {
  std::string text;
  for (const Value& path : results["paths"].items()) {
    const double mean = path["mean_s"].real();
    const std::string title = title_of(path["metric"].text());
    text += fmt::format("\n  {:<40} {:>12} {:>21}\n", "critical path of " + title, duration_text(mean),
                        (title == "the run" ? "run" : title) + " without it");
    bool arrivals = false, queues = false;
    const auto line = [&](const std::string& label, const Value& row, const std::string& note = {}) {
      const double seconds = row["path_s"].real();
      if (seconds < kLeastShown * mean) return;
      const Value& without = row["without_s"];
      if (without.is_nothing()) (row["not_predicted"].text() == "queues" ? queues : arrivals) = true;
      text += fmt::format("  {:<40} {:>12} {:>5.1f} % {:>13}{}\n", label, duration_text(seconds), 100 * seconds / mean,
                          without.is_nothing() ? "not predicted" : duration_text(without.real()), note);
    };
    for (std::size_t k = 0; k < transport::kCostKinds; ++k) {
      const Value& cost = path["costs"].items()[k];
      line(kLabels[k], cost, most_at(cost));
      if (k == static_cast<std::size_t>(CostKind::kernel))
        for (const Value& kernel : path["kernels"].items()) line("  bound by " + kernel["limit"].text(), kernel);
      if (k == static_cast<std::size_t>(CostKind::straggler))
        for (const Value& straggler : path["stragglers"].items()) line("  " + straggler["gpu"].text(), straggler);
      if (k == static_cast<std::size_t>(CostKind::host))
        for (std::size_t work = 0; work < kHostLabels.size(); ++work)
          line(fmt::format("  {}", kHostLabels[work]), path["hosts"].items()[work]);
    }
    if (const double held = path["held_s"].real(); held >= kLeastShown * mean)
      text += fmt::format("  {:<40} {:>12} {:>5.1f} %\n", "of this, while held in the router", duration_text(held),
                          100 * held / mean);
    text += "  of this, by traffic class and by link\n";
    for (const Value& c : path["classes"].items()) line("  " + c["class"].text(), c);
    for (const Value& l : path["links"].items()) line("  " + l["links"].text(), l, most_at(l));
    if (arrivals) text += "  not predicted: requests arrive in time, and batches would start others than they did\n";
    if (queues) text += "  not predicted: messages of collectives would wait for other links instead\n";
  }
  return text;
}

void Why::write_chain(OutputFile& out, const Measure& measure) const {
  std::unordered_map<const transport::PortCounters*, const LinkRow*> link_of;
  for (const LinkRow& row : links_) link_of[&row.counters()] = &row;
  for (const probe::Cause* piece : probe::chain(measure.chain, measure.from)) {
    std::array<Time, transport::kCostKinds> by_kind{};
    std::vector<std::pair<const LinkRow*, Time>> by_link;
    for (const transport::Cost& cost : piece->costs) {
      by_kind[static_cast<std::size_t>(cost.kind)] += cost.time;
      const auto link = link_of.find(cost.port);
      if (!transport::of_links(cost.kind) || link == link_of.end()) continue;
      const auto same =
          std::find_if(by_link.begin(), by_link.end(), [&](const auto& l) { return l.first == link->second; });
      if (same == by_link.end()) {
        by_link.emplace_back(link->second, cost.time);
      } else {
        same->second += cost.time;
      }
    }
    const auto worst = std::max_element(by_link.begin(), by_link.end(),
                                        [](const auto& a, const auto& b) { return a.second < b.second; });
    out.print("{},{},{},{},{}", measure.metric, measure.number, piece->name, exact_seconds(piece->from),
              exact_seconds(piece->to));
    for (const Time time : by_kind)
      out.print(",{}", time == Time() ? "0" : exact_seconds(time));  // most are, in long files
    if (worst == by_link.end()) {
      out.print(",,,\n");
    } else {
      out.print(",{},{},{}\n", worst->first->name, worst->first->direction, exact_seconds(worst->second));
    }
  }
}

void Why::write(const OutputDirectory& out) const {
  write_file(out.file("why.json"), json_text(results()));
  OutputFile csv(out.file("why.csv"));
  csv.print("metric,number,job,from_s,to_s");
  for (const char* kind : transport::kCostKindNames) csv.print(",{}_s", kind);
  csv.print(",worst_link,worst_link_direction,worst_link_s\n");
  for (const Measure& measure : measures()) write_chain(csv, measure);
}

}  // namespace railyard
