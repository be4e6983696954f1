// The executable railyard_serve: a server of OpenAI's API on a simulated service.
#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <optional>

#include "base/input_error.h"
#include "base/output.h"
#include "sc_main/build_info.h"
#include "sc_main/command_line.h"
#include "sc_main/jobs_csv.h"
#include "sc_main/option_errors.h"
#include "sc_main/results.h"
#include "sc_main/run_parts.h"
#include "sc_main/scenario/load.h"
#include "sc_main/serve/live_run.h"
#include "sc_main/stall_report.h"

namespace railyard::serve {

namespace {

using workload::inference::LiveRequests;
using workload::inference::LiveSource;
using workload::inference::ServingSpec;

constexpr const char* kProgram = "railyard_serve";
/// A model without positions, and an engine without max_model_len: the longest request.
constexpr std::uint32_t kMostTokensWithoutLimit = 1u << 20;

volatile std::sig_atomic_t signals = 0, last_signal = 0;
void on_stop(int signal) {
  signals = signals + 1;
  last_signal = signal;
}

struct ServeOptions {
  std::string command, scenario, platform, out, listen = "127.0.0.1:8000";
  std::vector<std::string> sets;
  double pace = 1;
  bool is_public = false, quiet = false;
};

struct ParsedServe {
  std::optional<ServeOptions> options;
  int status = kExitDone;
};

ParsedServe parse_serve(int argc, char** argv) {
  ServeOptions o;
  for (int i = 0; i < argc; ++i) o.command += (i > 0 ? " " : "") + std::string(argv[i]);
  const std::string version = std::string(kProgram) + " " + kVersion + " (" + kCommit + ")";
  CLI::App app{std::string("Railyard ") + kVersion + ": serves OpenAI's API from a simulated service.", kProgram};
  constexpr std::size_t kColumn = 32;
  app.get_formatter()->column_width(kColumn);
  app.set_help_flag("-h,--help", "Prints this page");
  app.set_version_flag("--version", version, "Version and commit of this build");
  app.add_option("scenario", o.scenario, "Scenario file (YAML) with workload.kind: serving")
      ->option_text(" ")
      ->required();
  app.add_option("--platform", o.platform, "The machine; the scenario's, if it names one")
      ->option_text("NAME")
      ->required();
  app.add_option("--listen", o.listen, "Where to listen; default 127.0.0.1:8000, port 0: any")
      ->option_text("HOST:PORT");
  app.add_flag("--public", o.is_public, "Allows addresses that other computers can reach");
  static constexpr double kSlowest = 1e-6, kFastest = 1000;
  app.add_option("--pace", o.pace, "Simulated seconds in a second; default 1; 0: as fast as possible")
      ->option_text("RATIO")
      ->check([](const std::string& text) {
        const double pace = std::strtod(text.c_str(), nullptr);
        const bool is_right = text == "0" || (pace >= kSlowest && pace <= kFastest);
        return is_right ? std::string()
                        : fmt::format("'{}' is out of range; accepted: 0, or {} to {}", text, kSlowest, kFastest);
      });
  app.add_option("--set", o.sets, "Sets a key of the scenario (a.0.b is item 0 of list a); repeatable")
      ->option_text("A.B.C=VALUE")
      ->allow_extra_args(false);
  app.add_option("--out", o.out, "Directory for the results; results of an earlier run are replaced")
      ->option_text("DIR")
      ->check([](const std::string& name) { return name.empty() ? "needs the name of a directory" : ""; });
  app.add_flag("--quiet", o.quiet, "Prints no result table");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return {};
  } catch (const CLI::CallForVersion&) {
    std::cout << version << "\n";
    return {};
  } catch (const CLI::ParseError& e) {
    std::cerr << command_line_error(kProgram, app, e) << "\n";
    return {std::nullopt, kExitBadInput};
  }
  return {o, kExitDone};
}

/// A service needs engines that take requests at any time.
void check_servable(const Scenario& scenario) {
  const auto* spec = scenario.if_spec<ServingSpec>();
  if (scenario.kind == "serving" && spec != nullptr && !spec->instances.front().whole) return;
  throw InputError(scenario.workload_origin,
                   "workload.kind: " + scenario.kind +
                       " serves no clients; accepted: serving, with an engine that has paged KV cache");
}

/// The scenario with other requests than its own, which it need not have.
/// @param requests  a value of --set workload.requests
Scenario load_with(const ServeOptions& options, const std::string& requests) {
  std::vector<std::string> sets = options.sets;
  sets.push_back("workload.requests=" + requests);
  Scenario scenario;
  try {
    scenario = load_scenario(options.scenario, sets, options.platform);
  } catch (const InputError&) {
    check_servable(
        load_scenario(options.scenario, options.sets, options.platform));  // other kinds have no such requests
    throw;
  }
  check_servable(scenario);
  if (scenario.fabric.fidelity != transport::Fidelity::automatic || !scenario.modules.empty()) return scenario;
  // Which links are better as trains depends on the traffic, which nobody knows; and a server has to keep up.
  sets.push_back("fabric.fidelity=fluid");
  return load_scenario(options.scenario, sets, options.platform);
}

std::uint32_t most_tokens(const ServingSpec& spec) {
  std::uint32_t most = kMostTokensWithoutLimit;
  for (const auto& instance : spec.instances)
    if (const std::uint32_t limit = instance.scheduler.max_model_len; limit > 0) most = std::min(most, limit);
  return most;
}

/// The run of the record: the scenario with its requests, as --out will have it.
std::string replay_text(const ServeOptions& options, const std::string& record) {
  const auto full = [](const std::string& path) { return std::filesystem::absolute(path).lexically_normal().string(); };
  std::string text = load_with(options, "{format: llmservingsim, file: " + record + "}").resolved;
  const std::string now = full(record), then = full(options.out + "/requests.jsonl");
  const std::size_t at = text.find(now);
  return at == std::string::npos ? text : text.replace(at, now.size(), then);
}

int serve(const ServeOptions& options) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, on_stop);
  for (const int signal : {SIGPIPE, SIGXFSZ}) std::signal(signal, SIG_IGN);
  const auto begun = WallClock::now();
  // Routers that compare contents accept only requests that have some.
  Scenario scenario = load_with(
      options,
      "{count: 1, prompt_tokens: 1, output_tokens: 1, prefix: {groups: 1, users_per_group: 1, shared_tokens: 1}}");
  const auto requests = std::make_shared<LiveRequests>();
  ServingSpec spec = scenario.spec<ServingSpec>();
  spec.requests = [requests] { return std::make_unique<LiveSource>(requests); };
  spec.has_leaves = true;
  scenario.workload = spec;
  auto endpoint = std::make_unique<Endpoint>(ListenAddress::parse(options.listen, options.is_public));
  std::unique_ptr<OutputDirectory> out;
  if (!options.out.empty()) out = std::make_unique<OutputDirectory>(options.out);
  prepare_systemc();
  JobsCsv none;
  Simulation& simulation = simulation_until_exit(scenario, none);
  simulation.choose_fidelity();
  simulation.workload().check_fits();
  if (out) begin_files(*out, options.command, simulation);

  LiveRun run(static_cast<ServingRun&>(simulation.workload()), spec, requests, {scenario.model.name, most_tokens(spec)},
              options.pace, signals, out ? out->file("requests.jsonl") : "");
  endpoint->serve(run);
  fmt::print(stderr, "{} on {}: http://{}/v1\n", scenario.model.name, machine_text(scenario),
             endpoint->address().text());
  std::string broken;
  std::exception_ptr failure;
  try {
    simulation.run([](Time) { return signals <= 1 && !OutputFailure::noted(); }, [&run] { run.drive(); });
  } catch (const sc_core::sc_report& report) {  // SystemC's form of what has been thrown in a process
    broken = text_of(report);
  } catch (...) {
    failure = std::current_exception();
  }
  run.finish();
  endpoint.reset();  // when all answers are written
  if (failure) std::rethrow_exception(failure);
  const bool is_done = broken.empty() && simulation.workload().done();
  OutputFailure::check();
  const SimulatorFigures figures{std::chrono::duration<double>(WallClock::now() - begun).count(), peak_rss_bytes(),
                                 !is_done};
  const Value results = summary(simulation, figures);
  if (!options.quiet && requests->added() > 0) std::cout << table(simulation, results);
  if (out) {
    if (requests->added() > 0)
      write_file(out->file("scenario.yaml"), replay_text(options, out->file("requests.jsonl")));
    end_files(*out, results, simulation);
    OutputFailure::check();
    out->commit();
  }
  if (is_done) return kExitDone;
  if (signals > 1) return 128 + last_signal;
  fmt::print(stderr, "{}: error: the run cannot progress at {:.9f} s: {}\n", printable(scenario.path),
             simulation.end().seconds(), broken.empty() ? simulation.workload().progress() : broken);
  return kExitNoProgress;
}

}  // namespace

int serve_main(int argc, char** argv) {
  const ParsedServe parsed = parse_serve(argc, argv);
  if (!parsed.options) return parsed.status;
  return status_of(kProgram, parsed.options->scenario, [&] { return serve(*parsed.options); });
}

}  // namespace railyard::serve

int sc_main(int argc, char** argv) { return railyard::serve::serve_main(argc, argv); }

int main(int argc, char** argv) {
  setenv("SC_COPYRIGHT_MESSAGE", "DISABLE", 0);
  return sc_core::sc_elab_and_sim(argc, argv);
}
