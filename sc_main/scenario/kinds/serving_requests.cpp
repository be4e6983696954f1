#include "sc_main/scenario/kinds/serving_requests.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "sc_main/scenario/kinds/kind.h"
#include "sc_main/scenario/table/render.h"
#include "sc_main/scenario/table/words.h"
#include "workload/inference/requests/request_list.h"

namespace railyard::scenario {

using namespace workload::inference;
using nlohmann::json;

namespace {

constexpr double kMostSession = 1e9;

/// In the order of ArrivalProcess.
const std::vector<std::string> kProcesses{"at_once", "poisson", "gamma", "constant", "closed_loop"};

struct LengthSection {
  struct Forms {
    UniformTokens uniform;
    LognormalTokens lognormal;
  } forms;
};

/// A distribution of lengths, if it is not a number.
const Field& length_field() {
  static const Record<LengthSection> record = [] {
    using Forms = LengthSection::Forms;
    Record<UniformTokens> uniform;
    uniform.add("min", &UniformTokens::min, "smallest number of tokens").range(1, kMostTokens).required();
    uniform.add("max", &UniformTokens::max, "largest number of tokens").range(1, kMostTokens).required();
    Record<LognormalTokens> lognormal;
    lognormal.add("mean", &LognormalTokens::mean, "mean number of tokens").range(1, kMostTokens).required();
    lognormal.add("cv_ratio", &LognormalTokens::cv_ratio, "standard deviation / mean").above(0, 100).required();
    Record<Forms> uniform_form, lognormal_form;
    uniform_form.nested("uniform", &Forms::uniform, uniform, "each number of tokens is equally likely").required();
    lognormal_form.nested("lognormal", &Forms::lognormal, lognormal, "lognormal, rounded; at least 1").required();
    Record<LengthSection> r;
    r.variants("tokens", &LengthSection::forms, {uniform_form, lognormal_form}, "a distribution of numbers of tokens");
    return r;
  }();
  return record.fields().front();
}

json length_schema() {
  json schema = {{"anyOf", {{{"type", "integer"}, {"minimum", 1}, {"maximum", kMostTokens}}}}};
  for (const Fields& form : *length_field().alternatives) schema["anyOf"].push_back(schema_of_fields(form, false));
  return schema;
}

TokensDistribution read_length(const Node& node, const std::string& path) {
  if (node.kind == Node::Kind::scalar) {
    Field number;
    number.range(1, kMostTokens);
    const auto tokens = static_cast<std::uint32_t>(read_integer(number, node, path));
    return UniformTokens{tokens, tokens};
  }
  LengthSection length;
  length_field().store(length_field(), &length, node, path);
  const Entry* written = node.find("uniform");
  if (!written) return length.forms.lognormal;
  const auto [min, max] = length.forms.uniform;
  if (max < min) {
    throw InputError(written->value->find("max")->value->origin,
                     path + ".uniform.max: " + std::to_string(max) + " is less than min, " + std::to_string(min));
  }
  return length.forms.uniform;
}

template <class Section, class Member>
Field& add_length(Record<Section>& record, const char* key, Member member, const char* doc) {
  return record.custom(key, doc, "integer, {uniform: {min, max}} or {lognormal: {mean, cv_ratio}}", length_schema,
                       [member](Section& section, const Node& node, const std::string& path) {
                         section.*member = read_length(node, path);
                       });
}

Record<SessionsSection> sessions_record() {
  using Section = SessionsSection;
  Record<Section> r;
  add_length(r, "turns", &Section::turns,
             "requests that follow each other in a session, subagents not counted; at most 1000")
      .required();
  r.add("think_s", &Section::think_s, "from the last token of an answer to the arrival of the next turn")
      .range(0, kLongestRunSeconds);
  add_length(r, "growth_tokens", &Section::growth_tokens,
             "new tokens of each later prompt, after the earlier prompt and its answer")
      .required();
  r.add("system_tokens", &Section::system_tokens,
        "first tokens of each first prompt, which are equal in all sessions; included in prompt_tokens, and the "
        "shortest "
        "prompt that lognormal draws")
      .range(0, kMostTokens);
  r.add("subagents", &Section::subagents,
        "requests that each answer but the last one starts beside one another, with prompts like first ones; the next "
        "turn "
        "waits for all of them, and then think_s")
      .range(0, 1000);
  return r;
}

Record<ServingRequestsSection> generated_form() {
  using Section = ServingRequestsSection;
  Record<StageSection> stage;
  stage.add("rate_per_s", &StageSection::rate_per_s, "mean rate of arrivals").above(0, 1e6).required();
  stage.add("duration_s", &StageSection::duration_s, "duration of the stage").above(0, kLongestRunSeconds).required();
  Record<SharedPrefix> prefix;
  prefix.add("groups", &SharedPrefix::groups, "groups of users").range(1, kMostRequests).required();
  prefix
      .add("users_per_group", &SharedPrefix::users_per_group,
           "users of each group; a user sends the next request after the answer to the last one")
      .range(1, kMostRequests)
      .required();
  prefix
      .add("shared_tokens", &SharedPrefix::shared_tokens,
           "first tokens of each prompt, which are equal within a group; included in prompt_tokens, and the shortest "
           "prompt that lognormal draws")
      .range(0, kMostTokens)
      .required();

  Record<Section> r;
  r.add("count", &Section::count, "number of requests; with `sessions`, of sessions")
      .range(1, kMostRequests)
      .fallback("1; with stages, by their rates");
  r.choice("arrivals", &Section::arrivals, kProcesses,
           "at_once: all at time zero; poisson, gamma, constant: intervals at a rate; closed_loop: `concurrency` "
           "requests at time zero, and another one when an answer is complete");
  r.add("rate_per_s", &Section::rate_per_s, "mean rate of arrivals").above(0, 1e6);
  r.list("stages", &Section::stages, stage, "rates that follow each other, instead of count and rate_per_s");
  r.add("burstiness_ratio", &Section::burstiness_ratio,
        "shape of gamma intervals: their standard deviation / mean is 1/sqrt(burstiness_ratio); 1 is poisson, less is "
        "burstier")
      .above(0, 1e6);
  r.add("concurrency", &Section::concurrency, "of closed_loop: requests in flight")
      .range(1, kMostRequests)
      .fallback("");
  add_length(r, "prompt_tokens", &Section::prompt_tokens, "tokens in each prompt").required();
  add_length(r, "output_tokens", &Section::output_tokens,
             "tokens of each answer, including the first one, which prefill makes")
      .required();
  r.mapping("prefix", prefix.fields(), "groups of users whose prompts begin with the same tokens",
            [](void* record) { return std::vector<void*>{&static_cast<Section*>(record)->prefix.emplace()}; });
  r.mapping("sessions", sessions_record().fields(),
            "requests that follow each other: arrivals are those of sessions, and prompt_tokens those of a first turn",
            [](void* record) { return std::vector<void*>{&static_cast<Section*>(record)->sessions.emplace()}; });
  return r;
}

const std::string kKey = "requests";

[[noreturn]] void refuse(const Source& source, const std::string& key, const std::string& what) {
  refuse_workload(source, kKey + "." + key, what);
}

bool is_written(const Source& source, const std::string& key) {
  return value_at(source.root, "workload." + kKey + "." + key) != nullptr;
}

void check_arrivals(const ServingRequestsSection& written, const Source& source) {
  const std::string word = kProcesses[static_cast<std::size_t>(written.arrivals)];
  const bool is_loop = written.arrivals == ArrivalProcess::closed_loop;
  const bool has_rate = !is_loop && written.arrivals != ArrivalProcess::at_once;
  const auto check = [&](const std::string& key, bool applies, const std::string& processes) {
    if (!is_written(source, key) || applies) return;
    refuse(source, key, "does not apply to arrivals: " + word + "; accepted with arrivals: " + processes);
  };
  const std::string with_rate = "poisson, gamma, constant";
  check("rate_per_s", has_rate, with_rate);
  check("stages", has_rate, with_rate);
  check("burstiness_ratio", written.arrivals == ArrivalProcess::gamma, "gamma");
  check("concurrency", is_loop, "closed_loop");
  if (is_loop && !is_written(source, "concurrency")) refuse(source, "arrivals", "closed_loop needs concurrency");
  const bool has_stages = is_written(source, "stages");
  if (has_rate && !has_stages && !written.rate_per_s) refuse(source, "arrivals", word + " needs rate_per_s or stages");
  if (!has_stages) return;
  const std::string ends = "does not apply to stages; the requests end with the last stage";
  if (written.count) refuse(source, "count", ends);
  if (written.rate_per_s) refuse(source, "rate_per_s", "does not apply to stages; each stage has its rate_per_s");
  if (written.stages.empty()) refuse(source, "stages", "is empty; accepted: at least one stage");
}

/// The stages, with checks of their length. Arrivals at one rate are a stage without an end.
std::vector<RateStage> stages_of(const ServingRequestsSection& written, std::uint32_t count, const Source& source) {
  const std::string limit = number_text(kLongestRunSeconds) + " s, the limit of a run";
  if (written.rate_per_s) {
    if (count / *written.rate_per_s > kLongestRunSeconds)
      refuse(source, "rate_per_s", std::to_string(count) + " requests at this rate take more than " + limit);
    return {{*written.rate_per_s, Time::max()}};
  }
  std::vector<RateStage> stages;
  double duration_s = 0, requests = 0;
  for (const StageSection& stage : written.stages) {
    stages.push_back({stage.rate_per_s, Time::seconds(stage.duration_s)});
    duration_s += stage.duration_s;
    requests += stage.duration_s * stage.rate_per_s;
  }
  if (duration_s > kLongestRunSeconds)
    refuse(source, "stages", "take " + number_text(duration_s) + " s; accepted: up to " + limit);
  if (requests > kMostRequests) {
    refuse(source, "stages",
           "give about " + number_text(requests) + " requests; accepted: up to " + number_text(kMostRequests));
  }
  return stages;
}

/// The largest number of tokens, if there is one.
std::optional<std::uint64_t> longest(const TokensDistribution& tokens) {
  const auto* uniform = std::get_if<UniformTokens>(&tokens);
  return uniform ? std::optional<std::uint64_t>(uniform->max) : std::nullopt;
}

void check_shared(const std::string& key, std::uint32_t shared_tokens, const TokensDistribution& prompts,
                  const Source& source) {
  const auto check = [&](double tokens, const std::string& which) {
    if (shared_tokens > tokens)
      refuse(
          source, key,
          std::to_string(shared_tokens) + " is more than the " + which + " prompt, " + number_text(tokens) + " tokens");
  };
  if (const auto* uniform = std::get_if<UniformTokens>(&prompts)) check(uniform->min, "shortest");
  if (const auto* lognormal = std::get_if<LognormalTokens>(&prompts)) check(lognormal->mean, "mean");
}

void check_prefix(const SharedPrefix& prefix, const TokensDistribution& prompts, const Source& source) {
  const double users = static_cast<double>(prefix.groups) * prefix.users_per_group;
  if (users > kMostRequests)
    refuse(source, "prefix", number_text(users) + " users; accepted: up to " + number_text(kMostRequests));
  check_shared("prefix.shared_tokens", prefix.shared_tokens, prompts, source);
}

SessionsSpec sessions_spec(const ServingRequestsSection& written, const StartsSpec& starts, const Source& source) {
  constexpr std::uint32_t kMostTurns = 1000;
  const SessionsSection& of = *written.sessions;
  if (written.prefix)
    refuse(source, "prefix", "does not apply to sessions; their system_tokens are equal in all of them");
  check_shared("sessions.system_tokens", of.system_tokens, written.prompt_tokens, source);
  SessionsSpec spec{starts,
                    of.turns,
                    written.prompt_tokens,
                    of.growth_tokens,
                    written.output_tokens,
                    Time::seconds(of.think_s),
                    of.system_tokens,
                    of.subagents};
  if (auto* lognormal = std::get_if<LognormalTokens>(&spec.turns)) lognormal->most = kMostTurns;
  const double turns = longest(spec.turns).value_or(kMostTurns);
  if (turns > kMostTurns)
    refuse(source, "sessions.turns",
           number_text(turns) + " is out of range; accepted: 1 to " + number_text(kMostTurns));
  double sessions = starts.count.value_or(0);
  for (const StageSection& stage : written.stages) sessions += stage.duration_s * stage.rate_per_s;
  const double requests = sessions * (turns + (turns - 1) * of.subagents);
  if (requests > kMostRequests)
    refuse(source, "sessions",
           "up to " + number_text(requests) + " requests; accepted: up to " + number_text(kMostRequests));
  return spec;
}

ServingRequests generated_sessions(const ServingRequestsSection& written, const StartsSpec& starts, std::uint64_t seed,
                                   const Source& source) {
  const SessionsSpec spec = sessions_spec(written, starts, source);
  ServingRequests result;
  result.make_source = [=] { return std::make_unique<SessionGenerator>(spec, seed); };
  result.has_contents = result.has_sessions = true;
  const Origin where = place_of(source.root, "workload." + kKey + ".sessions");
  const auto turns = longest(spec.turns), first = longest(spec.prompt_tokens), growth = longest(spec.growth_tokens),
             output = longest(spec.output_tokens);
  if (!turns || !first || (*turns > 1 && (!growth || !output))) return result;
  const std::uint64_t last = *first + (*turns - 1) * (growth.value_or(0) + output.value_or(0));
  result.prompt = {std::min(last, std::max(*first, SessionGenerator::kMostTokens)), where};
  if (output) result.prompt_and_output = {result.prompt->tokens + *output, where};
  return result;
}

ServingRequests generated(const ServingRequestsSection& written, std::uint64_t seed, const Source& source) {
  check_arrivals(written, source);
  if (written.prefix) check_prefix(*written.prefix, written.prompt_tokens, source);
  GeneratorSpec spec;
  if (written.stages.empty()) spec.count = written.count.value_or(1);
  spec.arrivals = written.arrivals;
  spec.stages = stages_of(written, spec.count.value_or(0), source);
  spec.burstiness_ratio = written.burstiness_ratio;
  spec.concurrency = written.concurrency;
  if (written.sessions) return generated_sessions(written, spec, seed, source);
  spec.prompt_tokens = written.prompt_tokens;
  spec.output_tokens = written.output_tokens;
  spec.prefix = written.prefix;

  ServingRequests result;
  result.make_source = [=] { return std::make_unique<RequestGenerator>(spec, seed); };
  const Origin where = place_of(source.root, "workload." + kKey + ".prompt_tokens");
  const auto prompt = longest(spec.prompt_tokens), output = longest(spec.output_tokens);
  result.has_contents = spec.prefix && spec.prefix->shared_tokens > 0;
  if (prompt) result.prompt = {*prompt, where};
  if (prompt && output) result.prompt_and_output = {*prompt + *output, where};
  return result;
}

/// The place of the instance that an item names; the only one, if there is only one.
std::uint32_t fixed_instance(const std::optional<std::string>& name, const std::vector<std::string>& names,
                             const std::string& item, const std::string& key, const Source& source) {
  if (!name) {
    if (names.size() > 1)
      refuse(source, item, "has no `" + key + "`, which router: fixed needs; accepted: " + joined(names));
    return 0;
  }
  if (names.empty()) refuse(source, item + "." + key, "there is no decode instance");
  const auto found = std::find(names.begin(), names.end(), *name);
  if (found == names.end())
    refuse(source, item + "." + key, "no instance " + in_quotes(*name) + " takes it" + suggestion(*name, names));
  return static_cast<std::uint32_t>(found - names.begin());
}

/// A router that goes by the request needs requests that say where they go.
void check_fixed(const InstanceNames& names, const Source& source) {
  const auto check = [&](const std::vector<std::string>& of, const std::string& key) {
    if (of.size() <= 1) return;
    refuse_workload(source, kKey,
                    "do not say to which instance each goes, which router: fixed needs; accepted: a `list` with `" +
                        key + "`, one of " + joined(of));
  };
  check(names.prompts, "instance");
  check(names.answers, "decode_instance");
}

ServingRequests listed(const ServingRequestsSection& written, const InstanceNames& names, bool is_fixed,
                       const Source& source) {
  if (written.list.empty()) refuse(source, "list", "is empty; accepted: at least one request");
  ServingRequests result;
  for (std::size_t i = 0; i < written.list.size(); ++i) {
    const RequestItem& item = written.list[i];
    const std::string key = "workload." + kKey + ".list." + std::to_string(i);
    result.include(item.prompt_tokens, *item.output_tokens, place_of(source.root, key));
    const std::string priority = key + ".priority";
    if (item.priority > 0 && !result.priority) result.priority = {priority, place_of(source.root, priority)};
  }
  // All items have output_tokens.
  std::vector<Request> all = listed_requests(written.list, 0);
  const std::vector<std::size_t> order = listed_order(written.list);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const RequestItem& item = written.list[order[i]];
    const std::string key = "list." + std::to_string(order[i]);
    all[i].session = item.session;
    if (!is_fixed) continue;
    all[i].instance = fixed_instance(item.instance, names.prompts, key, "instance", source);
    all[i].answer_instance = fixed_instance(item.decode_instance, names.answers, key, "decode_instance", source);
  }
  const auto requests = std::make_shared<const std::vector<Request>>(std::move(all));
  result.make_source = [=] { return std::make_unique<RequestList>(requests); };
  return result;
}

}  // namespace

void ServingRequests::include(std::uint64_t prompt_tokens, std::uint64_t output_tokens, const Origin& where) {
  const auto keep_longest = [&](std::optional<Longest>& longest, std::uint64_t tokens) {
    if (!longest || tokens > longest->tokens) longest = {tokens, where};
  };
  keep_longest(prompt, prompt_tokens);
  keep_longest(prompt_and_output, prompt_tokens + output_tokens);
}

std::vector<Record<ServingRequestsSection>> serving_request_forms() {
  Record<ServingRequestsSection> list;
  Record<RequestItem> item = request_item(true);
  item.add("priority", &RequestItem::priority, "with policy: priority, requests with lower values are served first")
      .range(0, kMostPriority);
  item.add("session", &RequestItem::session, "conversation or user, for a router with sessions; 0: none")
      .range(0, kMostSession);
  item.add("instance", &RequestItem::instance,
           "with router: fixed, the instance that computes the request, or its prompt")
      .fallback("the only one");
  item.add("decode_instance", &RequestItem::decode_instance, "the instance that computes its answer")
      .fallback("the only one");
  list.list("list", &ServingRequestsSection::list, item, "one item per request").required();
  return {generated_form(), list, trace_form<ServingRequestsSection>()};
}

ServingRequests resolve_serving_requests(const ServingRequestsSection& written, const InstanceNames& names,
                                         bool is_fixed, std::uint64_t seed, const Source& source) {
  if (is_written(source, "list")) return listed(written, names, is_fixed, source);
  if (is_fixed) check_fixed(names, source);
  if (is_written(source, "file")) return stream_trace(written, place_of(source.root, "workload." + kKey + ".file"));
  return generated(written, seed, source);
}

}  // namespace railyard::scenario
