#include "transport/assembly.h"

#include <stdexcept>
#include <string>

#include "transport/faults.h"
#include "transport/fluid/fluid.h"
#include "transport/recovery.h"
#include "transport/study/invariants.h"

namespace railyard::transport {

Assembly::Assembly(const VcPlan& plan, Bytes transaction_bytes)
    : Fabric(plan, transaction_bytes),
      recovery_(std::make_unique<Recovery>(context_, routes_)),
      faults_(std::make_unique<Faults>(context_, static_cast<LinkObserver&>(*this), *recovery_)) {
#ifndef NDEBUG
  watch_invariants();
#endif
}

Assembly::~Assembly() = default;

void Assembly::model_as_fluid() {
  for (Device* device : devices_)
    for (std::uint32_t p = 0; p < device->ports(); ++p)
      if (device->port(PortId(p)).peer != nullptr) model_as_fluid({device, PortId(p)});
}

void Assembly::model_as_fluid(const LinkEnd& link) {
  for (const Device* end : {link.device, link.state().peer})
    if (end->needs_trains())
      throw std::invalid_argument(
          std::string(end->name()) +
          " serves a TLM model outside of the fabric, which fluid streams do not call; use trains");
  if (fluid_ == nullptr) fluid_ = std::make_unique<Fluid>(context_, routes_);
  fluid_->add(*link.device, link.port);
}

void Assembly::charge_until_now() {
  if (fluid_ != nullptr) fluid_->charge_until_now();
}

void Assembly::add_listener(FabricListener& listener) {
  listeners_.add(listener);
  context_.listener = context_.listener == nullptr ? &listener : &listeners_;  // a single listener is called directly
}

void Assembly::watch_invariants() {
  if (invariants_ != nullptr) return;
  invariants_ = std::make_unique<Invariants>(context_);
  add_listener(*invariants_);
}

void Assembly::expect_settled() const {
  if (invariants_ != nullptr) invariants_->expect_settled(devices_);
}

void Assembly::on_links_changed() {
  routes_.links_changed();
  if (router_ != nullptr) router_->on_links_changed();
  for (Device* device : devices_) device->links_changed();
  if (fluid_ != nullptr) fluid_->links_changed();
}

std::uint64_t Assembly::hop_transactions() const {
  std::uint64_t sum = 0;
  for (Device* device : devices_)
    for (std::uint32_t p = 0; p < device->ports(); ++p) sum += device->port(PortId(p)).counters.transactions;
  return sum;
}

}  // namespace railyard::transport
