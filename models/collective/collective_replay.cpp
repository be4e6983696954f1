// A collective that equals an earlier one is replayed: when that is allowed (reuse.h), and how.
#include "collective/collective.h"
#include "collective/marks.h"
#include "collective/reuse.h"

namespace railyard::collective {

RecordingKey Collective::recording_key() const {
  std::vector<Time> offsets;
  for (const Member& member : members_) offsets.push_back(member.entered_at - first_entry_);
  return {spec_.key(), std::move(offsets)};
}

void Collective::reuse() {
  if (reuse_ == nullptr) return;
  const Time now = fabric_.now();
  reuse_->begin(*this);
  // If a member has not entered yet, the key of the recording is not known.
  if (!all_entered() || reuse_->quiet_from() > now) return;
  const Time alone_until = reuse_->alone_until();
  if (alone_until <= now) return;
  if (const KnownRecording* known = reuse_->find(recording_key())) {
    const Recording* const recording = known->recording.get();
    if (!recording->apart || alone_until < now + recording->quiet_after || reuse_->followed(*recording, now)) return;
    replayed_ = recording;
    known_ = known;
    return;
  }
  recording_ = std::make_unique<Recording>();
  recording_->memory = std::make_shared<transport::MemoryRecording>();
  recording_from_ = now;
  reuse_->keeps(*this, *recording_, now);
}

void Collective::replay(const KnownRecording& known) {
  if (first_entry_ == last_entry_ && client_->on_replay(*this)) return;
  const Time now = fabric_.now();
  for (const auto& [after, member] : replayed_->done)
    fabric_.calendar().at_last(now + after, turn(member, true), *this, kDoneTag, member);
  if (fabric_.memories() != nullptr) fabric_.memories()->on_replayed(replayed_->memory, known.memories);
  fabric_.replay(spec_.traffic_class, replayed_->messages, reuse_->replay(*replayed_, spec_.traffic_class, now));
  trails_ = replayed_->trails;
}

void Collective::forget_recording() { recording_.reset(); }

}  // namespace railyard::collective
