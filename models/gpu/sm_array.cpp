#include "gpu/sm_array.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "gpu/datasheet.h"
#include "gpu/fair_share.h"

namespace railyard::gpu {

namespace {

constexpr std::uint32_t kEndTag = 0;       ///< end of a chain, or of one kernel if other kernels run beside it
constexpr std::uint32_t kBoundaryTag = 1;  ///< CTAs have ended on SMs for which a kernel or claim waits
constexpr std::uint32_t kTellTag = 2;      ///< the next kernel of a chain begins: for waveforms only
constexpr unsigned kGenerationShift = 32;

constexpr double kResolution = 1e-15;   ///< seconds: resolution of simulated time
constexpr double kTrafficStep = 0.005;  ///< share of the HBM rate: a smaller change takes effect with the next change

/// Whether the SMs limit the kernel, and not memory or its launch.
bool needs_pipes(const KernelTime& kernel) {
  return kernel.limit == KernelLimit::tensor || kernel.limit == KernelLimit::feed;
}

}  // namespace

std::uint32_t SmArray::count() const { return sheet_.sm.count; }

void SmArray::expect_present() const {
  if (calendar_.now() < claims_since_) throw std::logic_error("work for a GPU amid a pass that is composed");
}

bool SmArray::keep(SmLog& log) {
  const bool idle =
      std::all_of(kernels_.begin(), kernels_.end(), [](const Kernel& k) { return k.state == State::free; }) &&
      std::all_of(claims_.begin(), claims_.end(), [](const Claim& c) { return c.state == State::free; });
  if (!idle || source_ == nullptr || !source_->is_of_last_replay()) return false;
  log.clear();
  log_ = &log;
  runs_before_log_ = runs_;
  begun_before_log_ = source_->begun();
  return true;
}

bool SmArray::stop_keeping() {
  log_ = nullptr;
  return runs_ == runs_before_log_ + 1 && source_->begun() == begun_before_log_;
}

void SmArray::move_claim(Slot slot, std::uint32_t ctas, const CtaFootprint& footprint, Time from) {
  Claim& claim = claims_[slot];
  claim.sms = std::min(ctas, count());
  claim.footprint = footprint;
  claim.asked = claims_since_ = from;
}

void SmArray::run(SharedChain chain, SmClient& client, const Stream* stream) {
  expect_present();
  ++runs_;
  if (source_ != nullptr && !watched()) traffic_ = source_->on_watched();
  auto slot = std::find_if(kernels_.begin(), kernels_.end(), [](const Kernel& k) { return k.state == State::free; });
  if (slot == kernels_.end()) slot = kernels_.emplace(kernels_.end());
  const std::uint32_t end = slot->end, boundary = slot->boundary, told = slot->tell;
  *slot = Kernel();
  slot->end = end + 1;  // events of the slot's previous chain are ignored
  slot->boundary = boundary + 1;
  slot->tell = told + 1;
  slot->state = State::waiting;
  slot->chain = std::move(chain);
  slot->client = &client;
  slot->stream = stream;
  slot->speed = speed_ratio_;
  slot->begun = calendar_.now();
  allocate();
}

SmArray::Slot SmArray::claim(std::uint32_t ctas, const CtaFootprint& footprint, SmClient& client,
                             const Stream* stream) {
  expect_present();
  ++runs_;
  catch_up();
  auto slot = std::find_if(claims_.begin(), claims_.end(), [](const Claim& c) { return c.state == State::free; });
  if (slot == claims_.end()) slot = claims_.emplace(claims_.end());
  *slot = {State::waiting, std::min(ctas, count()), footprint, nullptr, stream, calendar_.now(), claims_so_far_++};
  if (stream != nullptr) slot->priority = stream->comm_priority();
  if (slot->priority == CommPriority::normal)
    for (Kernel& kernel : kernels_) put_ahead(kernel, *slot);
  const auto number = static_cast<Slot>(slot - claims_.begin());
  allocate();
  claims_[number].client = &client;  // set late: a claim that is resident at once needs no callback
  return number;
}

void SmArray::release(Slot slot) {
  catch_up();
  settle_claims(calendar_.now());
  const Stream* stream = claims_[slot].stream;
  claims_[slot] = Claim();
  allocate();
  if (stream != nullptr) tell_ctas(stream, 0);
}

bool SmArray::watched() const {
  return !listeners_.empty() ||
         std::any_of(kernels_.begin(), kernels_.end(), [](const Kernel& k) { return k.state != State::free; });
}

void SmArray::set_traffic(double bytes_per_second) {
  if (bytes_per_second == traffic_) return;
  traffic_ = bytes_per_second;
  if (std::abs(traffic_ - traffic_shared_) > kTrafficStep * sheet_.hbm.gb_per_s * 1e9) {
    allocate();
  } else {
    tell();
  }
}

// -- Occupancy: which kernels and claims fit on one SM

bool SmArray::fit(const CtaFootprint& a, std::uint32_t of_a, const CtaFootprint& b, std::uint32_t of_b) const {
  return of_a * a.threads + of_b * b.threads <= sheet_.sm.threads &&
         of_a * a.registers_kib + of_b * b.registers_kib <= sheet_.sm.registers_kib &&
         of_a * a.shared_memory_kib + of_b * b.shared_memory_kib <= sheet_.sm.shared_memory_kib;
}

bool SmArray::fits_beside(const Claim& claim, const KernelTime& kernel) const {
  return fit(claim.footprint, 1, kernel.cta, kernel.ctas_per_sm);
}

bool SmArray::beside(const KernelTime& a, const KernelTime& b) const {
  return fit(a.cta, a.ctas_per_sm, b.cta, b.ctas_per_sm) && !(needs_pipes(a) && needs_pipes(b));
}

double SmArray::wanted(const KernelTime& kernel) const {
  const double most = kernel.most_sms > 0 ? kernel.most_sms : count();
  return std::min(most, std::ceil(static_cast<double>(kernel.ctas) / kernel.ctas_per_sm));
}

double SmArray::occupied(const Kernel& kernel, const KernelTime& running) const {
  return std::min({wanted(running), kernel.share.sms, kernel.uncovered_sms});
}

double SmArray::claimed_sms() const {
  double sms = 0;
  for (const Claim& claim : claims_)
    if (claim.state == State::running) sms += claim.sms;
  return sms;
}

double SmArray::room_for(const Kernel& kernel, std::uint32_t index) const {
  double room = count();
  for (const Claim& claim : claims_)
    if (claim.state != State::free && !fits_beside(claim, kernel.chain->kernels[index]) &&
        !stands_behind(claim, kernel, index))
      room -= claim.sms;
  return std::max(0.0, room);
}

bool SmArray::stands_behind(const Claim& claim, const Kernel& kernel, std::uint32_t index) {
  return claim.state == State::waiting && claim.priority == CommPriority::normal && kernel.ahead_index == index &&
         claim.order >= kernel.ahead_of;
}

void SmArray::put_ahead(Kernel& kernel, const Claim& claim) const {
  if (kernel.state == State::free || kernel.ahead_index == kernel.index) return;
  const Time now = calendar_.now();
  if (kernel.state == State::running) {
    const KernelTime& time = kernel.chain->kernels[kernel.index];
    const double slots = std::floor(kernel.share.sms) * time.ctas_per_sm;
    // A kernel for fewer SMs has as many blocks as run at once, whose tiles the model counts as blocks.
    const bool all_run = time.persistent || time.most_sms > 0 || static_cast<double>(time.ctas) <= slots;
    if (all_run || progress(kernel, now).done == 0) return;  // without progress, the kernel begins now
  } else if (kernel.done == 0 && later(kernel.begun, kernel.from) >= now) {
    return;
  }
  kernel.ahead_index = kernel.index;
  kernel.ahead_of = claim.order;
}

// -- Progress of kernels

double SmArray::seconds(const Kernel& kernel, std::uint32_t index) const {
  const KernelTime& time = kernel.chain->kernels[index];
  KernelShare share = kernel.share;
  if (index != kernel.index) share.sms = room_for(kernel, index);
  if (share.sms >= count() && share.l2_ratio == 1 && share.hbm_ratio == 1) return time.seconds;
  // Without any room, a waiting claim or kernel is served before this kernel begins; one SM avoids a division by zero.
  share.sms = std::max(1.0, share.sms);
  return kernel.chain->seconds_on(index, share);
}

SmArray::Progress SmArray::progress(const Kernel& kernel, Time now) const {
  Progress p{kernel.index, kernel.done};
  if (kernel.state != State::running) return p;
  double left = since(now, kernel.from).seconds() * kernel.speed;
  const auto last = static_cast<std::uint32_t>(kernel.chain->kernels.size() - 1);
  while (true) {
    const KernelTime& time = kernel.chain->kernels[p.index];
    const double all = seconds(kernel, p.index);
    const double rest = (1 - p.done) * all;
    const bool over =
        left > rest - kResolution;  // the next kernel begins at the rounded end of this one, at the latest
    const double used = over ? rest : left;
    p.busy_sm_seconds += used / kernel.speed * occupied(kernel, time);
    const double fraction = all > 0 ? used / all : 1 - p.done;
    p.bytes += fraction * time.bytes;
    p.done = std::min(1.0, p.done + fraction);
    left = std::max(0.0, left - used);
    if (!over || p.index == last || !kernel.alone) return p;
    ++p.index;
    p.done = 0;
  }
}

void SmArray::settle(Kernel& kernel, const Progress& p, Time now) {
  add_up(&SmTotals::kernel_busy, p.busy_sm_seconds);
  add_up(&SmTotals::kernel_bytes, p.bytes);
  kernel.index = p.index;
  kernel.done = p.done;
  kernel.from = now;
}

void SmArray::settle_claims(Time now) {
  add_up(&SmTotals::claim_busy, claimed_sms() * since(now, claims_since_).seconds());
  claims_since_ = now;
}

void SmArray::catch_up() {
  const Time now = calendar_.now();
  for (Kernel& kernel : kernels_) {
    const Progress p = progress(kernel, now);
    if (p.index == kernel.index) continue;
    const double room = room_for(kernel, p.index);
    settle(kernel, p, now);
    kernel.share.sms = room;
  }
}

double SmArray::busy_sm_seconds(Time now) const {
  double busy = totals_.claim_busy + claimed_sms() * since(now, claims_since_).seconds() + totals_.kernel_busy;
  for (const Kernel& kernel : kernels_) busy += progress(kernel, now).busy_sm_seconds;
  return busy;
}

double SmArray::kernel_bytes(Time now) const {
  double bytes = totals_.kernel_bytes;
  for (const Kernel& kernel : kernels_) bytes += progress(kernel, now).bytes;
  return bytes;
}

// -- Allocation (shares: sm_shares.cpp)

void SmArray::pause(Kernel& kernel, const Progress& at, Time now) {
  settle(kernel, at, now);
  kernel.state = State::waiting;
  ++kernel.end;
  ++kernel.boundary;
  ++kernel.tell;
  if (kernel.stream != nullptr) tell_ctas(kernel.stream, 0);
}

void SmArray::give(Kernel& kernel, const KernelShare& share, const Progress& at, bool alone, double& uncovered,
                   Time now) {
  kernel.yields = false;
  if (kernel.state == State::free) return;
  if (share.sms < 1) {
    if (kernel.state == State::running) pause(kernel, at, now);
    return;
  }
  if (kernel.state != State::running || alone != kernel.alone || share != kernel.share ||
      uncovered != kernel.uncovered_sms) {
    settle(kernel, at, now);
    kernel.state = State::running;
    kernel.alone = alone;
    kernel.share = share;
    kernel.uncovered_sms = uncovered;
    plan(kernel);
  }
  uncovered -= occupied(kernel, kernel.chain->kernels[at.index]);
  const bool is_late = kernel.boundary_at_end && kernel.asked_sms > 0;
  if ((kernel.asked_sms > 0 || kernel.asked_at_end) && (!kernel.boundary_set || is_late)) plan_boundary(kernel);
}

void SmArray::allocate_alone(Kernel& kernel) {
  const Time now = calendar_.now();
  const Progress at = progress(kernel, now);
  kernel.asked_sms = 0;
  kernel.asked_at_end = false;
  settle_claims(now);
  KernelShare share = bandwidth_left();
  share.sms = room_for(kernel, at.index);
  if (keeps_sms(kernel, at, share.sms)) share.sms = kernel.share.sms;
  double uncovered = count() - claimed_sms();
  give(kernel, share, at, true, uncovered, now);
  tell();
}

void SmArray::allocate() {
  const Time now = calendar_.now();
  const bool waits =
      std::any_of(claims_.begin(), claims_.end(), [](const Claim& c) { return c.state == State::waiting; });
  std::size_t kernels = 0;
  Kernel* only = nullptr;
  for (Kernel& kernel : kernels_) {
    if (kernel.state == State::free) continue;
    ++kernels;
    only = &kernel;
  }
  traffic_shared_ = traffic_;
  if (kernels == 0 && !waits) return tell();
  if (kernels == 1 && !waits) return allocate_alone(*only);
  at_.clear();
  for (Kernel& kernel : kernels_) {
    at_.push_back(progress(kernel, now));
    kernel.asked_sms = 0;
    kernel.asked_at_end = false;
  }
  settle_claims(now);
  const std::vector<SmClient*> told = admit_claims(now, at_);
  share_sms(at_);
  share_bandwidth(at_);

  double uncovered = count() - claimed_sms();
  for (std::size_t i = 0; i < kernels_.size(); ++i) give(kernels_[i], given_[i], at_[i], kernels == 1, uncovered, now);
  tell();
  for (SmClient* client : told) client->on_claim_resident();
}

// -- Events

void SmArray::set(Time when, std::uint32_t tag, const Kernel& kernel, std::uint32_t generation) {
  const auto slot = static_cast<std::uint64_t>(&kernel - kernels_.data());
  calendar_.at(when, *this, tag, static_cast<std::uint64_t>(generation) << kGenerationShift | slot);
}

void SmArray::plan(Kernel& kernel) {
  double left = (1 - kernel.done) * seconds(kernel, kernel.index);
  if (kernel.alone)
    for (std::uint32_t i = kernel.index + 1; i < kernel.chain->kernels.size(); ++i) left += seconds(kernel, i);
  set(kernel.from + Time::seconds(left / kernel.speed), kEndTag, kernel, ++kernel.end);
  ++kernel.boundary;
  kernel.boundary_set = kernel.boundary_at_end = false;
  ++kernel.tell;
  if (!listeners_.empty()) plan_tell(kernel, kernel.from);
}

void SmArray::plan_tell(Kernel& kernel, Time now) {
  if (!kernel.alone) return;
  double until = (1 - kernel.done) * seconds(kernel, kernel.index);
  for (std::uint32_t next = kernel.index + 1; next < kernel.chain->kernels.size(); ++next) {
    const Time when = kernel.from + Time::seconds(until / kernel.speed);
    if (now < when) return set(when, kTellTag, kernel, kernel.tell);
    until += seconds(kernel, next);
  }
}

double SmArray::seconds_to_boundary(const Kernel& kernel, double done) const {
  const KernelTime& time = kernel.chain->kernels[kernel.index];
  const double all = seconds(kernel, kernel.index), left = (1 - done) * all;
  if (time.persistent || kernel.asked_sms == 0) return left;
  // CTAs of different lengths end at different times.
  if (time.sm_seconds > 0)
    return std::min(left, (time.longest_cta_seconds + time.cta_start_seconds) *
                              std::min(1.0, kernel.asked_sms / held(kernel, time)));
  const double slots = std::max(1.0, std::floor(kernel.share.sms) * time.ctas_per_sm);
  const double waves = std::ceil(static_cast<double>(time.ctas) / slots);
  const double body = all - time.fixed_seconds - time.after_seconds;
  const double in_body = done * all - time.fixed_seconds;
  const double wave = body / waves;
  if (in_body < 0) return std::min(left, wave - in_body);
  constexpr double kAtBoundary = 1e-6;  // of a wave: a rounded time may fall just before the boundary
  return std::min(left, (std::floor(in_body / wave + kAtBoundary) + 1) * wave - in_body);
}

void SmArray::plan_boundary(Kernel& kernel) {
  const Time now = calendar_.now();
  const double left = seconds_to_boundary(kernel, progress(kernel, now).done);
  set(now + Time::seconds(left / kernel.speed), kBoundaryTag, kernel, ++kernel.boundary);
  kernel.boundary_set = true;
  kernel.boundary_at_end = kernel.asked_sms == 0;
}

void SmArray::on_event(std::uint32_t tag, std::uint64_t data) {
  Kernel& kernel = kernels_[data & ((1ull << kGenerationShift) - 1)];
  const auto generation = static_cast<std::uint32_t>(data >> kGenerationShift);
  const Time now = calendar_.now();
  switch (tag) {
    case kEndTag:
      if (generation == kernel.end) on_end(kernel);
      break;
    case kBoundaryTag:
      if (generation != kernel.boundary) break;
      kernel.yields = true;
      kernel.boundary_set = kernel.boundary_at_end = false;
      allocate();
      break;
    case kTellTag:
      if (generation != kernel.tell) break;
      tell();
      plan_tell(kernel, now);
      break;
  }
}

void SmArray::on_end(Kernel& kernel) {
  const Time now = calendar_.now();
  settle(kernel, progress(kernel, now), now);
  if (kernel.index + 1 < kernel.chain->kernels.size()) {
    ++kernel.index;
    kernel.done = 0;
    kernel.state = State::waiting;  // the next kernel gets a new share
    allocate();
    return;
  }
  add_up(&SmTotals::kernel_seconds, since(now, kernel.begun).seconds());
  add_up(&SmTotals::kernel_seconds_alone, kernel.chain->seconds / kernel.speed);
  SmClient* client = kernel.client;
  if (kernel.stream != nullptr) tell_ctas(kernel.stream, 0);
  kernel.state = State::free;
  kernel.chain.reset();
  ++kernel.end;
  ++kernel.boundary;
  ++kernel.tell;
  allocate();
  client->on_kernel_done();
}

// -- State for listeners

SmState SmArray::state() const {
  SmState state;
  const Time now = calendar_.now();
  double sms = claimed_sms(), hbm = traffic_, l2 = traffic_;
  for (const Kernel& kernel : kernels_) {
    if (kernel.state != State::running) continue;
    const Progress p = progress(kernel, now);
    const KernelTime& time = kernel.chain->kernels[p.index];
    const double all = p.index == kernel.index ? seconds(kernel, p.index) : time.seconds;
    sms += occupied(kernel, time);
    state.clock_ratio = std::min(state.clock_ratio, time.clock_ratio);
    if (all <= 0) continue;
    hbm += time.bytes / all * kernel.speed;
    l2 += time.l2_bytes / all * kernel.speed;
  }
  state.active_sms = static_cast<std::uint32_t>(std::lround(std::min<double>(sms, count())));
  state.hbm_gb_per_s = hbm * 1e-9;
  state.l2_gb_per_s = l2 * 1e-9;
  return state;
}

void SmArray::tell_ctas(const Stream* stream, std::uint64_t ctas) const {
  for (SmListener* listener : listeners_) listener->on_ctas(stream, ctas);
}

void SmArray::tell() {
  if (listeners_.empty()) return;
  const SmState now = state();
  for (SmListener* listener : listeners_) listener->on_sms(now);
  for (const Kernel& kernel : kernels_) {
    if (kernel.state != State::running || kernel.stream == nullptr) continue;
    const std::uint32_t index = progress(kernel, calendar_.now()).index;
    for (SmListener* listener : listeners_) listener->on_kernel(*kernel.stream, *kernel.chain, index);
    const KernelTime& time = kernel.chain->kernels[index];
    const double slots = std::floor(std::min(kernel.share.sms, wanted(time))) * time.ctas_per_sm;
    tell_ctas(kernel.stream, std::min(time.ctas, static_cast<std::uint64_t>(slots)));
  }
  for (const Claim& claim : claims_)
    if (claim.stream != nullptr) tell_ctas(claim.stream, claim.state == State::running ? claim.sms : 0);
}

}  // namespace railyard::gpu
