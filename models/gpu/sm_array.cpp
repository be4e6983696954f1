#include "gpu/sm_array.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "gpu/datasheet.h"
#include "gpu/energy.h"
#include "gpu/fair_share.h"

namespace railyard::gpu {

namespace {

constexpr std::uint32_t kEndTag = 0;       ///< end of a chain, or of one kernel if other kernels run beside it
constexpr std::uint32_t kBoundaryTag = 1;  ///< CTAs have ended on SMs for which a kernel or claim waits
constexpr std::uint32_t kTellTag = 2;      ///< the next kernel of a chain begins: for waveforms only
constexpr unsigned kGenerationShift = 32;

constexpr double kTrafficStep = 0.005;  ///< share of the HBM rate: a smaller change takes effect with the next change

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

bool SmArray::has_only(Slot claim) const {
  for (const Kernel& kernel : kernels_)
    if (kernel.state != State::free) return false;
  for (std::size_t i = 0; i < claims_.size(); ++i)
    if (claims_[i].state != (i == claim ? State::running : State::free)) return false;
  return true;
}

bool SmArray::foresee(const SharedChain& chain, SmLog& log, Time& took) const {
  const double all = count();
  Kernel kernel;
  kernel.state = State::running;
  kernel.alone = kernel.foreseen = true;
  kernel.chain = chain;
  kernel.speed = speed_ratio_;
  kernel.share = {all, 1, 1};
  kernel.uncovered_sms = all;
  took = Time::seconds(seconds_left(kernel) / kernel.speed);
  const Progress end = progress(kernel, took);
  if (end.index + 1 != chain->kernels.size()) return false;
  log = {{&SmTotals::kernel_busy, end.busy_sm_seconds},
         {&SmTotals::kernel_bytes, end.bytes},
         {&SmTotals::kernel_seconds, took.seconds()},
         {&SmTotals::kernel_seconds_alone, chain->seconds / kernel.speed}};
  if (end.tensor_j != 0) log.emplace_back(&SmTotals::tensor_j, end.tensor_j);
  return true;
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

void SmArray::set_traffic(const MessageTraffic& traffic) {
  if (traffic == traffic_) return;
  traffic_ = traffic;
  if (std::abs(traffic_.taken - traffic_shared_) > kTrafficStep * sheet_.hbm.gb_per_s * 1e9) {
    allocate();
  } else {
    tell();
  }
}

// -- Allocation (occupancy and progress: sm_progress.cpp; shares: sm_shares.cpp)

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
  traffic_shared_ = traffic_.taken;
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

double SmArray::seconds_left(const Kernel& kernel) const {
  double left = (1 - kernel.done) * seconds(kernel, kernel.index);
  if (kernel.alone)
    for (std::uint32_t i = kernel.index + 1; i < kernel.chain->kernels.size(); ++i) left += seconds(kernel, i);
  return left;
}

void SmArray::plan(Kernel& kernel) {
  set(kernel.from + Time::seconds(seconds_left(kernel) / kernel.speed), kEndTag, kernel, ++kernel.end);
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
  double hbm = traffic_.taken, l2 = traffic_.taken;
  EnergyUse use{1, claimed_sms(), 0, traffic_.all};  // in a second
  for (const Kernel& kernel : kernels_) {
    if (kernel.state != State::running) continue;
    const Progress p = progress(kernel, now);
    const KernelTime& time = kernel.chain->kernels[p.index];
    const double all = seconds(kernel, p.index);
    use.sm_seconds += occupied(kernel, time);
    state.clock_ratio = std::min(state.clock_ratio, time.clock_ratio);
    if (all <= 0) continue;
    hbm += time.bytes / all * kernel.speed;
    l2 += time.l2_bytes / all * kernel.speed;
    use.bytes += time.bytes / all * kernel.speed;
    use.tensor_j += time.tensor_j / all * kernel.speed;
  }
  state.active_sms = static_cast<std::uint32_t>(std::lround(std::min<double>(use.sm_seconds, count())));
  state.hbm_gb_per_s = hbm * 1e-9;
  state.l2_gb_per_s = l2 * 1e-9;
  state.watts = energy_of(sheet_, energy_clock_, use).total_j();
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
