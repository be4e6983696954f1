// Memory of one CPU socket, behind its root complex. GPUs write to it (device to host) and read from it (host to
// device: the GPU's copy engine has as many read requests in flight as it has tags).
//
// GPUs that cannot reach each other bounce their bytes off this memory, as with NCCL's shared-memory transport and with
// cudaMemcpyPeer without peer access. The sender writes chunks into a staging buffer. The receiver reads each chunk
// when it is complete; this makes room for the next one. SMs of a running kernel write and read chunks at once. For a
// copy engine, software starts each chunk, one after the other, and a GPU's engine moves one chunk at a time, in or out.
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
    Bytes chunk_bytes = 0;       ///< size of a chunk in the staging buffer of a pair of GPUs
    std::uint32_t chunks = 0;    ///< number of chunks in this buffer
    Time copy_start;             ///< time of a copy engine to start one chunk
  };
  HostMemory(sc_core::sc_module_name name, transport::FabricContext& context, transport::Window window,
             const Config& config);

  /// Sender of messages to memories without serve(): the NICs of the host.
  void set_beyond(transport::Sender& beyond) { beyond_ = &beyond; }
  /// Adds a device to which this memory can be copied.
  void serve(transport::Window window, CopyEngine& engine);

  /// Sends from host to device, or to another server; reads from another server.
  void send(transport::Message& message) override;
  transport::Path path_to(transport::Window destination, std::uint8_t traffic_class,
                          transport::Engine engine) const override;
  transport::Path path_of(const transport::Message& message) const override;

  /// From device to device through this memory. @return false: a repeated attempt, and failed links have cut the path
  bool bounce(transport::Message& message);
  /// The path of a bounced message. @param in  its path into this memory
  transport::Path bounce_path(transport::Path in, transport::Window destination, transport::Engine engine) const;
  /// `bytes` of a message were read; the last byte arrives at `when`.
  void taken(transport::Message& message, Bytes bytes, Time when);
  /// The chunk passes its copy engine from now on.
  void begin(const CopyEngine::Chunk& chunk);

  Time read_latency() const override { return config_.read_latency; }
  Bytes completion_payload_bytes() const override { return config_.completion_bytes; }

 protected:
  void receive(transport::Transaction& transaction) override;
  void on_own_event(std::uint32_t tag, std::uint64_t data) override;

 private:
  /// A message on its way through the staging buffer. Numbers of chunks, in this order: write begun, last train on its
  /// way here, arrived here, read begun, last train on its way to the receiver, arrived there.
  struct Staged {
    std::uint64_t chunks = 0;
    std::uint64_t written = 0, whole = 0, arrived = 0, fetched = 0, read = 0, taken = 0;
    bool writes = false, reads = false;  ///< an engine works on a chunk, or is about to start one
    Bytes arrived_bytes = 0, taken_bytes = 0;
  };
  static constexpr std::uint32_t kWholeTag = kFirstEndpointTag;      ///< a chunk's last byte has been written
  static constexpr std::uint32_t kRoomTag = kFirstEndpointTag + 1;   ///< a chunk's last byte has been read
  static constexpr std::uint32_t kWriteTag = kFirstEndpointTag + 2;  ///< the sender starts a chunk
  static constexpr std::uint32_t kReadTag = kFirstEndpointTag + 3;   ///< the receiver starts a chunk
  static constexpr std::uint32_t kLastTag = kFirstEndpointTag + 4;   ///< a copy engine has read a message's last chunk

  bool serves(transport::Window window) const { return window < engines_.size() && engines_[window] != nullptr; }
  CopyEngine& engine(transport::Window window) const;
  /// Bytes of a message up to the end of its chunk number `chunk`.
  Bytes end_of(const transport::Message& message, std::uint64_t chunk) const;
  Bytes size_of(const transport::Message& message, std::uint64_t chunk) const;
  /// Starts all that is possible: writes of the next chunks into free room, and reads of chunks that have arrived.
  void go_on(transport::Message& message, Staged& staged);
  void start(bool is_in, transport::Message& message, Staged& staged);

  Config config_;
  transport::Sender* beyond_ = nullptr;
  std::vector<CopyEngine*> engines_;  ///< by window; null: not reachable
  std::unordered_map<const transport::Message*, Staged> staged_;
};

}  // namespace railyard::pcie
