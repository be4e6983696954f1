// The room `linear` couples a matrix product with the collective that it meets. plan_of() writes a ProductPlan for a
// method of overlap: Actions on streams, and what each waits for. CoupledRanks emits it as jobs (emission.h).
// OverlapBench and training (CoupledStep) call them.
//
// A matrix product of tensor-parallel ranks and the collective that it meets, as a plan: what each rank does, and what
// each of these actions waits for. All ranks have the same plan. Plain data; no SystemC. emission.h makes jobs of it.
//
//   gather    the rows of the product's operand are gathered before it (column-parallel, sequence parallelism)
//   scatter   the product's results are summed, and rows of the sum are scattered (row-parallel)
//   apart     a collective of other bytes
//
// Methods, for t ranks:
//   serial      one after the other
//   beside      both at the same time in two streams, the collective first
//   decomposed  t products of 1/t of the rows; copy engines move a shard during another product (PyTorch,
//               torch/distributed/_symmetric_memory, _pipelined_all_gather_and_consume, _pipelined_produce_and_all2all)
//   fused       the same in one kernel whose tiles wait for their shard, or send it (FLUX, arXiv 2406.06858). A tile takes its
//               main loop and epilogue after its shard has come, and before it sends any of its results
//   ring        gather: a rank sends the chunk in hand to the next rank while it multiplies this chunk, and goes on with
//               the chunk that came (TransformerEngine, common/comm_gemm_overlap, CommOverlapP2PBase::split_overlap_ag).
//               A chunk that comes goes to one of two buffers.
//   pipelined   scatter: the product in `splits` pieces, a reduce-scatter of its rows after each
//               (CommOverlapBase::split_overlap_rs); or a piece for each rank, and a reduce to that rank
//   bulk        apart: like beside, on `comm_sms` SMs that the product leaves free (CommOverlapBase::bulk_overlap)
//
// In decomposed and fused, rank r multiplies shard (r+i) mod t in step i of a gather, so its own shard is first; the
// shards come from their ranks one after the other. In step i of a scatter it multiplies the rows of rank (r+1+i) mod t,
// its own last, and sends the partial result to that rank, where a kernel sums them. Without NVLink between the ranks,
// shards go round a ring instead, so that few of them cross the sockets at a time.
//
// The last action of a plan is in the stream of products. When it is over on a rank, the rank has all that it needs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/units.h"
#include "collective/spec.h"
#include "gpu/kernels/kernel_chain.h"
#include "transport/device/message.h"

namespace railyard::gpu {
struct GpuDatasheet;
}

namespace railyard::workload::linear {

enum class Coupling : std::uint8_t { gather, scatter, apart };

enum class Method : std::uint8_t { serial, beside, decomposed, fused, ring, pipelined, bulk };

/// When a ring passes a chunk on.
enum class RingOrder : std::uint8_t {
  send_first,  ///< while the chunk is multiplied
  after_gemm   ///< after the chunk has been multiplied, so nothing is hidden
};
constexpr std::array<const char*, 2> kRingOrderNames{"send_first", "after_gemm"};

/// Who gets the sum of a piece of a pipelined product.
enum class PieceSum : std::uint8_t {
  scatter,  ///< all ranks, each a part of its rows
  to_owner  ///< rank i that of piece i
};
constexpr std::array<const char*, 2> kPieceSumNames{"scatter", "to_owner"};

struct Options {
  transport::Engine engine = transport::Engine::copy_engine;  ///< ring: what moves chunks
  RingOrder order = RingOrder::send_first;
  /// SMs of the transfers, which products leave free: of a ring by SMs, pipelined, bulk. 0: as many CTAs as NCCL
  /// chooses, which take their SMs from the product.
  std::uint32_t ring_sms = 1, comm_sms = 16;
  std::uint32_t splits = 4;             ///< pipelined
  PieceSum reduce = PieceSum::scatter;  ///< pipelined; to_owner: as many pieces as ranks
};

/// The product of a rank, the collective, and how the ranks reach each other.
struct CoupledProduct {
  Coupling coupling = Coupling::apart;
  std::uint32_t ranks = 1;
  bool direct = true;  ///< decomposed and fused: shards go to their rank directly, not round a ring
  /// The product of 1/parts of the rows, launched for at most so many SMs (0: all). @pre parts divides the rows
  std::function<gpu::KernelTime(std::uint32_t parts, std::uint32_t most_sms)> part;
  std::string name;  ///< of the product's kernels
  collective::Operation operation = collective::Operation::all_gather;
  Bytes bytes = 0;  ///< of the collective, as nccl-tests counts
  const gpu::GpuDatasheet* gpu = nullptr;
};

struct Wait {
  std::uint32_t action;  ///< an earlier one
  std::uint32_t from;    ///< rank r waits for the action of rank (r + from) mod t
};

struct Action {
  enum class Work : std::uint8_t { product, sum, shard, collective, main_loop };
  /// What moves a shard: a copy engine, send and receive kernels, or the thread blocks of the product.
  enum class Mover : std::uint8_t { copy_engine, kernels, product };
  Work work = Work::product;
  std::uint32_t step = 0;    ///< of several of the same work
  gpu::SharedChain kernels;  ///< product, sum
  bool beside = false;       ///< in a stream beside the products; shards always are
  Bytes bytes = 0;           ///< shard: sent by a rank; collective: as nccl-tests counts
  std::uint32_t to = 0;      ///< shard: rank r sends to rank (r + to) mod t
  Mover mover = Mover::copy_engine;
  double seconds = 0;          ///< main_loop: least time of tiles whose operands have just come
  std::uint32_t root = 0;      ///< collective: a reduce to this rank
  std::uint32_t sms = 0;       ///< most CTAs of a collective or of a shard by SMs; 0: NCCL's choice
  std::uint32_t launches = 1;  ///< by the host; 0: a part of a kernel that is launched already
  std::vector<Wait> waits;
};

struct ProductPlan {
  std::vector<Action> actions;
  collective::Operation operation = collective::Operation::all_gather;  ///< of actions that are collectives
  double kernels_s() const;  ///< products and sums of a rank, each alone on its GPU
  /// The same without time for products and sums: the traffic alone.
  ProductPlan traffic() const;
  /// Jobs with kernels: products and sums.
  std::uint32_t kernel_jobs() const;
};

/// @pre the method is for this coupling
ProductPlan plan_of(const CoupledProduct& product, Method method, const Options& options);

/// Whether a method is for a coupling.
constexpr bool couples(Method method, Coupling coupling) {
  switch (method) {
    case Method::serial:
    case Method::bulk: return true;
    case Method::beside: return coupling == Coupling::apart;
    case Method::decomposed:
    case Method::fused: return coupling != Coupling::apart;
    case Method::ring: return coupling == Coupling::gather;
    case Method::pipelined: return coupling == Coupling::scatter;
  }
  return false;
}

}  // namespace railyard::workload::linear
