#include "workload/training/schedule/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "workload/training/schedule/slots.h"

namespace railyard::workload::training {

namespace {

/// Where the slots of a result are: its rank is that of the virtual stage.
constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

class Check {
 public:
  explicit Check(const Schedule& schedule)
      : schedule_(schedule), number_(schedule), positions_(number_.size(), kNowhere) {}

  std::optional<ScheduleFault> run() {
    for (std::uint32_t rank = 0; rank < schedule_.ranks(); ++rank) {
      for (std::size_t at = 0; at < schedule_.slots[rank].size(); ++at)
        if (!place(rank, at)) return fault_;
    }
    for (std::uint32_t stage = 0; stage < schedule_.stages(); ++stage) {
      for (std::uint32_t m = 0; m < schedule_.micro_batches; ++m)
        if (!has_all(stage, m)) return fault_;
    }
    for (std::uint32_t rank = 0; rank < schedule_.ranks(); ++rank) {
      for (std::size_t at = 0; at < schedule_.slots[rank].size(); ++at)
        if (!follows_its_needs(rank, at)) return fault_;
    }
    find_deadlock();
    return fault_;
  }

 private:
  const Slot& slot(std::uint32_t rank, std::size_t at) const { return schedule_.slots[rank][at]; }
  std::size_t& position(SlotKind kind, std::uint32_t stage, std::uint32_t m) {
    return positions_[number_({kind, stage, m})];
  }

  bool place(std::uint32_t rank, std::size_t at) {
    const Slot& s = slot(rank, at);
    if (s.stage >= schedule_.stages())
      return fail(rank, at, fmt::format("{}: there are {} virtual stages", name_of(s), schedule_.stages()));
    if (s.micro_batch >= schedule_.micro_batches)
      return fail(rank, at, fmt::format("{}: there are {} micro-batches", name_of(s), schedule_.micro_batches));
    const std::uint32_t holder = schedule_.rank_of[s.stage];
    if (holder != rank)
      return fail(rank, at, fmt::format("{} is on rank {}, but rank {} holds this stage", name_of(s), rank, holder));
    if (!claim(rank, at, s.kind)) return false;
    return s.kind != SlotKind::backward || claim(rank, at, SlotKind::backward_weights);
  }
  /// Notes where a result comes from, which must be one slot.
  bool claim(std::uint32_t rank, std::size_t at, SlotKind kind) {
    const Slot& s = slot(rank, at);
    std::size_t& place = position(kind, s.stage, s.micro_batch);
    if (place != kNowhere) {
      const Slot& first = slot(rank, place);
      return fail(rank, at,
                  first == s ? name_of(s) + " is there twice"
                             : fmt::format("{} repeats work of an earlier {}; a backward pass is B, or I and W",
                                           name_of(s), letter_of(first.kind)));
    }
    place = at;
    return true;
  }

  bool has_all(std::uint32_t stage, std::uint32_t m) {
    const bool has_i = position(SlotKind::backward_inputs, stage, m) != kNowhere,
               has_w = position(SlotKind::backward_weights, stage, m) != kNowhere;
    if (position(SlotKind::forward, stage, m) == kNowhere) return missing({SlotKind::forward, stage, m});
    if (has_i && has_w) return true;
    return missing({has_i   ? SlotKind::backward_weights
                    : has_w ? SlotKind::backward_inputs
                            : SlotKind::backward,
                    stage, m});
  }
  bool missing(const Slot& s) {
    const std::uint32_t rank = schedule_.rank_of[s.stage];
    return fail(rank, schedule_.slots[rank].size(), fmt::format("{} is missing on rank {}", name_of(s), rank));
  }

  /// The slot itself, with the kind that the schedule has.
  const Slot& found(const Slot& need) const { return slot(schedule_.rank_of[need.stage], positions_[number_(need)]); }
  bool follows_its_needs(std::uint32_t rank, std::size_t at) {
    const Slot& s = slot(rank, at);
    for (const Slot& need : Needs(s, schedule_.stages()))
      if (schedule_.rank_of[need.stage] == rank && positions_[number_(need)] > at)
        return fail(rank, at, fmt::format("{} comes before {}, which it needs", name_of(s), name_of(found(need))));
    return true;
  }

  /// Runs all slots that can run. If some are left, the first of each such rank waits for a slot of another such rank.
  void find_deadlock() {
    std::vector<std::size_t> next(schedule_.ranks(), 0);
    const auto unmet = [&](std::uint32_t rank) -> const Slot* {
      for (const Slot& need : Needs(slot(rank, next[rank]), schedule_.stages()))
        if (positions_[number_(need)] >= next[schedule_.rank_of[need.stage]]) return &found(need);
      return nullptr;
    };
    const auto is_done = [&](std::uint32_t rank) { return next[rank] == schedule_.slots[rank].size(); };
    for (bool any = true; any;) {
      any = false;
      for (std::uint32_t rank = 0; rank < schedule_.ranks(); ++rank)
        for (; !is_done(rank) && unmet(rank) == nullptr; ++next[rank]) any = true;
    }
    std::uint32_t rank = 0;
    while (rank < schedule_.ranks() && is_done(rank)) ++rank;
    if (rank == schedule_.ranks()) return;

    std::vector<std::uint32_t> chain;
    while (std::find(chain.begin(), chain.end(), rank) == chain.end()) {
      chain.push_back(rank);
      rank = schedule_.rank_of[unmet(rank)->stage];
    }
    chain.erase(chain.begin(), std::find(chain.begin(), chain.end(), rank));
    std::string text = "deadlock: ";
    for (const std::uint32_t r : chain)
      text += fmt::format("{}rank {} waits with {} for {}", r == rank ? "" : "; ", r, name_of(slot(r, next[r])),
                          name_of(*unmet(r)));
    fail(rank, next[rank], text);
  }

  bool fail(std::uint32_t rank, std::size_t at, const std::string& text) {
    fault_ = ScheduleFault{text, rank, at};
    return false;
  }

  const Schedule& schedule_;
  ResultNumbers number_;
  std::vector<std::size_t> positions_;  ///< on its rank, by result
  std::optional<ScheduleFault> fault_;
};

}  // namespace

std::optional<ScheduleFault> fault_of(const Schedule& schedule) { return Check(schedule).run(); }

}  // namespace railyard::workload::training
