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
#include <vector>

#include "workload/inference/requests/request_source.h"
#include "workload/inference/requests/request_starts.h"
#include "workload/inference/requests/token_lengths.h"

namespace railyard::workload::inference {

/// Groups of users; prompts of one group begin with the same tokens.
struct SharedPrefix {
  std::uint32_t groups = 1;
  std::uint32_t users_per_group = 1;
  std::uint32_t shared_tokens = 0;  ///< part of the prompt; a shorter prompt is extended to this length
};

struct GeneratorSpec : StartsSpec {
  TokensDistribution prompt_tokens;
  TokensDistribution output_tokens;
  std::optional<SharedPrefix> prefix;
};

class RequestGenerator : public RequestSource {
 public:
  RequestGenerator(const GeneratorSpec& spec, std::uint64_t seed);

  std::optional<Time> next_arrival() override;
  Arrival take() override;
  std::uint32_t done(std::uint32_t request, Time now) override;
  bool follows_answers() const override {
    return spec_.arrivals == ArrivalProcess::closed_loop || spec_.prefix.has_value();
  }
  std::uint32_t count() const override { return starts_.count(); }

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

  GeneratorSpec spec_;
  Random prompts_, outputs_;
  RequestStarts starts_;
  std::uint32_t taken_ = 0;
  Time latest_;              ///< the latest drawn arrival; later draws are not earlier
  std::vector<User> users_;  ///< none without a prefix
  std::uint32_t idle_users_ = 0;
  std::unordered_map<std::uint32_t, std::uint32_t> asker_;              ///< users of the requests in flight
  std::priority_queue<Drawn, std::vector<Drawn>, ArrivesLater> ready_;  ///< requests that wait for no answer
};

}  // namespace railyard::workload::inference
