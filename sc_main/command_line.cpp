#include "sc_main/command_line.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <cmath>
#include <iostream>
#include <map>

#include "base/input_error.h"
#include "sc_main/build_info.h"
#include "sc_main/option_errors.h"
#include "sc_main/scenario/load.h"
#include "sc_main/tracing.h"

namespace railyard {

namespace {

constexpr double kLeastLogSeconds = 1e-6;
constexpr std::size_t kOptionColumn = 32;

std::string joined_sections() {
  std::string text;
  for (const std::string& section : parameter_sections()) text += (text.empty() ? "" : ", ") + section;
  return text;
}

/// "12.5", "12.5us", "3ms"; a number without a unit is in microseconds.
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
  if (used == 0 || unit == kUnits.end() || !(value >= 0) || !(value * unit->second < kLongestRunSeconds))
    throw CLI::ValidationError("--vcd-window",
                               "'" + text + "' is not an instant; accepted: a number with ns, us (default), ms or s");
  return Time::seconds(value * unit->second);
}

/// An option whose value is one of several words.
template <class Value>
CLI::Option* add_choice(CLI::App& app, const std::string& name, Value& value,
                        const std::vector<std::pair<std::string, Value>>& words, const std::string& doc) {
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

const std::string kLlmServingSimSection = "llmservingsim", kLlmServingSimTitle = "Options with --cluster-config";

/// LLMServingSim's options, with its names. All of them need --cluster-config.
std::vector<CLI::Option*> add_llmservingsim(CLI::App& app, scenario::LlmServingSimOptions& o) {
  std::vector<CLI::Option*> all;
  const auto add = [&](CLI::Option* option, const char* text) {
    all.push_back(option->option_text(text)->group(kLlmServingSimTitle));
  };
  add(app.add_option("--dataset", o.dataset, "Requests, as LLMServingSim's JSONL (required)"), "FILE");
  const auto add_key = [&](const std::string& name, const char* key, const char* text, const char* doc) {
    const auto store = [&o, name, key](const std::string& value) { o.settings.push_back({name, key, value}); };
    add(app.add_option_function<std::string>(name, store, doc), text);
  };
  add_key("--dtype", "dtype", "FORMAT", "Number format of weights: float16, bfloat16, fp8, int8; default: the model's");
  add_key("--kv-cache-dtype", "kv_cache_dtype", "FORMAT", "Number format of the KV cache: auto (default), fp8");
  add_key("--block-size", "block_size", "N", "Tokens of a KV block; default 16");
  add_key("--max-num-seqs", "max_num_seqs", "N", "Most requests that run at once; default 128; 0: no limit");
  add_key("--max-num-batched-tokens", "max_num_batched_tokens", "N",
          "Most tokens in a batch; default 2048; 0: no limit");
  const auto no_caching = [&o] {
    o.settings.push_back({"--no-enable-prefix-caching", "enable_prefix_caching", "false"});
  };
  add(app.add_flag_callback("--no-enable-prefix-caching", no_caching, "Requests share no KV blocks"), " ");
  add(add_choice<bool>(app, "--links", o.links_as_given, {{"platform", false}, {"as-given", true}},
                       "Links between GPUs: of the platform (default), or as link_bw and link_latency say"),
      "platform|as-given");
  add(add_choice<std::string>(app, "--request-routing-policy", o.routing_policy,
                              {{"LOAD", "least_load"}, {"RR", "round_robin"}, {"RAND", "random"}},
                              "Choice among several instances: by load (default), in turn, or at random"),
      "LOAD|RR|RAND");
  add(app.add_option("--num-reqs", o.num_reqs, "Only the first N requests of the file; default 0: all"), "N");
  add(app.add_option("--profile-root", o.profile_root, "Measured kernel times in DIR/HARDWARE/MODEL/VARIANT"), "DIR");
  add(app.add_option("--models", o.models, "Model configs, ORG_NAME.json or ORG/NAME.json; default: shipped ones"),
      "DIR");
  return all;
}

std::string help_of(const std::vector<CLI::Option*>& options) {
  CLI::Formatter formatter;
  formatter.column_width(kOptionColumn);
  return formatter.make_group(kLlmServingSimTitle, false, {options.begin(), options.end()});
}

/// The help page, without these options.
std::string help_without(const CLI::App& app, const std::vector<CLI::Option*>& options) {
  const auto show_in = [&](const std::string& group) {
    for (CLI::Option* option : options) option->group(group);
  };
  const std::string hidden;
  show_in(hidden);
  const std::string text = app.help();
  show_in(kLlmServingSimTitle);
  return text;
}

/// The command, quoted for a shell.
std::string quoted_command(int argc, char** argv) {
  const std::string plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  std::string text;
  for (int i = 0; i < argc; ++i) {
    std::string word = argv[i];
    if (word.empty() || word.find_first_not_of(plain) != std::string::npos) {
      for (std::size_t at = 0; (at = word.find('\'', at)) != std::string::npos; at += 4) word.replace(at, 1, "'\\''");
      word = "'" + word + "'";
    }
    text += (i == 0 ? "" : " ") + word;
  }
  return text;
}

}  // namespace

Parsed parse(const std::string& platform, int argc, char** argv) {
  Options o;
  o.command = quoted_command(argc, argv);
  const std::string version = platform + " " + kVersion + " (" + kCommit + ")";
  CLI::App app{std::string("Railyard ") + kVersion + ": a hardware-level performance model of LLMs on a " + platform +
                   " machine.",
               platform};
  app.get_formatter()->column_width(kOptionColumn);
  std::string section;
  app.set_help_flag();
  // These come first; otherwise the help page has an empty line for them.
  const std::vector<CLI::Option*> of_llmservingsim = add_llmservingsim(app, o.llmservingsim);
  auto* help = app.add_option("-h,--help", section, "Prints this page, or the parameters of a section of the scenario")
                   ->option_text("[SECTION]")
                   ->expected(0, 1);
  auto* help_all = app.add_flag("--help-all", "Prints this page and all parameters");
  app.set_version_flag("--version", version, "Version and commit of this build");
  app.footer("SECTION is one of " + joined_sections() + ", " + kLlmServingSimSection + ", or any key of a scenario.");
  app.add_option("scenario", o.scenario, "Scenario file (YAML)")->option_text(" ");
  app.add_option("--set", o.sets, "Sets a key of the scenario (a.0.b is item 0 of list a); repeatable")
      ->option_text("A.B.C=VALUE")
      ->allow_extra_args(false);
  auto* cluster = app.add_option("--cluster-config", o.llmservingsim.cluster_config,
                                 "LLMServingSim's file instead of a scenario; --help llmservingsim for its options")
                      ->option_text("FILE");
  cluster->needs(of_llmservingsim.front());
  for (CLI::Option* option : of_llmservingsim) option->needs(cluster);
  app.add_option("--dump-scenario", o.dump_scenario, "Writes the scenario that runs, with --set applied")
      ->option_text("FILE");
  app.add_option("--out", o.out, "Directory for the results; results of an earlier run are replaced")
      ->option_text("DIR")
      ->check([](const std::string& name) { return name.empty() ? "needs the name of a directory" : ""; });
  std::string window;
  auto* vcd = app.add_flag("--vcd", o.vcd, "Writes the waveform: trace.vcd and trace.gtkw");
  app.add_flag("--fst", o.fst, "With --vcd: trace.fst, 15 times smaller than trace.vcd (needs Debian package gtkwave)")
      ->needs(vcd)
      ->option_text(" ");
  add_choice<VcdLevel>(app, "--vcd-level", o.vcd_level,
                       {{"summary", VcdLevel::summary}, {"links", VcdLevel::links}, {"all", VcdLevel::all}},
                       "summary: GPUs, uplinks, NICs; links: also all other links (default); all: also credits")
      ->needs(vcd);
  app.add_option("--vcd-filter", o.vcd_filters, "Only signals whose hierarchical name matches; repeatable")
      ->option_text("GLOB")
      ->needs(vcd)
      ->allow_extra_args(false);
  app.add_option("--vcd-window", window, "Only this part of the run, for example 10us,2ms")
      ->option_text("T0,T1")
      ->needs(vcd);
  app.add_flag("--timeline", o.timeline, "Writes timeline.json.gz for ui.perfetto.dev: jobs, messages, links");
  app.add_flag("--why", o.why, "Prints the critical path and the time without each cost; writes why.json, why.csv");
  app.add_option("--export-et", o.export_et, "Writes all jobs as Chakra traces: PREFIX.R.et, PREFIX.groups.json")
      ->option_text("PREFIX");
  JobsLevel jobs = JobsLevel::all;
  auto* jobs_option = add_choice<JobsLevel>(
      app, "--jobs", jobs, {{"all", JobsLevel::all}, {"stage", JobsLevel::stage}, {"none", JobsLevel::none}},
      "Rows of jobs.csv (stage: without collectives of layers); default: by number of jobs");
  app.add_flag("--iterations", o.iterations, "Writes iterations.csv: a row for each batch of a serving engine");
  double log_interval_s = 0;
  auto* log_interval = app.add_option("--log-interval", log_interval_s,
                                      "Prints a line for each serving engine at this interval of simulated time")
                           ->option_text("SECONDS");
  app.add_flag("--describe", o.describe, "Prints devices, links and routes of the machine; runs nothing");
  app.add_flag("--list-parameters", o.list_parameters,
               "Prints each parameter of the machine: hierarchical name, value, unit, origin; runs nothing");
  app.add_flag("--explain", o.explain, "Prints parameters, memory, kernels, ideal times; runs nothing");
  app.add_option("--explain-each", o.explain_each,
                 "--explain --json for each line of FILE (-: stdin): settings of --set, separated by tabs")
      ->option_text("FILE");
  app.add_option("--schedule-times", o.schedule_times,
                 "Prints times of pipeline schedules: a question in JSON for each line of FILE (-: stdin)")
      ->option_text("FILE");
  app.add_flag("--check", o.check, "Only checks the scenario");
  app.add_flag("--schema", o.schema, "Prints the JSON Schema of a scenario");
  app.add_flag("--json", o.json, "JSON instead of text, for --describe, --list-parameters and --explain");
  app.add_flag("--quiet", o.quiet, "Prints no result table and no progress");
  try {
    app.parse(argc, argv);
    if (help_all->count() != 0) {
      std::cout << help_without(app, of_llmservingsim) << help_of(of_llmservingsim)
                << "\nParameters of a scenario, for --set, too\n"
                << parameter_help("");
      return {std::nullopt, kExitDone};
    }
    if (section == kLlmServingSimSection) {
      std::cout << help_of(of_llmservingsim);
      return {std::nullopt, kExitDone};
    }
    if (help->count() != 0) {
      std::cout << (section.empty() ? help_without(app, of_llmservingsim) : parameter_help(section));
      return {std::nullopt, kExitDone};
    }
    if (!window.empty()) {
      const std::size_t comma = window.find(',');
      if (comma == std::string::npos)
        throw CLI::ValidationError("--vcd-window",
                                   "'" + window + "' is not a window; accepted: T0,T1, for example 10us,2ms");
      o.vcd_from = parse_instant(window.substr(0, comma));
      o.vcd_to = parse_instant(window.substr(comma + 1));
      if (o.vcd_to <= o.vcd_from) throw CLI::ValidationError("--vcd-window", "T1 must be later than T0");
    }
    if (!o.scenario.empty() && !o.llmservingsim.cluster_config.empty())
      throw CLI::ValidationError("--cluster-config", "is not accepted with a scenario; give one of the two");
    if (!o.schema && o.schedule_times.empty() && o.input().empty()) throw CLI::RequiredError("scenario");
    for (const auto& [wanted, name] :
         {std::pair{o.vcd, "--vcd"}, {o.timeline, "--timeline"}, {o.iterations, "--iterations"}})
      if (wanted && o.out.empty()) throw CLI::ValidationError(name, "needs --out DIR");
    for (const auto& [wanted, name] :
         {std::pair{!o.explain_each.empty(), "--explain-each"}, {o.list_parameters, "--list-parameters"}})
      if (wanted && o.scenario.empty()) throw CLI::ValidationError(name, "needs a scenario file");
    if (o.why && !o.export_et.empty())
      throw CLI::ValidationError("--export-et", "is not accepted with --why; run twice");
    if (log_interval->count() != 0) {
      if (!(log_interval_s >= kLeastLogSeconds && log_interval_s < kLongestRunSeconds))
        throw CLI::ValidationError("--log-interval",
                                   fmt::format("accepted: {} to {} seconds", kLeastLogSeconds, kLongestRunSeconds));
      o.log_interval = Time::seconds(log_interval_s);
    }
    if (o.fst && !Tracing::can_convert())
      throw CLI::ValidationError("--fst",
                                 "vcd2fst is not installed (Debian package gtkwave); --vcd alone writes trace.vcd");
  } catch (const CLI::CallForVersion&) {
    std::cout << version << "\n";
    return {std::nullopt, kExitDone};
  } catch (const InputError& e) {
    std::cerr << e.what() << "\n";
    return {std::nullopt, kExitBadInput};
  } catch (const CLI::ParseError& e) {
    std::cerr << command_line_error(platform, app, e) << "\n";
    return {std::nullopt, kExitBadInput};
  }
  if (jobs_option->count() != 0) o.jobs = jobs;
  return {o, kExitDone};
}

}  // namespace railyard
