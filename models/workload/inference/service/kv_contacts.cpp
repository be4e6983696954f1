#include "workload/inference/service/kv_contacts.h"

#include <fmt/format.h>

namespace railyard::workload::inference {

KvContacts::KvContacts(std::vector<Instance*> instances, bool have_met, bool writes, Executor& executor,
                       KvContactsClient& client)
    : instances_(std::move(instances)), had_met_(have_met), writes_(writes), executor_(executor), client_(client) {
  for (Instance* const instance : instances_) {
    std::vector<gpu::Stream*>& threads = threads_.emplace_back();
    if (!takes_answers(instance->role()) && !writes) continue;
    for (std::uint32_t r = 0; r < instance->grid().ranks(); ++r)
      threads.push_back(&instance->grid().rank(r).add_stream("kv_handshake"));
  }
}

KvContacts::Contact& KvContacts::contact(const KvEnd& from, const KvEnd& to) {
  const auto [place, is_new] = contacts_.try_emplace(Pair{from.number(), to.number()});
  if (is_new) place->second.is_met = had_met_;
  return place->second;
}

std::uint32_t KvContacts::begin(const KvEnd& from, const KvEnd& to) {
  begun_.push_back({from, to});
  return static_cast<std::uint32_t>(begun_.size());
}

JobRef KvContacts::emit(Time time, const Fields& fields, const std::vector<JobRef>& after) {
  const KvEnd& end = owner(fields);
  return executor_.host(end.rank(fields.rank), *threads_[end->id()][end.place(fields.rank)], time,
                        JobLabel::of(*this, fields), *this, after);
}

const KvContacts::Handshake& KvContacts::meet(const KvEnd& from, const KvEnd& to, const std::vector<Time>& times) {
  Contact& contact = this->contact(from, to);
  if (contact.number != 0) return contact;
  contact.number = begin(from, to);
  contact.left = static_cast<std::uint32_t>(times.size());
  for (std::uint32_t r = 0; r < times.size(); ++r) {
    contact.jobs.push_back(emit(times[r], {r, 0, contact.number}, {}));
    contact.earliest.push_back(executor_.fabric().now() + times[r]);
  }
  return contact;
}

void KvContacts::announce(const KvEnd& from, const KvEnd& to, const std::vector<Time>& times) {
  Contact& contact = this->contact(from, to);
  if (contact.number != 0) return;
  contact.number = begin(from, to);
  for (std::uint32_t r = 0; r < times.size(); ++r)
    contact.announcements.push_back(emit(times[r], {r, 1, contact.number}, {}));
}

JobRef KvContacts::meet(const KvEnd& from, const KvEnd& to, std::uint32_t rank, const std::vector<JobRef>& after,
                        const std::vector<Time>& times) {
  Contact& contact = this->contact(from, to);
  if (contact.jobs.empty()) {
    contact.jobs.resize(times.size());
    contact.has_begun.resize(times.size());
    contact.left = static_cast<std::uint32_t>(
        std::count_if(times.begin(), times.end(), [](const Time time) { return time > Time(); }));
  }
  if (contact.has_begun[rank]) return contact.jobs[rank];
  contact.has_begun[rank] = true;
  std::vector<JobRef> before = contact.announcements;
  before.insert(before.end(), after.begin(), after.end());
  contact.jobs[rank] = emit(times[rank], {rank, 0, contact.number}, before);
  return contact.jobs[rank];
}

void KvContacts::begun_anew(const Instance& instance) {
  for (const Instance* const other : instances_)
    for (std::uint32_t i = 0; i < instance.grid().replicas(); ++i)
      for (std::uint32_t j = 0; j < other->grid().replicas(); ++j) {
        contact({&instance, i}, {other, j}) = {};
        contact({other, j}, {&instance, i}) = {};
      }
}

void KvContacts::on_job_done(const Job& job) {
  const auto fields = job.label().as<Fields>();
  const Ends ends = this->ends(fields);
  Contact& contact = this->contact(ends.from, ends.to);
  if (fields.announces || contact.number != fields.number || --contact.left > 0) return;
  contact.is_met = true;
  client_.on_met(ends.from, ends.to);
}

std::string KvContacts::name(std::uint64_t arguments) const {
  const auto f = JobLabel::fields_of<Fields>(arguments);
  const KvEnd& end = owner(f);
  return fmt::format("{}_PP[{}]_TP[{}]_{}", f.announces ? "KvAnnounce" : "KvHandshake", end.stage(f.rank),
                     end.in_stage(f.rank), work(arguments));
}

std::string KvContacts::work(std::uint64_t arguments) const {
  const auto f = JobLabel::fields_of<Fields>(arguments);
  const auto& [from, to] = ends(f);
  std::string text = fmt::format("FromInst[{}]_ToInst[{}]", from->name(), to->name());
  if (from->grid().replicas() > 1 || to->grid().replicas() > 1)
    text += fmt::format("_FromReplica[{}]_ToReplica[{}]", from.replica, to.replica);
  return text;
}

}  // namespace railyard::workload::inference
