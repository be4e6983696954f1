// Copies of KV blocks between the GPUs of an instance and the memory of their sockets over PCIe: by copy engines, as vLLM's
// OffloadingConnector makes them, or by a kernel, as SGLang's HiCache does. A rank has a stream for each direction, and copies its own
// heads and layers. A block's layers are together in memory, so a batch's blocks are one copy per rank (since vLLM 0.12). The
// scheduler says which blocks. Each attention replica has a store of its own, and copies by its own ranks.
//
// Stores may share the host memory of their servers. A rank writes to the memory of its own socket, and loads each block from the memory of
// the socket where it was written: a copy for each socket, side by side.
//
// With disks, what has come to host memory is written to the disks of the servers, and what a request needs is read from there to host
// memory first (v1/kv_offload/tiering/manager.py). A server's disk has the blocks' shares of the ranks there. With peers, what a request
// needs is read from the host memory of other servers first: an RDMA read of each rank, by the NICs of its GPU.
//
// Its horizon: it sends from the end of a batch, whose blocks it stores, or when the scheduler composes a batch.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "transport/horizon.h"
#include "workload/inference/engine/grid.h"
#include "workload/inference/engine/kv_disk.h"
#include "workload/inference/engine/serving_rules.h"
#include "workload/inference/kv/kv_peers.h"
#include "workload/inference/kv/kv_store.h"
#include "workload/inference/scheduler/scheduled_batch.h"
#include "workload/jobs.h"
#include "workload/traffic.h"

namespace railyard::workload::inference {

/// Memory of its servers for the KV of an attention replica.
struct HostStore {
  std::shared_ptr<KvTier>
      blocks;  ///< for all ranks together, as a block of tokens is in all of them; may be that of others
  std::vector<transport::Window> memories;  ///< of the socket of each rank p*tp+t
};

/// Memory of its servers for an instance's KV.
struct HostKv {
  const std::vector<HostStore>* stores = nullptr;  ///< of all instances, by number; null: there are none
  std::uint32_t first = 0;                         ///< number of the store of replica 0
  bool outlives = false;                           ///< they keep their blocks if the instance fails
  std::vector<KvDisk*> disks;                      ///< of each rank's server; none without blocks there
  std::vector<std::uint64_t> disk_blocks;          ///< of each replica
  KvPeers* peers = nullptr;                        ///< null: nobody reads from others over the network
  std::vector<std::uint32_t> queue_pairs;  ///< of each rank, for messages of its socket's memory by the NICs of its GPU

  const HostStore& store(std::uint32_t number) const { return (*stores)[number]; }
  KvBelow below(std::uint32_t replica) const {
    return {first + replica, store(first + replica).blocks, outlives, disks.empty() ? 0 : disk_blocks[replica], peers};
  }
};

class KvOffloadClient {
 public:
  /// KV that was loaded for a request is here.
  virtual void on_kv_loaded(std::uint32_t request) = 0;
  /// These blocks of an attention replica are in host memory.
  virtual void on_kv_stored(std::uint32_t replica, const KvTier::Contents& contents) = 0;
  /// A read is over: its blocks are in host memory.
  virtual void on_kv_read(std::uint32_t replica, std::uint32_t read) = 0;
  /// These blocks are on the disks.
  virtual void on_kv_written(std::uint32_t replica, const KvTier::Contents& contents) = 0;
  /// The earliest instant at which load(), store() or read() may be called.
  virtual Time next_offload() = 0;

 protected:
  ~KvOffloadClient() = default;
};

class KvOffload final : private JobClient, private JobNamer {
 public:
  /// @param suffix  of names of jobs
  KvOffload(const HostKv& host, const KvCopies& copies, std::uint32_t block_tokens, std::string suffix, Grid& grid,
            Executor& executor, KvOffloadClient& client);

  /// @param shares  blocks, by the stores that have written them
  void load(std::uint32_t request, std::uint32_t replica, const KvTier::Shares& shares);
  void store(std::uint32_t replica, KvTier::Contents contents);

  void read(const HostRead& read);
  void write(std::uint32_t replica, KvTier::Contents contents);

  /// The request does not wait for its KV any more.
  void cancel(std::uint32_t request);
  /// Blocks under way to host memory, or to disks, are lost.
  void forget() {
    stores_left_.clear();
    writes_left_.clear();
    reads_left_.clear();
  }

  /// Bytes over all ranks, of copies that are done.
  Bytes loaded() const { return loaded_; }
  Bytes stored() const { return stored_; }
  Bytes read() const { return read_; }
  Bytes from_peers() const { return from_peers_; }
  bool has_peers() const;
  Bytes written() const { return written_; }
  /// That its disks hold.
  std::uint64_t disk_blocks() const;
  /// Messages from and to the ranks' memories.
  std::vector<collective::OtherTraffic> traffic();
  /// Adds an estimate of them for so many tokens of prompts.
  void add_traffic(std::vector<transport::Traffic>& all, double tokens) const;

 private:
  class Sends final : public transport::Horizon {
   public:
    Sends(const KvOffload& of, std::string name) : Horizon(std::move(name)), of_(of) {}
    void begun() { begins(of_.executor_.fabric().now()); }

   private:
    Time next() override {
      const bool is_busy = of_.under_way_ > 0 || !of_.reads_left_.empty();  // loads follow reads
      return is_busy ? of_.executor_.fabric().now() : of_.client_.next_offload();
    }
    const KvOffload& of_;
  };
  // KvLoad_PP[p]_TP[t]_Req[n], KvStore_PP[p]_TP[t]_No[i], KvPull_PP[p]_TP[t]_No[i], KvRead_Disk[d]_No[i], KvWrite_Disk[d]_No[i]
  enum What : std::uint16_t { kStore, kLoad, kPull, kRead, kWrite };
  struct Fields {
    std::uint32_t number;  ///< of the request; of the store, read or write
    std::uint16_t rank;    ///< or the place of the disk in shares_
    std::uint16_t what;
  };
  struct Store {
    std::uint32_t replica = 0;
    KvTier::Contents contents;
    std::uint32_t left = 0;  ///< ranks, or disks
  };
  /// Of a block of a replica, what its ranks on a server have.
  struct DiskShare {
    std::uint32_t replica = 0;
    KvDisk* disk = nullptr;
    Bytes bytes = 0;
  };
  /// Memory from which a rank loads.
  struct Source {
    transport::Window memory;
    Rank* socket = nullptr;
    gpu::Stream* loads = nullptr;
  };

  std::uint32_t replica_of(std::uint32_t rank) const { return rank % grid_.width() / grid_.tp(); }
  /// Rank p*tp+t among those of its replica.
  std::uint32_t in_replica(std::uint32_t rank) const { return rank / grid_.width() * grid_.tp() + rank % grid_.tp(); }
  std::uint32_t store_of(std::uint32_t rank) const { return host_.first + replica_of(rank); }
  /// Of its own socket.
  const transport::Window& memory(std::uint32_t rank) const { return sources_[rank].front().memory; }
  Bytes block_bytes(std::uint32_t rank) const { return grid_.block_bytes(rank / grid_.width(), block_tokens_); }
  Rank& socket_of(const transport::Window& memory);
  void add_source(std::uint32_t rank, const transport::Window& memory);
  /// Peers from which a rank may read.
  std::vector<std::uint32_t> peers_of(std::uint32_t rank) const;

  /// Emits a copy between a rank and the memory of a socket. @param blocks  of tokens
  void emit(const Fields& fields, const Source& source, std::uint64_t blocks);
  void read_disks(const HostRead& read);
  void pull(const HostRead& read);
  void end_read(std::uint32_t replica, std::uint32_t number);
  void on_job_begun(const Job& job) override;
  void on_job_done(const Job& job) override;
  void disk_done(const Fields& fields);
  std::string name(std::uint64_t arguments) const override;
  std::string work(std::uint64_t arguments) const override;
  const char* kind(std::uint64_t) const override { return "kv"; }
  Recorded recorded(std::uint64_t) const override { return Recorded::stage; }

  HostKv host_;
  std::uint32_t block_tokens_;
  std::string suffix_;
  Grid& grid_;
  Executor& executor_;
  KvOffloadClient& client_;
  std::unordered_map<transport::Window, Rank*> sockets_;
  std::vector<std::vector<Source>> sources_;    ///< by rank; that of its own socket is the first
  std::vector<gpu::Stream*> stores_, pulls_;    ///< by rank; pulls only with peers
  std::vector<execution::CopyKernel> kernels_;  ///< by rank; none: copy engines copy
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> loads_left_;  ///< copies, by request and rank
  /// Loads under way that nobody waits for, by request and rank; they end before later ones.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> stale_loads_;
  std::unordered_map<std::uint32_t, Store> stores_left_;  ///< by number
  std::vector<DiskShare> shares_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> reads_left_;  ///< copies, by replica and number
  std::unordered_map<std::uint32_t, Store> writes_left_;                         ///< by number
  std::uint32_t next_store_ = 0, next_write_ = 0;
  std::uint64_t under_way_ = 0;  ///< copies that have been emitted
  Bytes loaded_ = 0, stored_ = 0, from_peers_ = 0, read_ = 0, written_ = 0;
  Sends sends_;
};

}  // namespace railyard::workload::inference
