#include "sc_main/schedule_times.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cstdio>
#include <istream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/input_error.h"
#include "workload/training/schedule/spec.h"

namespace railyard {

namespace {

using workload::training::ScheduleKind;
using workload::training::ScheduleSpec;

using Seconds = std::array<double, 5>;  // of workload::training::StageTimes, in its order

ScheduleKind schedule_kind(const std::string& name, const Origin& at) {
  const auto& names = workload::training::kScheduleNames;
  const auto* const found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    throw InputError(at, fmt::format("schedule: '{}' is none of {}", name, fmt::join(names, ", ")));
  return static_cast<ScheduleKind>(found - names.begin());
}

/// From the first start to the last end. The longest part of a stage is taken as 1 ms, because Time ends after hours.
double seconds_of_slots(ScheduleSpec& spec, const std::vector<Seconds>& stages, const Origin& at) {
  double longest = 0;
  for (const Seconds& stage : stages)
    for (const double part : stage) {
      if (!(part >= 0)) throw InputError(at, "stages: times are 0 s or more");
      longest = std::max(longest, part);
    }
  if (longest == 0) return 0;
  const double scale = 1e-3 / longest;
  spec.times.clear();
  for (const Seconds& stage : stages) {
    const auto part = [&](std::size_t i) { return Time::seconds(stage[i] * scale); };
    spec.times.push_back(workload::training::StageTimes{part(0), part(1), part(2), part(3), part(4)});
  }
  return run_schedule(make_schedule(spec), spec.times).makespan.seconds() / scale;
}

nlohmann::json answer(const std::string& line, const Origin& at) {
  const nlohmann::json question = nlohmann::json::parse(line);
  ScheduleSpec spec;
  spec.kind = schedule_kind(question.at("schedule").get<std::string>(), at);
  spec.ranks = question.at("pp").get<std::uint32_t>();
  spec.virtual_stages = question.at("virtual_stages").get<std::uint32_t>();
  spec.micro_batches = question.at("micro_batches").get<std::uint32_t>();
  if (spec.ranks == 0 || spec.virtual_stages == 0 || spec.micro_batches == 0)
    throw InputError(at, "pp, virtual_stages and micro_batches are 1 or more");
  if (const auto wrong = illegal_value(spec)) throw InputError(at, fmt::format("{}: {}", wrong->key, wrong->text));
  const auto stages = question.at("stages").get<std::vector<Seconds>>();
  if (stages.size() != std::size_t{spec.ranks} * spec.virtual_stages)
    throw InputError(at, fmt::format("stages: {} of them, but {} ranks with {} virtual stages each", stages.size(),
                                     spec.ranks, spec.virtual_stages));
  return {{"time_s", seconds_of_slots(spec, stages, at)}};
}

}  // namespace

void schedule_times(std::istream& questions, const std::string& name) {
  Origin at{name, 0, 1};
  for (std::string line; std::getline(questions, line);) {
    ++at.line;
    nlohmann::json found;
    try {
      found = answer(line, at);
    } catch (const nlohmann::json::exception& e) {
      found = {{"error", InputError(at, e.what()).what()}};
    } catch (const InputError& e) {
      found = {{"error", e.what()}};
    }
    fmt::print("{}\n", found.dump());
    std::fflush(stdout);
  }
}

}  // namespace railyard
