// One step of the scheduler of vLLM V1, written for the test from the published rules alone: slow, obvious, and without
// any code of the scheduler under test. Only batches of prompts and decodes together (BatchMix::mixed).
//
// A token is a pair of numbers that tells its content; a block's content is the list of all tokens from the request's
// first to the block's last. So two blocks are equal if and only if they and all blocks before them hold the same tokens.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <ostream>
#include <utility>
#include <vector>

#include "workload/inference/scheduler/continuous_scheduler.h"

namespace railyard::test {

class ReferenceScheduler {
 public:
  using Spec = workload::inference::SchedulerSpec;
  struct Item {
    std::uint32_t request;
    std::uint64_t tokens, start;
    std::uint64_t samples;  ///< tokens, if all drafts are right
    bool operator==(const Item& o) const {
      return request == o.request && tokens == o.tokens && start == o.start && samples == o.samples;
    }
    friend std::ostream& operator<<(std::ostream& os, const Item& i) {
      return os << i.request << ": " << i.tokens << " after " << i.start << ", samples " << i.samples;
    }
  };
  struct Step {
    std::vector<Item> items;
    std::vector<std::uint32_t> lives;  ///< of the items' requests
    std::vector<std::uint32_t> preempted;
  };

  ReferenceScheduler(const Spec& spec, std::uint32_t blocks) : spec_(spec), pool_(blocks) {
    for (std::uint32_t b = 1; b < blocks; ++b) free_.push_back(b);  // block 0 is reserved
  }

  void add(std::uint32_t number, const workload::inference::Request& request,
           const workload::inference::RequestContent& content) {
    waiting_.push_back({number,
                        request.priority,
                        arrivals_++,
                        request.prompt_tokens,
                        request.output_tokens,
                        content,
                        request.prompt_tokens,
                        0,
                        0,
                        0,
                        0,
                        0,
                        {}});
    sort_waiting();
  }

  Step step() {
    Step step;
    std::uint64_t budget = spec_.max_batched_tokens;
    bool stop = false;
    for (auto r = running_.begin(); r != running_.end() && budget > 0 && !stop;) {
      // The tokens of batches in flight may be computed on, but nothing follows the last token.
      std::uint64_t reached = r->known + (spec_.placeholders ? r->in_flight : 0);
      const bool ends = spec_.placeholders && r->known + r->batches >= r->prompt + r->answer;
      if (r->drafts == 0) {
        reached = std::min(reached, r->prompt + r->answer - 1);
      } else if (ends) {
        reached = 0;
      } else {
        reached += r->drafts;
        if (spec_.max_model_len > 0) reached = std::min<std::uint64_t>(reached, spec_.max_model_len - 1);
      }
      const std::uint64_t tokens = std::min(limit(reached - std::min(reached, r->computed)), budget);
      if (tokens == 0) {
        ++r;
        continue;
      }
      while (!stop && needed(with_lookahead(r->computed + tokens), r->blocks.size()) > free_.size()) {
        const auto victim = last_one();
        stop = victim == r;
        for (auto item = step.items.begin(); item != step.items.end(); ++item) {
          if (item->request != victim->number) continue;
          budget += item->tokens;
          victim->in_flight -= item->samples;
          victim->batches -= item->samples > 0;
          step.lives.erase(step.lives.begin() + (item - step.items.begin()));
          step.items.erase(item);
          break;
        }
        step.preempted.push_back(victim->number);
        release(*victim);
        victim->computed = victim->drafts = 0;
        ++victim->lives;
        waiting_.splice(waiting_.begin(), running_, victim);
      }
      if (stop) break;
      schedule(step, *r, tokens, with_lookahead(r->computed + tokens));
      budget -= tokens;
      ++r;
    }
    sort_waiting();
    while (step.preempted.empty() && budget > 0 && !waiting_.empty() && running_.size() < spec_.max_seqs) {
      Sequence& r = waiting_.front();
      if (spec_.drafts.tokens > 0 && r.in_flight > 0) break;  // what it has is not known
      const std::vector<std::uint32_t> hits = lookup(r);
      const std::uint64_t start = hits.size() * spec_.block_tokens;
      const std::uint64_t tokens = limit(r.known - start);
      if (!spec_.chunked_prefill && tokens > budget) break;
      const std::uint64_t chunk = std::min(tokens, budget);
      const bool whole = spec_.reserve == workload::inference::Reserve::sequence;
      std::uint64_t wanted = needed(whole ? r.known : start + chunk, hits.size());
      for (const std::uint32_t hit : hits) wanted += pool_[hit].users == 0;  // a hit leaves the free list, too
      if (!running_.empty()) wanted += static_cast<std::uint64_t>(spec_.watermark_ratio * pool_.size());
      if (wanted > free_.size()) break;
      for (const std::uint32_t hit : hits) {
        if (pool_[hit].users++ == 0) free_.erase(std::find(free_.begin(), free_.end(), hit));
      }
      r.blocks = hits;
      r.computed = start;
      running_.splice(running_.end(), waiting_, waiting_.begin());
      schedule(step, r, chunk, r.computed + chunk);
      budget -= chunk;
    }
    return step;
  }

  /// The tokens of a step are known. @param right  of each item's drafts. @return requests that are finished
  std::vector<std::uint32_t> complete(const Step& step, const std::vector<std::uint32_t>& right) {
    std::vector<std::uint32_t> finished;
    for (std::size_t i = 0; i < step.items.size(); ++i) {
      const Item& item = step.items[i];
      if (item.samples == 0) continue;
      auto* queue = &running_;
      auto r = find(running_, item.request);
      if (r == running_.end()) r = find(*(queue = &waiting_), item.request);  // preempted meanwhile
      if (r == waiting_.end()) continue;                                      // finished by the step before
      r->in_flight -= item.samples;
      --r->batches;
      if (queue == &running_ && r->lives == step.lives[i]) {
        r->computed -= item.samples - 1 - right[i];
        if (!spec_.placeholders) r->drafts = spec_.drafts.tokens;
      }
      r->known = std::min(r->known + 1 + right[i], r->prompt + r->answer);
      hash(*r);
      if (r->known < r->prompt + r->answer) continue;
      finished.push_back(r->number);
      release(*r);
      queue->erase(r);
    }
    return finished;
  }

  std::size_t free() const { return free_.size(); }
  std::size_t running() const { return running_.size(); }

 private:
  using Tokens = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
  struct Sequence {
    std::uint32_t number;
    std::uint32_t priority;
    std::uint32_t arrival;
    std::uint64_t prompt, answer;
    workload::inference::RequestContent content;
    std::uint64_t known, computed, in_flight;
    std::uint64_t batches, drafts;  ///< in flight, with a token of it; for its next step
    std::uint32_t lives;
    std::vector<std::uint32_t> blocks;

    std::pair<std::uint32_t, std::uint32_t> urgency() const { return {priority, arrival}; }
  };
  struct Block {
    Tokens content;  ///< empty: unknown
    int users = 0;
    std::uint64_t hashed = 0;  ///< turn
  };
  using Queue = std::list<Sequence>;

  static Queue::iterator find(Queue& queue, std::uint32_t number) {
    return std::find_if(queue.begin(), queue.end(), [&](const Sequence& r) { return r.number == number; });
  }
  bool by_priority() const { return spec_.policy == workload::inference::QueuePolicy::priority; }
  void sort_waiting() {
    if (by_priority()) waiting_.sort([](const Sequence& a, const Sequence& b) { return a.urgency() < b.urgency(); });
  }
  Queue::iterator last_one() {
    if (!by_priority()) return std::prev(running_.end());
    return std::max_element(running_.begin(), running_.end(),
                            [](const Sequence& a, const Sequence& b) { return a.urgency() < b.urgency(); });
  }
  std::uint64_t limit(std::uint64_t tokens) const {
    const std::uint64_t most = spec_.long_prefill_threshold_tokens;
    return most == 0 ? tokens : std::min(tokens, most);
  }
  /// Blocks for this many tokens, beyond those that are there.
  std::uint64_t needed(std::uint64_t tokens, std::uint64_t there) const {
    const std::uint64_t all = (tokens + spec_.block_tokens - 1) / spec_.block_tokens;
    return all - std::min(all, there);
  }
  Tokens content(const Sequence& r, std::size_t blocks) const {
    Tokens tokens;
    for (std::uint64_t t = 0; t < blocks * spec_.block_tokens; ++t) {
      const std::uint64_t grain = r.content.block_tokens;
      if ((t < r.prompt || grain == 1) && t < grain * r.content.ids.size())
        tokens.emplace_back(r.content.ids[t / grain], t % grain);
      else
        tokens.emplace_back(~std::uint64_t{r.number}, t);  // nobody else's
    }
    return tokens;
  }
  std::vector<std::uint32_t> lookup(const Sequence& r) const {
    std::vector<std::uint32_t> hits;
    if (!spec_.prefix_caching) return hits;
    while ((hits.size() + 1) * spec_.block_tokens < r.known) {  // at least one token is computed
      const Tokens wanted = content(r, hits.size() + 1);
      std::uint32_t found = 0;
      for (std::uint32_t b = 1; b < pool_.size(); ++b) {
        if (pool_[b].content == wanted && (found == 0 || pool_[b].hashed < pool_[found].hashed)) found = b;
      }
      if (found == 0) break;
      hits.push_back(found);
    }
    if (spec_.drafts.drops_last_hit && !hits.empty()) hits.pop_back();
    return hits;
  }
  std::uint64_t with_lookahead(std::uint64_t tokens) const {
    const std::uint64_t all = tokens + spec_.drafts.lookahead;
    return spec_.max_model_len > 0 ? std::min<std::uint64_t>(all, spec_.max_model_len) : all;
  }
  void schedule(Step& step, Sequence& r, std::uint64_t tokens, std::uint64_t slots) {
    while (needed(slots, r.blocks.size()) > 0) {
      const std::uint32_t block = free_.front();
      free_.erase(free_.begin());
      pool_[block].content.clear();
      pool_[block].users = 1;
      r.blocks.push_back(block);
    }
    const std::uint64_t end = r.computed + tokens, last = r.known + r.in_flight;
    const std::uint64_t samples = end < last ? 0 : 1 + end - last;
    step.items.push_back({r.number, tokens, r.computed, samples});
    step.lives.push_back(r.lives);
    r.computed = end;
    r.in_flight += samples;
    r.batches += samples > 0;
    // Made with the step's token: at once where a step may run on tokens that are not known.
    r.drafts = samples > 0 && spec_.placeholders ? spec_.drafts.tokens : 0;
    hash(r);
  }
  /// Full blocks whose tokens are computed, or will be by a batch in flight, and known.
  void hash(Sequence& r) {
    if (!spec_.prefix_caching) return;
    for (std::size_t b = 0; (b + 1) * spec_.block_tokens <= std::min(r.computed, r.known); ++b) {
      Block& block = pool_[r.blocks[b]];
      if (!block.content.empty()) continue;
      block.content = content(r, b + 1);
      block.hashed = ++turn_;
    }
  }
  void release(Sequence& r) {
    for (; !r.blocks.empty(); r.blocks.pop_back()) {
      if (--pool_[r.blocks.back()].users == 0) free_.push_back(r.blocks.back());
    }
  }

  Spec spec_;
  std::vector<Block> pool_;
  std::vector<std::uint32_t> free_;  ///< in the order of their release
  Queue running_, waiting_;
  std::uint32_t arrivals_ = 0;
  std::uint64_t turn_ = 0;
};

}  // namespace railyard::test
