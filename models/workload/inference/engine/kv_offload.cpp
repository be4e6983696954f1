#include "workload/inference/engine/kv_offload.h"

#include <fmt/format.h>
#include <algorithm>
#include <numeric>
#include <utility>

#include "gpu/datasheet.h"
#include "gpu/kernels/device_terms.h"

namespace railyard::workload::inference {

namespace {

execution::CopyKernel kernel_of(const KvCopies& copies, gpu::Gpu& gpu) {
  constexpr double kRegisterBytes = 4;
  const double register_kib = copies.threads * copies.registers_per_thread * kRegisterBytes / gpu::kBytesPerKib;
  return {&gpu, copies.blocks, {copies.threads, register_kib, 0}, copies.gb_per_s_per_block * 1e9};
}

}  // namespace

KvOffload::KvOffload(const HostKv& host, const KvCopies& copies, std::uint32_t block_tokens, std::string suffix,
                     Grid& grid, Executor& executor, KvOffloadClient& client)
    : host_(host),
      block_tokens_(block_tokens),
      suffix_(std::move(suffix)),
      grid_(grid),
      executor_(executor),
      client_(client),
      sources_(grid.ranks()),
      sends_(*this, "KV offload" + suffix_) {
  for (std::uint32_t r = 0; r < grid.ranks(); ++r) {
    const transport::Window own = host_.store(store_of(r)).memories[in_replica(r)];
    add_source(r, own);
    if (has_peers()) {
      Rank& socket = socket_of(own);
      socket.add_stream(fmt::format("pull_{}", r));
      pulls_.push_back(&socket.stream(socket.streams.size() - 1));
    }
    Rank& rank = grid.rank(r);
    rank.add_stream("kv_store");
    stores_.push_back(&rank.stream(rank.streams.size() - 1));
    if (copies.blocks > 0) kernels_.push_back(kernel_of(copies, *rank.gpu));
    if (host_.disks.empty()) continue;
    const auto is_this = [&](const DiskShare& share) {
      return share.replica == replica_of(r) && share.disk == host_.disks[r];
    };
    auto share = std::find_if(shares_.begin(), shares_.end(), is_this);
    if (share == shares_.end()) share = shares_.insert(share, DiskShare{replica_of(r), host_.disks[r], 0});
    share->bytes += block_bytes(r);
  }
  for (std::uint32_t r = 0; r < grid.ranks(); ++r)
    for (const HostStore& other : *host_.stores)
      if (other.blocks == host_.store(store_of(r)).blocks) add_source(r, other.memories[in_replica(r)]);
}

Rank& KvOffload::socket_of(const transport::Window& memory) {
  Rank*& socket = sockets_[memory];
  if (socket == nullptr)
    socket = &executor_.add_host("kv_host" + suffix_, static_cast<std::uint32_t>(sockets_.size() - 1), memory);
  return *socket;
}

void KvOffload::add_source(std::uint32_t rank, const transport::Window& memory) {
  std::vector<Source>& sources = sources_[rank];
  if (std::any_of(sources.begin(), sources.end(), [&](const Source& one) { return one.memory == memory; })) return;
  Rank& socket = socket_of(memory);
  socket.add_stream(fmt::format("load_{}", rank));
  sources.push_back({memory, &socket, &socket.stream(socket.streams.size() - 1)});
}

bool KvOffload::has_peers() const {
  for (std::uint32_t replica = 0; replica < grid_.replicas(); ++replica)
    if (host_.peers != nullptr && !host_.peers->of(host_.first + replica).empty()) return true;
  return false;
}

std::vector<std::uint32_t> KvOffload::peers_of(std::uint32_t rank) const {
  return host_.peers == nullptr ? std::vector<std::uint32_t>() : host_.peers->of(store_of(rank));
}

std::uint64_t KvOffload::disk_blocks() const {
  return std::accumulate(host_.disk_blocks.begin(), host_.disk_blocks.end(), std::uint64_t{0});
}

void KvOffload::load(std::uint32_t request, std::uint32_t replica, const KvTier::Shares& shares) {
  std::vector<std::uint32_t>& left =
      loads_left_.emplace(request, std::vector<std::uint32_t>(grid_.ranks())).first->second;
  for (std::uint32_t r = 0; r < grid_.replica_ranks(); ++r) {
    const std::uint32_t rank = grid_.rank_of(replica, r);
    for (const Source& source : sources_[rank]) {
      std::uint64_t blocks = 0;
      for (const KvTier::Share& share : shares)
        if (host_.store(share.writer).memories[r] == source.memory) blocks += share.blocks;
      if (blocks == 0) continue;
      ++left[rank];
      emit({request, static_cast<std::uint16_t>(rank), kLoad}, source, blocks);
    }
  }
}

void KvOffload::cancel(std::uint32_t request) {
  const auto left = loads_left_.find(request);
  if (left == loads_left_.end()) return;
  for (std::uint32_t r = 0; r < grid_.ranks(); ++r)
    if (left->second[r] > 0) stale_loads_[{request, r}] += left->second[r];
  loads_left_.erase(left);
}

void KvOffload::store(std::uint32_t replica, KvTier::Contents contents) {
  const std::uint64_t blocks = contents.size();
  stores_left_.emplace(next_store_, Store{replica, std::move(contents), grid_.replica_ranks()});
  for (std::uint32_t r = 0; r < grid_.replica_ranks(); ++r) {
    const std::uint32_t rank = grid_.rank_of(replica, r);
    emit({next_store_, static_cast<std::uint16_t>(rank), kStore}, sources_[rank].front(), blocks);
  }
  ++next_store_;
}

void KvOffload::read(const HostRead& read) { read.peers.empty() ? read_disks(read) : pull(read); }

void KvOffload::read_disks(const HostRead& read) {
  std::uint32_t& left = reads_left_[{read.replica, read.number}];
  for (std::uint16_t d = 0; d < shares_.size(); ++d) {
    if (shares_[d].replica != read.replica) continue;
    ++left;
    read_ += read.blocks * shares_[d].bytes;
    shares_[d].disk->read(read.blocks * shares_[d].bytes, JobLabel::of(*this, Fields{read.number, d, kRead}), *this);
  }
}

void KvOffload::pull(const HostRead& read) {
  std::uint32_t& left = reads_left_[{read.replica, read.number}];
  for (std::uint32_t r = 0; r < grid_.replica_ranks(); ++r) {
    const std::uint32_t rank = grid_.rank_of(read.replica, r);
    execution::Copy copy;
    for (const KvTier::Share& share : read.peers)
      copy.transfers.push_back({host_.store(share.writer).memories[r], share.blocks * block_bytes(rank)});
    copy.traffic_class = number(TrafficClass::kv);
    copy.kind = transport::MessageKind::read;
    copy.queue_pair = host_.queue_pairs[rank];
    ++left;
    ++under_way_;
    executor_.copy(socket_of(memory(rank)), *pulls_[rank], std::move(copy),
                   JobLabel::of(*this, Fields{read.number, static_cast<std::uint16_t>(rank), kPull}), *this);
  }
}

void KvOffload::end_read(std::uint32_t replica, std::uint32_t number) {
  const auto left = reads_left_.find({replica, number});
  if (left == reads_left_.end() || --left->second > 0) return;
  reads_left_.erase(left);
  client_.on_kv_read(replica, number);
}

void KvOffload::write(std::uint32_t replica, KvTier::Contents contents) {
  const std::uint64_t blocks = contents.size();
  Store& writes = writes_left_.emplace(next_write_, Store{replica, std::move(contents), 0}).first->second;
  for (std::uint16_t d = 0; d < shares_.size(); ++d) {
    if (shares_[d].replica != replica) continue;
    ++writes.left;
    written_ += blocks * shares_[d].bytes;
    shares_[d].disk->write(blocks * shares_[d].bytes, JobLabel::of(*this, Fields{next_write_, d, kWrite}), *this);
  }
  ++next_write_;
}

void KvOffload::disk_done(const Fields& fields) {
  if (fields.what == kRead) {
    end_read(shares_[fields.rank].replica, fields.number);
    return;
  }
  const auto left = writes_left_.find(fields.number);
  if (left == writes_left_.end() || --left->second.left > 0) return;
  const Store store = std::move(left->second);
  writes_left_.erase(left);
  client_.on_kv_written(store.replica, store.contents);
}

void KvOffload::emit(const Fields& fields, const Source& source, std::uint64_t blocks) {
  Rank& rank = grid_.rank(fields.rank);
  const bool is_load = fields.what == kLoad;
  execution::Copy copy;
  copy.transfers = {{is_load ? rank.gpu->window() : source.memory, blocks * block_bytes(fields.rank)}};
  copy.traffic_class = number(TrafficClass::kv);
  if (kernels_.empty()) {
    copy.start = Time::seconds(rank.gpu->datasheet().copy.engine_us * 1e-6);
  } else {
    copy.engine = transport::Engine::sm;
    copy.kernel = &kernels_[fields.rank];
  }
  ++under_way_;
  executor_.copy(is_load ? *source.socket : rank, is_load ? *source.loads : *stores_[fields.rank], std::move(copy),
                 JobLabel::of(*this, fields), *this);
}

std::vector<collective::OtherTraffic> KvOffload::traffic() {
  std::vector<collective::OtherTraffic> all;
  for (std::uint32_t r = 0; r < grid_.ranks(); ++r) {
    const transport::Window gpu = grid_.rank(r).gpu->window();
    for (const Source& source : sources_[r]) {
      all.push_back({gpu, source.memory, number(TrafficClass::kv), &sends_});
      all.push_back({source.memory, gpu, number(TrafficClass::kv), &sends_});
    }
    for (const std::uint32_t peer : peers_of(r)) {
      const transport::Window theirs = host_.store(peer).memories[in_replica(r)];
      all.push_back({theirs, memory(r), number(TrafficClass::kv), &sends_, host_.queue_pairs[r]});
      all.push_back({memory(r), theirs, number(TrafficClass::kv), &sends_, host_.queue_pairs[r]});
    }
  }
  return all;
}

void KvOffload::add_traffic(std::vector<transport::Traffic>& all, double tokens) const {
  for (std::uint32_t r = 0; r < grid_.ranks(); ++r) {
    const transport::Window gpu = grid_.rank(r).gpu->window();
    const double bytes = tokens * static_cast<double>(grid_.kv().bytes_per_token(r / grid_.width())) / grid_.replicas();
    all.push_back({gpu, memory(r), number(TrafficClass::kv), bytes});
    for (const Source& source : sources_[r])
      all.push_back({source.memory, gpu, number(TrafficClass::kv), bytes / static_cast<double>(sources_[r].size())});
    const std::vector<std::uint32_t> peers = peers_of(r);
    for (const std::uint32_t peer : peers)
      all.push_back({host_.store(peer).memories[in_replica(r)], memory(r), number(TrafficClass::kv),
                     bytes / static_cast<double>(peers.size())});
  }
}

void KvOffload::on_job_begun(const Job& job) {
  if (job.label().as<Fields>().what <= kPull) sends_.begun();
}

void KvOffload::on_job_done(const Job& job) {
  const auto fields = job.label().as<Fields>();
  if (fields.what > kPull) {
    disk_done(fields);
    return;
  }
  --under_way_;
  if (fields.what == kPull) {
    from_peers_ += job.bytes();
    end_read(replica_of(fields.rank), fields.number);
    return;
  }
  if (fields.what == kLoad) {
    loaded_ += job.bytes();
    if (const auto stale = stale_loads_.find({fields.number, fields.rank}); stale != stale_loads_.end()) {
      if (--stale->second == 0) stale_loads_.erase(stale);
      return;
    }
    const auto left = loads_left_.find(fields.number);
    --left->second[fields.rank];
    if (std::any_of(left->second.begin(), left->second.end(), [](std::uint32_t copies) { return copies > 0; })) return;
    loads_left_.erase(left);
    client_.on_kv_loaded(fields.number);
    return;
  }
  stored_ += job.bytes();
  const auto left = stores_left_.find(fields.number);
  if (left == stores_left_.end() || --left->second.left > 0) return;
  const Store store = std::move(left->second);
  stores_left_.erase(left);
  client_.on_kv_stored(store.replica, store.contents);
}

std::string KvOffload::name(std::uint64_t arguments) const {
  const auto f = JobLabel::fields_of<Fields>(arguments);
  static constexpr const char* kNames[] = {"KvStore", "KvLoad", "KvPull", "KvRead", "KvWrite"};
  const std::string place = f.what > kPull
                                ? fmt::format("Disk[{}]", f.rank)
                                : fmt::format("PP[{}]_TP[{}]", f.rank / grid_.width(), f.rank % grid_.width());
  return fmt::format("{}_{}_{}{}", kNames[f.what], place, work(arguments), suffix_);
}

std::string KvOffload::work(std::uint64_t arguments) const {
  const auto f = JobLabel::fields_of<Fields>(arguments);
  return fmt::format("{}[{}]", f.what == kLoad ? "Req" : "No", f.number);
}

}  // namespace railyard::workload::inference
