// Collectives that are simulated once and then replayed. On links that no other traffic can reach, a collective is a
// function of its graph, its bytes, its members and the times at which they entered. If the links are quiet when it
// begins, an equal collective runs as recorded. A recording has the instants when each member was done, what the collective
// added to the counters of its links, and what it took of its members' memories, step by step. A replay adds the same.
// Where the use of links is asked for in the middle of a collective (Fabric::follow_charges), a recording also has
// when each link was charged. A run gives the same results whether its recordings are replayed or simulated.
//
// isolate() finds before the run which others can send over a group's links, from the routes of everything the workload can
// send. A group has a table if there are none, or if all of them say from when on they may send (transport/horizon.h). A
// collective is simulated, not replayed, if a member is late, if its links are not quiet, if one of the others may send before all
// credits have returned, or if a listener follows one of its links at this time; and also if the next collective of the group
// may begin before all credits have returned, because a replay does not leave those credits behind. It is not recorded
// if one of the others sends meanwhile.
//
// Groups that are alike (footprint.h) share recordings. One difference between them can remain: ports serve their
// requesters in turns, by number, and endpoints number requesters in the order of first use. So a group replays a recording
// of another group only if its requesters have the same numbers, or will get them in this collective; then it numbers
// them as the collective would have done. Fluid ports serve streams in the order of their first messages; there, a group replays a
// recording of another one only if it has used the same streams before, and for the first time in the same order. Recordings with chains of causes are not shared, because their costs name links.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "collective/collective.h"
#include "collective/footprint.h"
#include "transport/device/endpoint.h"
#include "transport/horizon.h"

namespace railyard::collective {

/// What one collective left behind, relative to its first start.
struct Recording {
  std::vector<std::pair<Time, std::uint32_t>> done;  ///< (when, member), in order
  Time took() const { return done.back().first; }
  std::vector<transport::PortCounters> amounts;  ///< that are added to counters; all are different
  std::vector<std::uint32_t> counters;           ///< of each port of the group, and of each meter: its amounts
  std::vector<transport::ChargeLog> charges;     ///< as counters; empty if nobody follows charges
  transport::ClassTotals messages;
  std::shared_ptr<transport::MemoryRecording> memory;  ///< of its members
  std::vector<Trail> trails;                           ///< by member; empty where nobody follows causes
  Time quiet_after;                                    ///< from then on its links are quiet
  bool apart = false;                                  ///< that is before the group's next collective can begin
};

class ReuseTable;

/// What groups that are alike have recorded.
struct SharedRecordings {
  struct Recorded {
    std::shared_ptr<const Recording> recording;
    const ReuseTable* by = nullptr;
    std::vector<std::size_t> before, after;          ///< number of requesters at each port of the recorder's endpoints
    std::vector<transport::FluidStreamKey> streams;  ///< that it took, in their order
  };
  // Bounds of the memory for all recordings. A serving engine has one for each number of tokens in a batch, up to the most
  // that it batches; without its recording, each of a pass's collectives is simulated.
  static constexpr std::size_t kMostRecordings = 1 << 14, kMostSteps = 1 << 23;
  /// Groups whose memories are at equal places in the address interleave. They need not be where links are fluid.
  struct Interleave {
    std::vector<std::uint64_t> stripes;  ///< Footprint::stripes
    std::size_t recordings = 0, steps = 0;
  };
  std::multimap<RecordingKey, Recorded> by_key;
  std::deque<Interleave> interleaves;

  Interleave& interleave_of(const std::vector<std::uint64_t>& stripes);
};

/// A recording as one group replays it.
struct KnownRecording {
  std::shared_ptr<const Recording> recording;
  std::vector<transport::Window> memories;  ///< in the order of course->memory
};

struct ReuseGroup;

/// The recordings that one group of members can replay, with the group's ports and meters.
class ReuseTable {
 public:
  /// @param footprint     of the group, on quiet links
  /// @param least_launch  least time from the entry of a member to the begin of its collective, for all of the group
  /// @param others        all who can send over these ports besides the group
  /// @param beside        all who can use the members' memories besides the group; none: unknown ones
  /// @param shared        one object for all groups that are alike
  ReuseTable(const transport::Fabric& fabric, const ReuseGroup& group, const Footprint& footprint,
             std::vector<transport::Horizon*> others, std::optional<std::vector<transport::Horizon*>> beside,
             std::shared_ptr<SharedRecordings> shared);

  Time least_launch() const { return least_launch_; }
  /// The instant from which the links are quiet if no traffic is added; not after now if they are quiet already; max if it
  /// is not known yet.
  Time quiet_from() const;
  /// Until this instant nobody but the group sends over the ports.
  Time alone_until() const;
  /// Until this instant nobody but the group sends over the ports or uses the members' memories.
  Time undisturbed_until() const;
  /// Whether nobody can use the members' memories without saying so before.
  bool may_be_undisturbed() const { return beside_.has_value(); }
  /// Whether one of these links is among the ports.
  bool crosses(const std::vector<transport::LinkEnd>& links) const;
  /// Whether a listener follows one of the ports during this recording. A replay would hide events from it.
  bool followed(const Recording& recording, Time now) const;
  /// Null if no recording is known for this key.
  const KnownRecording* find(const RecordingKey& key);
  /// The same without recordings of other groups that this one has not replayed yet.
  const KnownRecording* find_own(const RecordingKey& key) const {
    const auto found = recordings_.find(key);
    return found == recordings_.end() ? nullptr : &found->second;
  }
  /// A collective of the group begins. Another collective that is being recorded is no longer alone: its recording is
  /// dropped.
  void begin(const Collective& collective);
  /// The collective that has just begun is being recorded. keep() follows when it is over.
  void keeps(Collective& collective, Recording& recording, Time now);
  /// @param took  time from the first start until now, when all members are done
  void keep(const RecordingKey& key, Recording recording, Time now, Time took);

  /// Adds a recording that begins now to the counters, and tells the fabric's listener.
  /// @return transactions over links in the recording
  std::uint64_t replay(const Recording& recording, std::uint8_t traffic_class, Time now);
  /// The same for several replays, one after the other. @pre nobody listens to the fabric or follows charges
  std::uint64_t replay_often(const Recording& recording, std::uint64_t times);

 private:
  /// A port of an endpoint: its requesters are numbered in the order of first use.
  struct Source {
    transport::Endpoint* endpoint = nullptr;
    PortId port;
  };

  void stop_recording();
  /// How often the others have begun to send.
  std::uint64_t sends_of_others() const;
  /// Takes over a recording of another group.
  const KnownRecording* adopt(const RecordingKey& key);
  /// Whether this group's requesters at a source are numbered as the recorder's were, or will be after the collective.
  bool numbered_alike(const SharedRecordings::Recorded& recorded, std::size_t source) const;
  /// Whether the same links are fluid, this group has the streams of the recording, in the same order, and memories of both
  /// groups are at equal places in the interleave, or all links are fluid.
  bool links_alike(const SharedRecordings::Recorded& recorded) const;
  /// Renames source and target of messages of another group as they are called in this group. @return false if they are not
  /// among its members
  bool rename(const ReuseTable& other, transport::MessageKind kind, transport::Window& source,
              std::uint32_t& target) const;
  /// A requester of another group, as it is called in this group; none if it is not for messages among the members.
  std::optional<transport::RequesterKey> renamed(const ReuseTable& other, const transport::RequesterKey& key) const;
  std::vector<std::size_t> requesters() const;
  std::vector<transport::Window> memories_of(const ReuseTable& recorder, const Recording& recording) const;

  const transport::Fabric& fabric_;
  std::vector<transport::Window> members_;
  std::vector<transport::GroupId> multicast_groups_;
  std::vector<transport::LinkEnd> ports_;
  std::vector<transport::PortCounters*> counters_;  ///< of the ports, then of the meters
  std::vector<Source> sources_;                     ///< empty if the group is like no other group
  std::vector<transport::Horizon*> others_;
  std::optional<std::vector<transport::Horizon*>> beside_;  ///< and not among the others
  Time least_launch_;
  bool begin_together_;
  std::shared_ptr<SharedRecordings> shared_;
  SharedRecordings::Interleave* interleave_;
  Collective* kept_ = nullptr;
  // When the recording began:
  std::uint64_t sends_of_others_before_ = 0;
  std::vector<transport::PortCounters> before_;
  std::vector<std::size_t> requesters_before_;
  std::map<RecordingKey, KnownRecording> recordings_;
};

/// Groups of the same members. Each member takes part in one collective after the other, over all these groups.
struct ReuseGroup {
  std::vector<const Group*> groups;   ///< the same members in the same order
  std::vector<std::uint8_t> classes;  ///< of each group: the traffic class of its collectives; all are different
  Time least_launch;                  ///< least launch time of all collectives of these groups
  bool begin_together = false;        ///< no member begins the next collective before all are done with this one
};

/// Messages of the run that are of none of these groups.
struct OtherTraffic {
  transport::Window source = 0, destination = 0;
  std::uint8_t traffic_class = 0;
  transport::Horizon* horizon = nullptr;  ///< of who sends them; null: they may be sent at any time
  std::uint32_t queue_pair = 0;
};

/// Makes a table for each group whose links nobody else can use without saying so before; null for all other groups. Two
/// groups that share a link have none, because nothing says when the collectives of the other one may run.
/// @param groups  all groups of the run; they outlive the tables
/// @param others  all other messages of the run
std::vector<std::shared_ptr<ReuseTable>> isolate(const transport::Fabric& fabric, const std::vector<ReuseGroup>& groups,
                                                 const std::vector<OtherTraffic>& others);

}  // namespace railyard::collective
