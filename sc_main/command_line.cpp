#include "sc_main/command_line.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <iostream>
#include <map>

#include "sc_main/scenario/load.h"
#include "sc_main/tracing.h"

namespace railyard {

namespace {

/// "12.5", "12.5us", "3ms": a bare number is in microseconds.
Time parse_instant(const std::string& text) {
  static const std::map<std::string, double> kUnits{{"", 1e-6}, {"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1.0}};
  std::size_t used = 0;
  double value = 0;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  const auto unit = kUnits.find(text.substr(used));
  if (used == 0 || unit == kUnits.end() || !(value >= 0) || !(value * unit->second < 18000))
    throw CLI::ValidationError("--vcd-window", "'" + text + "' is not an instant; accepted: a number with ns, us (default), ms or s");
  return Time::seconds(value * unit->second);
}

/// An option whose value is one of a few words.
template <class Value>
CLI::Option* add_choice(CLI::App& app, const std::string& name, Value& value, const std::vector<std::pair<std::string, Value>>& words,
                        const std::string& doc) {
  std::string accepted, shown;
  for (const auto& [word, meaning] : words) {
    accepted += (accepted.empty() ? "" : ", ") + word;
    shown += (shown.empty() ? "" : "|") + word;
  }
  const auto read = [&value, words, name, accepted](const std::string& text) {
    for (const auto& [word, meaning] : words) {
      if (text != word) continue;
      value = meaning;
      return;
    }
    throw CLI::ValidationError(name, "'" + text + "' is unknown; accepted: " + accepted);
  };
  return app.add_option_function<std::string>(name, read, doc)->option_text(shown);
}

}  // namespace

Parsed parse(const std::string& platform, int argc, char** argv) {
  Options o;
  CLI::App app{"Railyard " RAILYARD_VERSION ": a hardware-level performance model of LLMs on a " + platform + " machine.", platform};
  app.set_version_flag("--version", platform + " " RAILYARD_VERSION);
  app.footer("\nParameters of a scenario (for --set, too):\n" + parameter_help());
  app.add_option("scenario", o.scenario, "Scenario file (YAML)");
  app.add_option("--set", o.sets, "Overrides a parameter: a.b.c=VALUE (a.0.b indexes a list); repeatable")->allow_extra_args(false);
  app.add_option("--out", o.out, "Directory for summary.json, jobs.csv, links.csv, requests.csv, machine.json; replaced if it exists");
  std::string window;
  auto* vcd = app.add_flag("--vcd", o.vcd, "Writes trace.vcd and trace.gtkw into --out");
  app.add_flag("--fst", o.fst, "Writes the waveform as trace.fst, a fifteenth of the size, instead of trace.vcd; needs vcd2fst (Debian package gtkwave)")->needs(vcd);
  add_choice<VcdLevel>(app, "--vcd-level", o.vcd_level, {{"summary", VcdLevel::summary}, {"links", VcdLevel::links}, {"all", VcdLevel::all}},
                       "summary: GPUs, uplinks and NICs; links: every link (default); all: credits, too")->needs(vcd);
  app.add_option("--vcd-filter", o.vcd_filters, "Only signals whose hierarchical name matches this glob; repeatable")->option_text("GLOB")->needs(vcd)->allow_extra_args(false);
  app.add_option("--vcd-window", window, "Only this part of the run, as T0,T1 in microseconds or with a unit (10us,2ms)")->option_text("T0,T1")->needs(vcd);
  app.add_flag("--timeline", o.timeline, "Writes timeline.json.gz into --out: requests, jobs, streams, messages and links for ui.perfetto.dev");
  app.add_flag("--why", o.why, "Prints the critical path: what made the end time and the metrics, by cost, traffic class and links, and what each would be "
               "without it; with --out, writes why.json and why.csv");
  JobsLevel jobs = JobsLevel::all;
  auto* jobs_option = add_choice<JobsLevel>(app, "--jobs", jobs, {{"all", JobsLevel::all}, {"stage", JobsLevel::stage}, {"none", JobsLevel::none}},
                                            "Rows of jobs.csv: all, stage (no per-layer collectives), none; default by size");
  app.add_flag("--describe", o.describe, "Prints the elaborated machine: devices, links, routes; runs nothing");
  app.add_flag("--explain", o.explain, "Prints the derived numbers: parameters, memory per rank, paths, ideal times; runs nothing");
  app.add_flag("--check", o.check, "Only checks the scenario");
  app.add_flag("--schema", o.schema, "Prints the JSON Schema of a scenario");
  app.add_flag("--json", o.json, "JSON instead of text, for --describe and --explain");
  app.add_flag("--quiet", o.quiet, "Prints no table and no progress");
  try {
    app.parse(argc, argv);
    if (!window.empty()) {
      const std::size_t comma = window.find(',');
      if (comma == std::string::npos) throw CLI::ValidationError("--vcd-window", "'" + window + "' is not T0,T1");
      o.vcd_from = parse_instant(window.substr(0, comma));
      o.vcd_to = parse_instant(window.substr(comma + 1));
      if (o.vcd_to <= o.vcd_from) throw CLI::ValidationError("--vcd-window", "T1 must be later than T0");
    }
    if (!o.schema && o.scenario.empty()) throw CLI::RequiredError("scenario");
    for (const auto& [wanted, name] : {std::pair{o.vcd, "--vcd"}, {o.timeline, "--timeline"}})
      if (wanted && o.out.empty()) throw CLI::ValidationError(name, "needs --out DIR");
    if (o.fst && !Tracing::can_convert()) throw CLI::ValidationError("--fst", "vcd2fst is not installed (Debian package gtkwave); --vcd alone writes trace.vcd");
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return {std::nullopt, kExitDone};
  } catch (const CLI::CallForVersion&) {
    std::cout << platform << " " RAILYARD_VERSION "\n";
    return {std::nullopt, kExitDone};
  } catch (const CLI::ParseError& e) {
    std::cerr << platform << ": error: " << e.what() << " (--help lists the options)\n";
    return {std::nullopt, kExitBadInput};
  }
  if (jobs_option->count() != 0) o.jobs = jobs;
  return {o, kExitDone};
}

}  // namespace railyard
