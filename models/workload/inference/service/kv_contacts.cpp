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

KvContacts::Contact& KvContacts::contact(const Pair& pair) {
  const auto [place, is_new] = contacts_.try_emplace(pair);
  if (is_new) place->second.is_met = had_met_;
  return place->second;
}

JobRef KvContacts::emit(const Instance& instance, std::uint32_t rank, Time time, const Fields& fields,
                        const std::vector<JobRef>& after) {
  return executor_.host(instance.grid().rank(rank), *threads_[instance.id()][rank], time, JobLabel::of(*this, fields),
                        *this, after);
}

const KvContacts::Handshake& KvContacts::meet(const Instance& from, const Instance& to,
                                              const std::vector<Time>& times) {
  Contact& contact = this->contact({from.id(), to.id()});
  if (contact.number != 0) return contact;
  contact.number = ++begun_;
  contact.left = static_cast<std::uint32_t>(times.size());
  for (std::uint32_t r = 0; r < times.size(); ++r) {
    contact.jobs.push_back(emit(to, r, times[r], {from.id(), to.id(), r, 0, contact.number}, {}));
    contact.earliest.push_back(executor_.fabric().now() + times[r]);
  }
  return contact;
}

void KvContacts::announce(const Instance& from, const Instance& to, const std::vector<Time>& times) {
  Contact& contact = this->contact({from.id(), to.id()});
  if (contact.number != 0) return;
  contact.number = ++begun_;
  for (std::uint32_t r = 0; r < times.size(); ++r)
    contact.announcements.push_back(emit(to, r, times[r], {from.id(), to.id(), r, 1, contact.number}, {}));
}

JobRef KvContacts::meet(const Instance& from, const Instance& to, std::uint32_t rank, const std::vector<JobRef>& after,
                        const std::vector<Time>& times) {
  Contact& contact = this->contact({from.id(), to.id()});
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
  contact.jobs[rank] = emit(from, rank, times[rank], {from.id(), to.id(), rank, 0, contact.number}, before);
  return contact.jobs[rank];
}

void KvContacts::begun_anew(const Instance& instance) {
  for (const Instance* const other : instances_) {
    contact({instance.id(), other->id()}) = {};
    contact({other->id(), instance.id()}) = {};
  }
}

void KvContacts::on_job_done(const Job& job) {
  const auto fields = job.label().as<Fields>();
  Contact& contact = this->contact({fields.from, fields.to});
  if (fields.announces || contact.number != fields.number || --contact.left > 0) return;
  contact.is_met = true;
  client_.on_met(*instances_[fields.from], *instances_[fields.to]);
}

std::string KvContacts::name(std::uint64_t arguments) const {
  const auto f = JobLabel::fields_of<Fields>(arguments);
  const std::uint32_t tp = owner(f).grid().tp();
  return fmt::format("{}_PP[{}]_TP[{}]_{}", f.announces ? "KvAnnounce" : "KvHandshake", f.rank / tp, f.rank % tp,
                     work(arguments));
}

std::string KvContacts::work(std::uint64_t arguments) const {
  const auto f = JobLabel::fields_of<Fields>(arguments);
  return fmt::format("FromInst[{}]_ToInst[{}]", instances_[f.from]->name(), instances_[f.to]->name());
}

}  // namespace railyard::workload::inference
