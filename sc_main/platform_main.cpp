#include "sc_main/platform_main.h"

#include <fmt/format.h>
#include <unistd.h>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>

#include "base/input_error.h"
#include "base/output.h"
#include "sc_main/command_line.h"
#include "sc_main/describe.h"
#include "sc_main/explain_each.h"
#include "sc_main/export_trace.h"
#include "sc_main/jobs_csv.h"
#include "sc_main/list_parameters.h"
#include "sc_main/output_directory.h"
#include "sc_main/progress.h"
#include "sc_main/results.h"
#include "sc_main/run_parts.h"
#include "sc_main/scenario/load.h"
#include "sc_main/schedule_times.h"
#include "sc_main/simulation.h"
#include "sc_main/stall_report.h"
#include "sc_main/tracing.h"
#include "sc_main/why.h"
#include "transport/recovery.h"

namespace railyard {

namespace {

using Clock = std::chrono::steady_clock;

// With more rows than this, jobs.csv omits the per-layer collectives by default.
constexpr std::uint64_t kManyJobs = 200'000;

volatile std::sig_atomic_t interrupted = 0;
void on_signal(int signal) { interrupted = signal; }

JobsLevel level_by_size(const WorkloadRun& workload) {
  return workload.expected_jobs() > kManyJobs ? JobsLevel::stage : JobsLevel::all;
}

/// The choice of fabric.fidelity: auto, and the cost of the other fidelity.
std::string fidelity_text(const transport::FidelityChoice& choice) {
  constexpr double kManyTransactions = transport::kAffordableHops / 10;
  std::string text =
      fmt::format("fidelity auto: {} of {} link sets run as fluid ({:.2g} of {:.2g} link transactions are simulated)",
                  choice.fluid_sets, choice.sets, choice.train_hops, choice.hops);
  if (choice.train_hops > kManyTransactions)
    text += "; if queueing is not the question, fabric.fidelity: fluid is much faster";
  return text;
}

/// Says that a choice of routing has no effect. Empty if it has.
std::string routing_text(const Scenario& scenario, const Simulation& simulation) {
  const platforms::MachineSpec& machine = scenario.machine;
  const bool chooses =
      machine.network == platforms::NetworkKind::leaf_spine && machine.routing != infiniband::Routing::deterministic;
  if (!chooses || simulation.fidelity() == transport::Fidelity::train) return {};
  return "machine.network.routing: messages on fluid links take the route of their destination; as trains "
         "(fabric.fidelity: train) they choose\n";
}

/// A waveform of all links has every transaction simulated. Empty if that takes no more than a minute, or was asked for.
std::string waveform_text(const Options& options, Simulation& simulation) {
  if (!options.vcd || options.vcd_level == VcdLevel::summary || options.vcd_to != Time::max()) return {};
  const double hops = transport::hops(simulation.fabric().routes(), simulation.workload().traffic());
  if (hops <= transport::kAffordableHops) return {};
  return fmt::format(
      "waveform of all links: {:.2g} link transactions are simulated; --vcd-window FROM,TO or --vcd-level "
      "summary is much faster\n",
      hops);
}

/// Reports the progress of a run on stderr.
class Progress {
 public:
  Progress(Simulation& simulation, bool wanted)
      : simulation_(simulation), wanted_(wanted), at_terminal_(isatty(STDERR_FILENO) != 0), line_(at_terminal_) {}
  void tick(Time now) {
    if (!wanted_ || (++ticks_ & 0xfff) != 0) return;
    const double wall = std::chrono::duration<double>(Clock::now() - begun_).count();
    if (!line_.due(wall)) return;
    WorkloadRun& workload = simulation_.workload();
    const std::string text = ProgressLine::text(workload.done_ratio(), now, workload.progress(), wall);
    fmt::print(stderr, fmt::runtime(at_terminal_ ? "\r{}\x1b[K" : "{}\n"), text);
    std::fflush(stderr);
  }
  /// Prints lines of a log above the progress.
  void log(const std::string& lines) const {
    fmt::print(stderr, "{}{}", wanted_ && at_terminal_ ? "\r\x1b[K" : "", lines);
  }
  ~Progress() {
    if (wanted_ && at_terminal_) fmt::print(stderr, "\r\x1b[K");
  }

 private:
  Simulation& simulation_;
  bool wanted_, at_terminal_;
  ProgressLine line_;
  std::uint64_t ticks_ = 0;
  Clock::time_point begun_ = Clock::now();
};

/// Prints the state of the serving engines at each interval of simulated time.
class EngineLog {
 public:
  EngineLog(WorkloadRun& workload, Time interval) : workload_(workload), interval_(interval), next_(interval) {
    workload.prepare_log();
  }
  /// @param now  a new instant, at which nothing has happened yet
  void tick(Time now, const Progress& progress) {
    for (; next_ <= now; next_ += interval_) progress.log(workload_.log_text(next_));
  }

 private:
  WorkloadRun& workload_;
  const Time interval_;
  Time next_;
};

/// @throws InputError for an option that needs a serving engine, if the workload has none
void check_engine_options(const Options& options, const WorkloadRun& workload) {
  if (!workload.engines().empty()) return;
  for (const auto& [wanted, name] :
       {std::pair{options.iterations, "--iterations"}, {options.log_interval.has_value(), "--log-interval"}})
    if (wanted)
      throw InputError(Origin{name, 0, 0},
                       fmt::format("workload.kind {} has no serving engine; accepted: serving", workload.kind()));
}

/// After all checks, so that an error is the only line.
void print_notes(const Options& options, const Scenario& scenario) {
  if (options.quiet) return;
  for (const std::string& note : scenario.notes) fmt::print(stderr, "{}\n", note);
}

int run(const Options& options, const Scenario& scenario) {
  // Set before the first file: finished files are kept, partial files are removed.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGXCPU}) std::signal(signal, on_signal);
  for (const int signal : {SIGPIPE, SIGXFSZ}) std::signal(signal, SIG_IGN);  // a failed write tells enough
  std::unique_ptr<OutputDirectory> out;
  if (!options.out.empty()) out = std::make_unique<OutputDirectory>(options.out);
  JobsCsv jobs;
  Simulation& simulation = simulation_until_exit(scenario, jobs);
  simulation.choose_fidelity();
  simulation.workload().check_fits();
  check_engine_options(options, simulation.workload());
  print_notes(options, scenario);
  if (out) jobs.open(out->file("jobs.csv"), options.jobs.value_or(level_by_size(simulation.workload())));
  if (const auto& choice = simulation.fidelity_choice(); choice && !options.quiet)
    fmt::print(stderr, "{}\n", fidelity_text(*choice));
  if (!options.quiet) fmt::print(stderr, "{}", routing_text(scenario, simulation));
  if (out && !options.quiet) fmt::print(stderr, "{}", waveform_text(options, simulation));
  if (out) {
    begin_files(*out, options.command, simulation);
    if (options.iterations) simulation.workload().open_iterations(*out);
  }

  std::unique_ptr<Tracing> tracing;
  if (out) tracing = std::make_unique<Tracing>(options, *out, simulation, jobs);
  std::unique_ptr<Why> why;
  if (options.why) why = std::make_unique<Why>(simulation);
  std::unique_ptr<TraceExport> exported;
  if (!options.export_et.empty()) exported = std::make_unique<TraceExport>(simulation);

  const auto begun = Clock::now();
  {
    Progress progress(simulation, !options.quiet);
    std::optional<EngineLog> log;
    if (options.log_interval) log.emplace(simulation.workload(), *options.log_interval);
    try {
      simulation.run([&](Time now) {
        progress.tick(now);
        if (log) log->tick(now, progress);
        if (tracing) tracing->advance(now);
        return interrupted == 0 && !OutputFailure::noted();
      });
    } catch (const sc_core::sc_report& broken) {  // SystemC's form of what has been thrown in a process
      fmt::print(stderr, "{}: error: {}\n", printable(scenario.path), text_of(broken));
      return kExitNoProgress;
    }
  }
  OutputFailure::check();
  if (tracing) tracing->finish(simulation.end(), why ? why->measures() : std::vector<probe::CriticalPath::Measure>());
  SimulatorFigures figures;
  figures.wall_s = std::chrono::duration<double>(Clock::now() - begun).count();
  figures.peak_rss_bytes = peak_rss_bytes();
  figures.interrupted = interrupted != 0;

  const Value results = summary(simulation, figures);
  if (!options.quiet) std::cout << table(simulation, results);
  if (why && !options.quiet) std::cout << Why::table(why->results());
  if (out) {
    jobs.close();
    end_files(*out, results, simulation);
    if (why) why->write(*out);
  }
  OutputFailure::check();
  if (exported && simulation.workload().done()) exported->write(options.export_et);
  if (out) out->commit();
  if (interrupted != 0) {
    fmt::print(stderr, "interrupted at {:.6f} s: {}\n", simulation.end().seconds(), simulation.workload().progress());
    return 128 + interrupted;
  }
  if (!simulation.workload().done()) {
    if (const auto& cut_off = simulation.fabric().recovery().undeliverable()) {
      fmt::print(stderr, "{}: error: at {:.9f} s: {}\n", printable(scenario.path), cut_off->at.seconds(),
                 describe(*cut_off, simulation));
      return kExitNoProgress;
    }
    fmt::print(stderr, "{}: error: the run cannot progress at {:.9f} s: {}\n", printable(scenario.path),
               simulation.end().seconds(), simulation.workload().progress());
    for (const std::string& line : simulation.workload().blocked()) fmt::print(stderr, "  {}\n", line);
    for (const std::string& line : stall_report(simulation)) fmt::print(stderr, "  {}\n", line);
    return kExitNoProgress;
  }
  return kExitDone;
}

/// --describe, --explain: examines the machine without a run.
void look(const Options& options, const Scenario& scenario) {
  JobsCsv none;
  Simulation& simulation = simulation_until_exit(scenario, none);
  print_notes(options, scenario);
  if (options.describe) {
    const Value machine = describe(simulation);
    std::cout << (options.json ? json_text(machine) : describe_text(machine));
  }
  if (options.explain) {
    const Value numbers = explain(simulation);
    std::cout << (options.json ? json_text(numbers) : explain_text(simulation, numbers));
  }
}

void look_at_parameters(const Options& options, const char* platform) {
  std::vector<scenario::MachineParameter> parameters;
  const Scenario scenario = load_scenario(options.scenario, options.sets, platform, parameters);
  JobsCsv none;
  const Value listed = list_parameters(simulation_until_exit(scenario, none), parameters);
  std::cout << (options.json ? json_text(listed) : parameters_text(listed));
}

/// @param file  -: stdin
template <class Read>
void with_lines_of(const std::string& file, const Read& read) {
  if (file == "-") return read(std::cin);
  std::ifstream lines(file);
  if (!lines) throw std::system_error(errno, std::generic_category(), file);
  read(lines);
}

int do_as_asked(const Options& options, const char* platform) {
  if (options.schema) {
    std::cout << scenario_schema();
    return kExitDone;
  }
  if (!options.schedule_times.empty()) {
    with_lines_of(options.schedule_times, [&](std::istream& questions) {
      schedule_times(questions, options.schedule_times == "-" ? "stdin" : options.schedule_times);
    });
    return kExitDone;
  }
  prepare_systemc();
  if (!options.explain_each.empty()) {
    with_lines_of(options.explain_each, [&](std::istream& questions) { explain_each(options, platform, questions); });
    return kExitDone;
  }
  if (options.list_parameters) {
    look_at_parameters(options, platform);
    return kExitDone;
  }
  const Scenario scenario = options.scenario.empty() ? load_llmservingsim(options.llmservingsim, options.sets, platform)
                                                     : load_scenario(options.scenario, options.sets, platform);
  if (!options.dump_scenario.empty()) write_file(options.dump_scenario, scenario.resolved);
  if (options.check) {
    JobsCsv none;
    simulation_until_exit(scenario, none).workload().check_fits();
    print_notes(options, scenario);
    if (!options.quiet) std::cout << options.input() << ": ok\n";
    return kExitDone;
  }
  if (options.describe || options.explain) {
    look(options, scenario);
    return kExitDone;
  }
  return run(options, scenario);
}

}  // namespace

int platform_main(const char* platform, int argc, char** argv) {
  const Parsed parsed = parse(platform, argc, argv);
  if (!parsed.options) return parsed.status;
  const Options& options = *parsed.options;
  return status_of(platform, options.input(), [&] { return do_as_asked(options, platform); });
}

}  // namespace railyard
