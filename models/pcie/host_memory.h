// Memory of one CPU socket, behind its root complex. GPUs write into it (device to host) and read out of it (host to device:
// the GPU's copy engine asks, as many read requests at a time as it has tags). GPUs that cannot reach each other bounce their
// bytes off it: the sender writes chunks into a staging buffer, the receiver reads each as soon as it is whole, and a chunk
// that was read makes room for another, as NCCL's shared-memory transport and cudaMemcpyPeer without peer access do. SMs of a
// running kernel write and read chunks as they come; copy engines are told of each by software, one after another.
#pragma once

#include <unordered_map>
#include <vector>

#include "pcie/copy_engine.h"
#include "transport/device/endpoint.h"
#include "transport/device/routes.h"

namespace railyard::pcie {

class HostMemory : public transport::Endpoint, public transport::Sender {
 public:
  struct Config {
    Time read_latency;
    Bytes completion_bytes = 0;  ///< payload per completion packet of the root complex; 0: as the link packs them
    Bytes chunk_bytes = 0;       ///< of the staging buffer of one pair of GPUs
    std::uint32_t chunks = 0;    ///< that it holds
    Time copy_start;             ///< a copy engine's, of every chunk that it writes or reads
  };
  HostMemory(sc_core::sc_module_name name, transport::FabricContext& context, transport::Window window,
             const Config& config);

  /// Who sends what goes to memories that serve() has not named: NICs of the host.
  void set_beyond(transport::Sender& beyond) { beyond_ = &beyond; }
  /// A device that it can be copied to.
  void serve(transport::Window window, CopyEngine& engine);

  /// Host to device, or beyond.
  void send(transport::Message& message) override;
  transport::Path path_to(transport::Window destination, std::uint8_t traffic_class,
                          transport::Engine engine) const override;

  /// From device to device by way of this memory. @return false: it was tried before, and lost links have cut it off
  bool bounce(transport::Message& message);
  /// The way of what bounces, from its way in.
  transport::Path bounce_path(transport::Path in, transport::Window destination, transport::Engine engine) const;
  /// So many bytes of a message were read; the last of them is there at `when`.
  void taken(transport::Message& message, Bytes bytes, Time when);

  Time read_latency() const override { return config_.read_latency; }
  Bytes completion_payload_bytes() const override { return config_.completion_bytes; }

 protected:
  void receive(transport::Transaction& transaction) override;
  void on_own_event(std::uint32_t tag, std::uint64_t data) override;

 private:
  /// A message under way through the staging buffer: chunks whose write has begun, whose last train is on its way here, that
  /// are here, whose read has begun, whose last train is on its way to the receiver and that are there, in this order.
  struct Staged {
    std::uint64_t chunks = 0;
    std::uint64_t written = 0, whole = 0, arrived = 0, fetched = 0, read = 0, taken = 0;
    bool writes = false, reads = false;  ///< an engine is at a chunk, or about to start it
    Bytes arrived_bytes = 0, taken_bytes = 0;
  };
  static constexpr std::uint32_t kWholeTag = kFirstEndpointTag;      ///< a chunk's last byte has been written
  static constexpr std::uint32_t kRoomTag = kFirstEndpointTag + 1;   ///< a chunk's last byte has been read
  static constexpr std::uint32_t kWriteTag = kFirstEndpointTag + 2;  ///< the sender starts a chunk
  static constexpr std::uint32_t kReadTag = kFirstEndpointTag + 3;   ///< the receiver starts one

  bool serves(transport::Window window) const { return window < engines_.size() && engines_[window] != nullptr; }
  CopyEngine& engine(transport::Window window) const;
  /// Bytes of a message up to the end of its chunk number `chunk`.
  Bytes end_of(const transport::Message& message, std::uint64_t chunk) const;
  Bytes size_of(const transport::Message& message, std::uint64_t chunk) const;
  /// Starts what can be: the next chunks' writes into what room there is, and the reads of those that are here.
  void go_on(transport::Message& message, Staged& staged);
  void start(std::uint32_t tag, transport::Message& message, Staged& staged);

  Config config_;
  transport::Sender* beyond_ = nullptr;
  std::vector<CopyEngine*> engines_;  ///< by window; null: out of reach
  std::unordered_map<const transport::Message*, Staged> staged_;
};

}  // namespace railyard::pcie
