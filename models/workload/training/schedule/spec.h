// The schedules that Railyard can generate, and what a user chooses about them.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "workload/training/schedule/times.h"

namespace railyard::workload::training {

enum class ScheduleKind : std::uint8_t {
  naive,
  gpipe,
  one_f_one_b,
  interleaved,
  zb_h1,
  zb_h2,
  zb_auto,
  zbv,
  dualpipe_v,
  dualpipe
};

/// As in scenarios, in the order of ScheduleKind.
constexpr std::array<const char*, 10> kScheduleNames{"naive", "gpipe",   "1f1b", "interleaved", "zb_h1",
                                                     "zb_h2", "zb_auto", "zbv",  "dualpipe_v",  "dualpipe"};

/// Whether ranks hold two virtual stages each, in the form of a V.
inline bool is_v_shaped(ScheduleKind kind) { return kind >= ScheduleKind::zbv; }

inline const char* name_of(ScheduleKind kind) { return kScheduleNames[static_cast<std::size_t>(kind)]; }

/// Half of the ranks and micro-batches of dualpipe are like the other half: they are dualpipe_v, see Schedule::both_ends.
inline bool has_dualpipe_order(ScheduleKind kind) { return kind >= ScheduleKind::dualpipe_v; }

struct ScheduleSpec {
  ScheduleKind kind = ScheduleKind::one_f_one_b;
  std::uint32_t ranks = 1;  ///< dualpipe: of one half, as micro_batches
  std::uint32_t micro_batches = 1;
  std::uint32_t virtual_stages = 1;  ///< on each rank; more than 1 with interleaved, exactly 2 with zbv and later kinds
  std::uint32_t group_micro_batches = 0;  ///< interleaved: micro-batches in a row in one virtual stage; 0: ranks
  /// 1f1b, interleaved and dualpipe kinds: an F and the B after it run interleaved, see overlap_in_pairs(). 1f1b has 2(p - r) F
  /// first, interleaved one more than without.
  bool overlap_pairs = false;
  double memory_limit_stages = 1;  ///< zb_auto: activations of at most this x ranks micro-batches, 1 to 2
  double kept_for_weights = 1;     ///< zb_auto: share of a micro-batch's activations that W needs, above 0
  std::vector<StageTimes> times;   ///< zb_auto: by virtual stage

  std::uint32_t group() const { return group_micro_batches == 0 ? ranks : group_micro_batches; }
};

/// A value that the kind of schedule does not allow.
struct IllegalValue {
  std::string key;  ///< member of ScheduleSpec
  std::string text;
};

/// @pre ranks, micro_batches and virtual_stages are not zero; memory_limit_stages is in its range
std::optional<IllegalValue> illegal_value(const ScheduleSpec& spec);

/// Whether these slots of a rank, one after the other, can run interleaved without a deadlock: an F and a B, and the F
/// does not lead to what the B waits for. @pre spec.overlap_pairs
bool overlap_in_pairs(const ScheduleSpec& spec, std::uint32_t rank, const Slot& first, const Slot& second);

/// @pre no illegal value; with zb_auto, times for each rank
Schedule make_schedule(const ScheduleSpec& spec);

/// The head's gradients of weights as slots of their own: W slots of the last virtual stage, after all others of its rank.
/// @pre backward slots of this stage are whole
Schedule with_head_deferred(Schedule schedule);

}  // namespace railyard::workload::training
