// The name of a job. A job carries 64 bits that only its generator can interpret. Names are rendered from these bits
// when an output needs them, so a run of millions of jobs builds no strings.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

namespace railyard::execution {

/// Which jobs have a row in jobs.csv.
enum class Recorded : std::uint8_t {
  never,        ///< part of a unit of work that has a row
  detail,       ///< only with `--jobs all`: jobs that occur once per layer or token
  stage,        ///< also with `--jobs stage`
  each_member,  ///< like stage; a collective has one row per member instead of one for all
};

/// What a job of host software does, for critical paths.
enum class HostWork : std::uint8_t {
  engine,      ///< prepares steps and launches kernels
  client,      ///< a client and its way to the server
  router,      ///< chooses an instance
  server,      ///< takes requests, and brings tokens to clients
  posts,       ///< descriptors of KV or of messages
  handshakes,  ///< of two instances
};
inline constexpr std::array<const char*, 6> kHostWorkNames{"engine", "client", "router",
                                                           "server", "posts",  "handshakes"};

/// Renders the labels of one generator.
class JobNamer {
 public:
  /// The name in all outputs; brackets are literal: "TP_AR_PP[0]_Layer[7]_Chunk[12]_Attn".
  virtual std::string name(std::uint64_t arguments) const = 0;
  /// A name of one or two words, for waveforms: "attention L7".
  virtual std::string task(std::uint64_t arguments) const { return name(arguments); }
  /// The unit of work that contains the job, for waveforms: "Chunk[3]"; empty if there is none.
  virtual std::string work(std::uint64_t) const { return {}; }
  /// The column `kind` of jobs.csv: compute, tp, pp, kv, host or test.
  virtual const char* kind(std::uint64_t arguments) const = 0;
  virtual Recorded recorded(std::uint64_t arguments) const = 0;
  /// Of a job on a host.
  virtual HostWork host_work([[maybe_unused]] std::uint64_t arguments) const { return HostWork::engine; }
  /// The label of one member of a collective, for namers that give members different names.
  virtual std::uint64_t of_member(std::uint64_t arguments, [[maybe_unused]] std::uint32_t member) const {
    return arguments;
  }

 protected:
  ~JobNamer() = default;
};

struct JobLabel {
  const JobNamer* namer = nullptr;
  std::uint64_t arguments = 0;

  /// @param fields  a struct of bit fields, defined by the namer
  template <class Fields>
  static JobLabel of(const JobNamer& namer, const Fields& fields) {
    static_assert(sizeof(Fields) == sizeof(std::uint64_t) && std::is_trivially_copyable_v<Fields>);
    JobLabel label{&namer, 0};
    std::memcpy(&label.arguments, &fields, sizeof fields);
    return label;
  }
  template <class Fields>
  Fields as() const {
    return fields_of<Fields>(arguments);
  }
  template <class Fields>
  static Fields fields_of(std::uint64_t arguments) {
    static_assert(sizeof(Fields) == sizeof(std::uint64_t) && std::is_trivially_copyable_v<Fields>);
    Fields fields;
    std::memcpy(&fields, &arguments, sizeof fields);
    return fields;
  }

  std::string name() const { return namer->name(arguments); }
  std::string task() const { return namer->task(arguments); }
  std::string work() const { return namer->work(arguments); }
  const char* kind() const { return namer->kind(arguments); }
  Recorded recorded() const { return namer->recorded(arguments); }
  HostWork host_work() const { return namer->host_work(arguments); }
};

}  // namespace railyard::execution
