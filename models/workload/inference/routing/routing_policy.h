// The room `routing` says which instance computes a request, or a part of it. A Router asks its policy about the instances that
// can hold the request; each policy is a file. It knows what a RouterView tells it: what engines have reported, with a
// delay, and what the router itself has sent. A router moves no requests, and knows no instance but by its number. Plain C++ without
// SystemC.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "workload/inference/kv/block_contents.h"
#include "workload/inference/requests/request.h"

namespace railyard::workload::inference {

class RouterView;

/// A request, or its answer, for which an instance is chosen.
class Asked {
 public:
  using Contents = std::vector<BlockPool::Content>;
  /// @param its_content  lives as long as this
  Asked(std::uint32_t its_number, const Request& what, const RequestContent& its_content, RequestPart its_part)
      : number(its_number), request(what), part(its_part), content_(its_content) {}

  /// Of the blocks of the prompt that clients' ids tell, without those of the answer.
  /// @param block_tokens  of the KV cache
  const Contents& contents(std::uint32_t block_tokens) {
    if (block_tokens != block_tokens_) {
      contents_ = known_contents(content_, request.prompt_tokens, block_tokens);
      contents_.resize(std::min<std::size_t>(contents_.size(), request.prompt_tokens / block_tokens));
      block_tokens_ = block_tokens;
    }
    return contents_;
  }

  const std::uint32_t number;
  const Request& request;
  RequestPart part;
  std::optional<std::uint32_t> from;  ///< of an answer: the instance with the prompt, if it has been chosen

 private:
  const RequestContent& content_;
  std::uint32_t block_tokens_ = 0;
  Contents contents_;
};

/// Ids of instances, ascending.
using Candidates = std::vector<std::uint32_t>;

/// The expected time of a request's KV from the instance with its prompt to another one.
using KvEstimate = std::function<Time(const Asked&, std::uint32_t from, std::uint32_t to)>;

class RoutingPolicy {
 public:
  virtual ~RoutingPolicy() = default;

  /// Those of the instances among which it may choose.
  virtual Candidates among(const Request&, RequestPart, const Candidates& all) const { return all; }
  /// What the policy has sent to this instance is not there any more.
  virtual void on_lost(std::uint32_t /*instance*/) {}
  /// @param candidates  not empty
  /// @param scores      takes what it compares, one for each candidate; stays empty if it compares nothing
  virtual std::uint32_t choose(Asked& asked, const Candidates& candidates, RouterView& view,
                               std::vector<double>& scores) = 0;
};

}  // namespace railyard::workload::inference
