#include "workload/linear/coupled_product.h"

#include <algorithm>

#include "gpu/datasheet.h"
#include "gpu/kernels/memory_bound.h"

namespace railyard::workload::linear {

namespace {

using Work = Action::Work;

/// One of `parts` equal pieces of a kernel's work, at the pace of this kernel. The kernel is launched only once.
gpu::KernelTime piece_of(const gpu::KernelTime& whole, std::uint32_t parts, bool first, bool last, double sms) {
  gpu::KernelTime piece = whole;
  const double part = 1.0 / parts;
  // Tiles of the next piece fill the unfinished wave of this piece, so count work, not waves.
  piece.sm_seconds = whole.cta_seconds_on(sms) * sms * part;
  piece.longest_cta_seconds = 0;
  piece.tail_ratio = 0;
  piece.l2_seconds *= part;
  piece.hbm_seconds *= part;
  piece.flops *= part;
  piece.tensor_j *= part;
  piece.bytes *= part;
  piece.l2_bytes *= part;
  piece.ctas = std::max<std::uint64_t>(1, whole.ctas / parts);
  if (!first) piece.fixed_seconds = 0;
  if (!last) piece.after_seconds = 0;
  piece.seconds = piece.seconds_on({sms});
  for (double& without : piece.chosen_without)
    if (without > 0) without = std::max(0.0, without - whole.fixed_seconds) * part + piece.fixed_seconds;
  return piece;
}

/// Of a tile, from its operands to its results.
double tile_seconds(const gpu::KernelTime& whole) {
  return (whole.seconds - whole.fixed_seconds - whole.after_seconds) / std::max(1u, whole.waves);
}

/// A kernel whose unfinished wave the next kernel fills.
gpu::KernelTime filled(gpu::KernelTime kernel, double sms) {
  const double ctas_seconds = kernel.longest_cta_seconds * static_cast<double>(kernel.ctas) / kernel.ctas_per_sm;
  if (kernel.sm_seconds == 0) kernel.sm_seconds = std::min(kernel.cta_seconds_on(sms) * sms, ctas_seconds);
  kernel.longest_cta_seconds = 0;
  kernel.tail_ratio = 0;
  const double before = kernel.seconds;
  kernel.seconds = kernel.seconds_on({sms});
  for (double& without : kernel.chosen_without) without *= kernel.seconds / before;
  return kernel;
}

class Planner {
 public:
  Planner(const CoupledProduct& product, const Options& options) : p_(product), options_(options) {
    plan_.operation = product.operation;
  }

  ProductPlan take() { return std::move(plan_); }

  void serial() {
    if (p_.coupling == Coupling::scatter) {
      product(0, part(1, 0), {});
      collective(0, p_.bytes, 0, false, {{0, 0}});
    } else {
      collective(0, p_.bytes, 0, false, {});
      product(0, part(1, 0), {{0, 0}});
    }
  }

  void beside(std::uint32_t sms) {
    collective(0, p_.bytes, sms, true, {});
    product(0, part(1, sms), {});
  }

  void gather_in_steps(bool fused) {
    std::vector<Wait> there{{}};  // by step: arrival of the shard
    for (std::uint32_t i = 1; i < p_.ranks; ++i) {
      const std::vector<Wait> waits = i > 1 ? std::vector<Wait>{{last(), p_.ranks - 1}} : std::vector<Wait>();
      const std::uint32_t job = shard(i, p_.direct ? p_.ranks - i : 1, waits);
      there.push_back({job, p_.direct ? i : p_.ranks - 1});
    }
    if (fused) {  // tiles of the last shard begin when it is there; the last piece is as long as its work
      const gpu::KernelTime whole = part(1, 0);
      const double longer = tile_seconds(whole) + whole.after_seconds - step(p_.ranks - 1, true).seconds;
      if (longer > 0) there.back() = main_loop(longer, {there.back()});
    }
    for (std::uint32_t i = 0; i < p_.ranks; ++i) {
      product(i, step(i, fused), i > 0 ? std::vector<Wait>{there[i]} : std::vector<Wait>());
      if (fused && i > 0) plan_.actions.back().launches = 0;
    }
  }

  void scatter_in_steps(bool fused) {
    for (std::uint32_t i = 0; i < p_.ranks; ++i) {
      product(i, step(i, fused), {});
      if (fused && i > 0) plan_.actions.back().launches = 0;
    }
    std::vector<Wait> tiles;
    if (fused) {
      const gpu::KernelTime whole = part(1, 0);
      const double first = whole.fixed_seconds + tile_seconds(whole);
      if (first > step(0, true).seconds) tiles = {main_loop(first, {})};
    }
    std::vector<Wait> sums;
    for (std::uint32_t i = 0; i + 1 < p_.ranks; ++i) {
      std::vector<Wait> waits{{i, 0}};
      waits.insert(waits.end(), tiles.begin(), tiles.end());
      if (i > 0) waits.push_back({last(), p_.direct ? 0 : p_.ranks - 1});
      const std::uint32_t to = p_.direct ? i + 1 : 1;
      const std::uint32_t job = shard(i, to, waits);
      if (fused) {
        plan_.actions.back().launches = 0;
        plan_.actions.back().mover = Action::Mover::product;
      }
      if (p_.direct || i + 2 == p_.ranks) sums.push_back({job, p_.ranks - to});
    }
    const double tensors = p_.direct ? p_.ranks + 1.0 : 3.0;  // all partial results (in a ring two), and their sum
    const double bytes = tensors * static_cast<double>(p_.bytes) / p_.ranks;
    kernel(Work::sum, 0, gpu::memory_bound_time(*p_.gpu, 0, bytes), sums);
  }

  void ring() {
    const bool by_sms = options_.engine == transport::Engine::sm;
    // Sends and receives each have their SMs.
    const gpu::KernelTime chunk = part(p_.ranks, by_sms ? 2 * options_.ring_sms : 0);
    const std::uint32_t before = p_.ranks - 1;  // of this rank in the ring
    std::vector<std::uint32_t> sent, multiplied;
    for (std::uint32_t i = 0; i < p_.ranks; ++i) {
      std::vector<Wait> arrival;
      if (i > 0) arrival.push_back({sent[i - 1], before});
      const auto multiply = [&] { multiplied.push_back(product(i, chunk, arrival)); };
      if (options_.order == RingOrder::after_gemm) multiply();
      if (i + 1 < p_.ranks) {
        std::vector<Wait> waits = arrival;
        if (options_.order == RingOrder::after_gemm) waits.push_back({multiplied[i], 0});
        // The next rank keeps chunk i+1 where it kept chunk i-1, which it has multiplied and passed on.
        if (i >= 2) waits.insert(waits.end(), {{multiplied[i - 1], 1}, {sent[i - 1], 1}});
        sent.push_back(shard(i, 1, waits));
        if (by_sms) plan_.actions.back().mover = Action::Mover::kernels;
        plan_.actions.back().sms = options_.ring_sms;
      }
      if (options_.order == RingOrder::send_first) multiply();
    }
  }

  void pipelined() {
    const bool to_owner = options_.reduce == PieceSum::to_owner;
    const std::uint32_t splits = to_owner ? p_.ranks : options_.splits;
    if (to_owner) plan_.operation = collective::Operation::reduce;
    // With one split, nothing runs beside the product.
    const gpu::KernelTime piece = part(splits, splits > 1 ? options_.comm_sms : 0);
    const double sms = piece.most_sms > 0 ? piece.most_sms : p_.gpu->sm.count;
    for (std::uint32_t i = 0; i < splits; ++i) {
      const bool is_last = i + 1 == splits;
      // Pieces run in alternating streams: CTAs of the next one fill the last wave.
      const std::uint32_t done = product(i, is_last ? piece : filled(piece, sms), {});
      std::vector<Wait> waits;
      if (!is_last || i > 0) waits.push_back({done, 0});
      if (is_last && i > 0) waits.push_back({done - 1, 0});  // the reduce-scatter before
      collective(i, p_.bytes / splits, options_.comm_sms, !is_last, waits);
      if (to_owner) plan_.actions.back().root = i;
    }
  }

 private:
  std::uint32_t last() const { return static_cast<std::uint32_t>(plan_.actions.size() - 1); }
  /// The product of 1/parts of the rows, which leaves so many SMs free.
  gpu::KernelTime part(std::uint32_t parts, std::uint32_t free_sms) const {
    return p_.part(parts, free_sms > 0 ? p_.gpu->sm.count - free_sms : 0);
  }
  gpu::KernelTime step(std::uint32_t i, bool fused) const {
    return fused ? piece_of(part(1, 0), p_.ranks, i == 0, i + 1 == p_.ranks, p_.gpu->sm.count) : part(p_.ranks, 0);
  }
  std::uint32_t add(Action action) {
    plan_.actions.push_back(std::move(action));
    return last();
  }
  std::uint32_t kernel(Work work, std::uint32_t step, const gpu::KernelTime& time, std::vector<Wait> waits) {
    Action action;
    action.work = work;
    action.step = step;
    action.kernels = gpu::chain_of(time, work == Work::product ? p_.name : p_.name.empty() ? "" : p_.name + "_sum");
    action.waits = std::move(waits);
    return add(std::move(action));
  }
  std::uint32_t product(std::uint32_t step, const gpu::KernelTime& time, std::vector<Wait> waits) {
    return kernel(Work::product, step, time, std::move(waits));
  }
  std::uint32_t shard(std::uint32_t step, std::uint32_t to, std::vector<Wait> waits) {
    Action action;
    action.work = Work::shard;
    action.step = step;
    action.beside = true;
    action.bytes = p_.bytes / p_.ranks;
    action.to = to;
    action.waits = std::move(waits);
    return add(std::move(action));
  }
  Wait main_loop(double seconds, std::vector<Wait> waits) {
    Action action;
    action.work = Work::main_loop;
    action.beside = true;
    action.seconds = seconds;
    action.waits = std::move(waits);
    return {add(std::move(action)), 0};
  }
  void collective(std::uint32_t step, Bytes bytes, std::uint32_t sms, bool beside, std::vector<Wait> waits) {
    Action action;
    action.work = Work::collective;
    action.step = step;
    action.beside = beside;
    action.bytes = bytes;
    action.sms = sms;
    action.waits = std::move(waits);
    add(std::move(action));
  }

  const CoupledProduct& p_;
  const Options& options_;
  ProductPlan plan_;
};

}  // namespace

std::uint32_t ProductPlan::kernel_jobs() const {
  return static_cast<std::uint32_t>(
      std::count_if(actions.begin(), actions.end(), [](const Action& a) { return a.kernels != nullptr; }));
}

double ProductPlan::kernels_s() const {
  double seconds = 0;
  for (const Action& action : actions)
    if (action.kernels != nullptr) seconds += action.kernels->seconds;
  return seconds;
}

ProductPlan ProductPlan::traffic() const {
  ProductPlan alone = *this;
  gpu::KernelTime none;
  none.ctas = none.sms = none.waves = 1;
  const gpu::SharedChain kernels = gpu::chain_of(none);
  for (Action& action : alone.actions) {
    if (action.kernels != nullptr) action.kernels = kernels;
    action.seconds = 0;
  }
  return alone;
}

ProductPlan plan_of(const CoupledProduct& product, Method method, const Options& options) {
  Planner planner(product, options);
  switch (method) {
    case Method::serial: planner.serial(); break;
    case Method::beside: planner.beside(0); break;
    case Method::bulk: planner.beside(options.comm_sms); break;
    case Method::decomposed:
    case Method::fused:
      product.coupling == Coupling::gather ? planner.gather_in_steps(method == Method::fused)
                                           : planner.scatter_in_steps(method == Method::fused);
      break;
    case Method::ring: planner.ring(); break;
    case Method::pipelined: planner.pipelined(); break;
  }
  return planner.take();
}

}  // namespace railyard::workload::linear
