// Generated requests: arrivals, lengths and shared prefixes are drawn from distributions. Plain C++; no SystemC.
//
// Arrivals, prompt lengths and output lengths are drawn from independent streams, in the order of the requests. So
// another arrival process leaves the lengths of each request as they are.
//
// With shared prefixes the requests come from users, each in turn. A user who waits for an answer sends the next
// request when the answer is complete, so requests of different users can change their order.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <queue>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/random.h"
#include "workload/inference/requests/request_arrivals.h"
#include "workload/inference/requests/request_source.h"

namespace railyard::workload::inference {

/// Each integer from min to max is equally likely.
struct UniformTokens {
  std::uint32_t min = 1;
  std::uint32_t max = 1;
};

/// Lognormal, rounded to an integer from 1 to `most`.
struct LognormalTokens {
  double mean = 1;      ///< of the distribution, not of its logarithm
  double cv_ratio = 1;  ///< standard deviation / mean
  std::uint32_t most = 1u << 24;
};

using TokensDistribution = std::variant<UniformTokens, LognormalTokens>;

/// Groups of users; prompts of one group begin with the same tokens.
struct SharedPrefix {
  std::uint32_t groups = 1;
  std::uint32_t users_per_group = 1;
  std::uint32_t shared_tokens = 0;  ///< part of the prompt; a shorter prompt is extended to this length
};

struct GeneratorSpec {
  std::optional<std::uint32_t> count;  ///< none: until the end of the last stage
  ArrivalProcess arrivals = ArrivalProcess::at_once;
  std::vector<RateStage>
      stages;                   ///< of poisson, gamma and constant: at least one; with a count, the last one has no end
  double burstiness_ratio = 1;  ///< of gamma
  std::uint32_t concurrency = 1;  ///< of closed_loop
  TokensDistribution prompt_tokens;
  TokensDistribution output_tokens;
  std::optional<SharedPrefix> prefix;
};

class RequestGenerator : public RequestSource {
 public:
  /// @pre spec.count, or an arrival process with stages
  RequestGenerator(const GeneratorSpec& spec, std::uint64_t seed);

  std::optional<Time> next_arrival() override;
  Arrival take() override;
  bool done(std::uint32_t request, Time now) override;
  std::uint32_t count() const override { return count_; }

 private:
  struct Drawn {
    Request request;
    std::uint32_t number, user;
    std::optional<std::uint32_t> after;  ///< Arrival::after
  };
  struct ArrivesLater {
    bool operator()(const Drawn& a, const Drawn& b) const;
  };
  struct User {
    bool is_busy = false;  ///< has a request that is ready or in flight
    Time idle_since;
    std::deque<Drawn> waiting;  ///< drawn while the user was busy
  };

  bool can_draw() const;
  void draw();
  void draw_arrival(Drawn& next);

  GeneratorSpec spec_;
  Random prompts_, outputs_;
  RequestArrivals arrivals_;
  std::uint32_t count_ = 0, drawn_ = 0, taken_ = 0;
  Time latest_;  ///< the latest drawn arrival; later draws are not earlier
  struct Start {
    Time at;
    std::optional<std::uint32_t> after;  ///< the request that made room
  };
  std::deque<Start> starts_;  ///< of closed_loop: when each request may arrive that is not drawn yet
  std::vector<User> users_;   ///< none without a prefix
  std::uint32_t idle_users_ = 0;
  std::unordered_map<std::uint32_t, std::uint32_t> asker_;              ///< users of the requests in flight
  std::priority_queue<Drawn, std::vector<Drawn>, ArrivesLater> ready_;  ///< requests that wait for no answer
};

}  // namespace railyard::workload::inference
