#include "workload/inference/engine/kv_offload.h"

#include <fmt/format.h>
#include <algorithm>
#include <utility>

#include "gpu/datasheet.h"

namespace railyard::workload::inference {

KvOffload::KvOffload(const HostKv& host, std::uint32_t block_tokens, std::string suffix, Grid& grid, Executor& executor,
                     KvOffloadClient& client)
    : host_(host),
      block_tokens_(block_tokens),
      suffix_(std::move(suffix)),
      grid_(grid),
      executor_(executor),
      client_(client),
      sends_(*this, "KV offload" + suffix_) {
  for (std::uint32_t r = 0; r < grid.ranks(); ++r) {
    const transport::Window memory = host_.memories[r];
    Rank*& socket = sockets_[memory];
    if (socket == nullptr)
      socket = &executor.add_host("kv_host" + suffix_, static_cast<std::uint32_t>(sockets_.size() - 1), memory);
    socket->add_stream(fmt::format("load_{}", r));
    loads_.push_back(&socket->stream(socket->streams.size() - 1));
    if (has_peers()) {
      socket->add_stream(fmt::format("pull_{}", r));
      pulls_.push_back(&socket->stream(socket->streams.size() - 1));
    }
    Rank& rank = grid.rank(r);
    rank.add_stream("kv_store");
    stores_.push_back(&rank.stream(rank.streams.size() - 1));
    if (host_.disk_blocks == 0) continue;
    const auto of_server = [&](const DiskShare& share) { return share.disk == host_.disks[r]; };
    auto share = std::find_if(shares_.begin(), shares_.end(), of_server);
    if (share == shares_.end()) share = shares_.insert(share, DiskShare{host_.disks[r], 0});
    share->bytes += grid.block_bytes(r / grid.width(), block_tokens_);
  }
}

void KvOffload::load(std::uint32_t request, std::uint64_t blocks) {
  loads_left_.emplace(request, std::vector<bool>(grid_.ranks(), true));
  emit({request, 0, kLoad}, blocks);
}

void KvOffload::cancel(std::uint32_t request) {
  const auto left = loads_left_.find(request);
  if (left == loads_left_.end()) return;
  for (std::uint32_t r = 0; r < grid_.ranks(); ++r)
    if (left->second[r]) ++stale_loads_[{request, r}];
  loads_left_.erase(left);
}

void KvOffload::store(KvTier::Contents contents) {
  const std::uint64_t blocks = contents.size();
  stores_left_.emplace(next_store_, Store{std::move(contents), grid_.ranks()});
  emit({next_store_++, 0, kStore}, blocks);
}

void KvOffload::read(const HostRead& read) { read.peer ? pull(read) : read_disks(read); }

void KvOffload::read_disks(const HostRead& read) {
  reads_left_.emplace(read.number, static_cast<std::uint32_t>(shares_.size()));
  for (std::uint16_t d = 0; d < shares_.size(); ++d) {
    read_ += read.blocks * shares_[d].bytes;
    shares_[d].disk->read(read.blocks * shares_[d].bytes, JobLabel::of(*this, Fields{read.number, d, kRead}), *this);
  }
}

void KvOffload::pull(const HostRead& read) {
  const auto peer = std::find_if(host_.peers.begin(), host_.peers.end(),
                                 [&](const HostKv::Peer& one) { return one.instance == *read.peer; });
  reads_left_.emplace(read.number, grid_.ranks());
  for (std::uint32_t r = 0; r < grid_.ranks(); ++r) {
    execution::Copy copy;
    copy.transfers = {{peer->memories[r], read.blocks * grid_.block_bytes(r / grid_.width(), block_tokens_)}};
    copy.traffic_class = number(TrafficClass::kv);
    copy.kind = transport::MessageKind::read;
    copy.queue_pair = host_.queue_pairs[r];
    ++under_way_;
    executor_.copy(*sockets_.at(host_.memories[r]), *pulls_[r], std::move(copy),
                   JobLabel::of(*this, Fields{read.number, static_cast<std::uint16_t>(r), kPull}), *this);
  }
}

void KvOffload::end_read(std::uint32_t number) {
  const auto left = reads_left_.find(number);
  if (left == reads_left_.end() || --left->second > 0) return;
  reads_left_.erase(left);
  client_.on_kv_read(number);
}

void KvOffload::write(KvTier::Contents contents) {
  const std::uint64_t blocks = contents.size();
  writes_left_.emplace(next_write_, Store{std::move(contents), static_cast<std::uint32_t>(shares_.size())});
  for (std::uint16_t d = 0; d < shares_.size(); ++d) {
    written_ += blocks * shares_[d].bytes;
    shares_[d].disk->write(blocks * shares_[d].bytes, JobLabel::of(*this, Fields{next_write_, d, kWrite}), *this);
  }
  ++next_write_;
}

void KvOffload::disk_done(const Fields& fields) {
  if (fields.what == kRead) {
    end_read(fields.number);
    return;
  }
  const auto left = writes_left_.find(fields.number);
  if (left == writes_left_.end() || --left->second.left > 0) return;
  const KvTier::Contents contents = std::move(left->second.contents);
  writes_left_.erase(left);
  client_.on_kv_written(contents);
}

void KvOffload::emit(Fields fields, std::uint64_t blocks) {
  for (std::uint32_t r = 0; r < grid_.ranks(); ++r) {
    fields.rank = static_cast<std::uint16_t>(r);
    Rank& rank = grid_.rank(r);
    Rank& socket = *sockets_.at(host_.memories[r]);
    Rank& from = fields.what == kLoad ? socket : rank;
    execution::Copy copy;
    copy.transfers = {{fields.what == kLoad ? rank.gpu->window() : *socket.memory,
                       blocks * grid_.block_bytes(r / grid_.width(), block_tokens_)}};
    copy.traffic_class = number(TrafficClass::kv);
    copy.start = Time::seconds(rank.gpu->datasheet().copy.engine_us * 1e-6);
    ++under_way_;
    executor_.copy(from, fields.what == kLoad ? *loads_[r] : *stores_[r], std::move(copy), JobLabel::of(*this, fields),
                   *this);
  }
}

std::vector<collective::OtherTraffic> KvOffload::traffic() {
  std::vector<collective::OtherTraffic> all;
  for (std::uint32_t r = 0; r < grid_.ranks(); ++r) {
    const transport::Window gpu = grid_.rank(r).gpu->window(), host = host_.memories[r];
    all.push_back({gpu, host, number(TrafficClass::kv), &sends_});
    all.push_back({host, gpu, number(TrafficClass::kv), &sends_});
    for (const HostKv::Peer& peer : host_.peers) {
      all.push_back({peer.memories[r], host, number(TrafficClass::kv), &sends_, host_.queue_pairs[r]});
      all.push_back({host, peer.memories[r], number(TrafficClass::kv), &sends_, host_.queue_pairs[r]});
    }
  }
  return all;
}

void KvOffload::add_traffic(std::vector<transport::Traffic>& all, double tokens) const {
  for (std::uint32_t r = 0; r < grid_.ranks(); ++r) {
    const transport::Window gpu = grid_.rank(r).gpu->window(), host = host_.memories[r];
    const double bytes = tokens * static_cast<double>(grid_.kv().bytes_per_token(r / grid_.width()));
    all.push_back({gpu, host, number(TrafficClass::kv), bytes});
    all.push_back({host, gpu, number(TrafficClass::kv), bytes});
    for (const HostKv::Peer& peer : host_.peers)
      all.push_back(
          {peer.memories[r], host, number(TrafficClass::kv), bytes / static_cast<double>(host_.peers.size())});
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
    end_read(fields.number);
    return;
  }
  if (fields.what == kLoad) {
    loaded_ += job.bytes();
    if (const auto stale = stale_loads_.find({fields.number, fields.rank}); stale != stale_loads_.end()) {
      if (--stale->second == 0) stale_loads_.erase(stale);
      return;
    }
    const auto left = loads_left_.find(fields.number);
    left->second[fields.rank] = false;
    if (std::count(left->second.begin(), left->second.end(), true) > 0) return;
    loads_left_.erase(left);
    client_.on_kv_loaded(fields.number);
    return;
  }
  stored_ += job.bytes();
  const auto left = stores_left_.find(fields.number);
  if (left == stores_left_.end() || --left->second.left > 0) return;
  const KvTier::Contents contents = std::move(left->second.contents);
  stores_left_.erase(left);
  client_.on_kv_stored(contents);
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
