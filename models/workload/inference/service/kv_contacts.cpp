#include "workload/inference/service/kv_contacts.h"

#include <fmt/format.h>

namespace railyard::workload::inference {

KvContacts::KvContacts(std::vector<Instance*> instances, bool have_met, Executor& executor, KvContactsClient& client)
    : instances_(std::move(instances)), had_met_(have_met), executor_(executor), client_(client) {
  for (Instance* const instance : instances_) {
    std::vector<gpu::Stream*>& threads = threads_.emplace_back();
    if (!takes_answers(instance->role())) continue;
    for (std::uint32_t r = 0; r < instance->grid().ranks(); ++r)
      threads.push_back(&instance->grid().rank(r).add_stream("kv_handshake"));
  }
}

KvContacts::Contact& KvContacts::contact(const Pair& pair) {
  const auto [place, is_new] = contacts_.try_emplace(pair);
  if (is_new) place->second.is_met = had_met_;
  return place->second;
}

const KvContacts::Handshake& KvContacts::meet(const Instance& from, const Instance& to,
                                              const std::vector<Time>& times) {
  Contact& contact = this->contact({from.id(), to.id()});
  if (contact.number != 0) return contact;
  contact.number = ++begun_;
  contact.left = static_cast<std::uint32_t>(times.size());
  for (std::uint16_t r = 0; r < times.size(); ++r) {
    const Fields fields{static_cast<std::uint16_t>(from.id()), static_cast<std::uint16_t>(to.id()), r, contact.number};
    contact.jobs.push_back(executor_.host(instances_[to.id()]->grid().rank(r), *threads_[to.id()][r], times[r],
                                          JobLabel::of(*this, fields), *this));
    contact.earliest.push_back(executor_.fabric().now() + times[r]);
  }
  return contact;
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
  if (contact.number != fields.number || --contact.left > 0) return;
  contact.is_met = true;
  client_.on_met(*instances_[fields.from], *instances_[fields.to]);
}

std::string KvContacts::name(std::uint64_t arguments) const {
  const auto f = JobLabel::fields_of<Fields>(arguments);
  const std::uint32_t tp = instances_[f.to]->grid().tp();
  return fmt::format("KvHandshake_PP[{}]_TP[{}]_{}", f.rank / tp, f.rank % tp, work(arguments));
}

std::string KvContacts::work(std::uint64_t arguments) const {
  const auto f = JobLabel::fields_of<Fields>(arguments);
  return fmt::format("FromInst[{}]_ToInst[{}]", instances_[f.from]->name(), instances_[f.to]->name());
}

}  // namespace railyard::workload::inference
