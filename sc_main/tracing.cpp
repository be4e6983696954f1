#include "sc_main/tracing.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/input_error.h"
#include "sc_main/link_table.h"

namespace railyard {

namespace {

constexpr char kConverter[] = "vcd2fst";  // part of GTKWave

/// Names by number of the class, empty for classes that the workload does not use.
std::vector<std::string> class_names(Simulation& simulation) {
  std::vector<std::string> names(kTrafficClasses.size());
  for (const TrafficClass c : simulation.classes()) names[number(c)] = name(c);
  return names;
}

probe::Waveform::Config waveform_config(const Options& options, const std::string& path,
                                        std::vector<std::string> class_names) {
  probe::Waveform::Config c;
  c.path = path;
  if (options.fst) c.opens = "trace.fst";
  switch (options.vcd_level) {
    case VcdLevel::summary: c.level = probe::Waveform::Level::summary; break;
    case VcdLevel::links: c.level = probe::Waveform::Level::links; break;
    case VcdLevel::all: c.level = probe::Waveform::Level::all; break;
  }
  c.window.from = options.vcd_from;
  c.window.to = options.vcd_to;
  c.window.filters = options.vcd_filters;
  c.class_names = std::move(class_names);
  return c;
}

/// The exit status of the converter, with its output suppressed; 127 if it cannot be started.
int convert(const std::string& from, const std::string& to) {
  std::string command = kConverter, source = from, target = to;
  char* const arguments[] = {command.data(), source.data(), target.data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO})
    posix_spawn_file_actions_addopen(&actions, stream, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int error = posix_spawnp(&child, kConverter, &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return 127;
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return 127;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Whether the blocks of an FST file end where the file ends. The converter does not look whether its writes succeed.
bool is_complete_fst(const std::string& path) {
  constexpr std::uint64_t kLengthBytes = 8;  // big-endian, after a byte with the kind of the block; counts itself
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  std::ifstream file(path, std::ios::binary);
  std::uint64_t at = 0;
  while (!error && file && at < size) {
    file.seekg(static_cast<std::streamoff>(at + 1));
    std::array<char, kLengthBytes> bytes{};
    file.read(bytes.data(), bytes.size());
    std::uint64_t length = 0;
    for (const char byte : bytes) length = length << 8 | static_cast<unsigned char>(byte);
    if (length < kLengthBytes || size - at <= length) return false;
    at += 1 + length;
  }
  return !error && file && 0 < size;
}

}  // namespace

Tracing::Tracing(const Options& options, const OutputDirectory& out, Simulation& simulation, JobsCsv& jobs)
    : fst_path_(options.fst ? out.file("trace.fst") : ""), vcd_path_(out.file("trace.vcd")) {
  platforms::Machine& machine = simulation.machine();
  if (options.vcd) {
    waveform_.emplace(waveform_config(options, vcd_path_, class_names(simulation)));
    waveform_->attach(simulation.fabric());
    for (std::uint32_t g = 0; g < machine.gpus(); ++g) waveform_->attach(machine.gpu(GpuId(g)));
    simulation.workload().trace(*waveform_);
    for (const std::string& engine : simulation.workload().engines()) waveform_->attach_engine(engine);
    simulation.workload().follow_engines(*waveform_);
    waveform_->start();
  }
  if (options.timeline) {
    // Replayed collectives show no messages, but in a large run nobody could wait for all of them.
    const bool large =
        transport::hops(simulation.fabric().routes(), simulation.workload().traffic()) > transport::kAffordableHops;
    if (!large) simulation.workload().executor().simulate_every_collective();
    timeline_.emplace(probe::Timeline::Config{out.file("timeline.json.gz"), class_names(simulation), large},
                      simulation.fabric());
    simulation.workload().follow_requests(timeline_->requests());
    for (const std::string& engine : simulation.workload().engines()) timeline_->attach_engine(engine);
    simulation.workload().follow_engines(timeline_->engines());
    for (const auto& [gpu, rank] : simulation.workload().rank_names())
      timeline_->attach(machine.gpu(gpu), "rank " + rank);
    simulation.workload().trace(*timeline_);
    for (const LinkRow& link : link_table(simulation))
      if (link.meter == nullptr)
        timeline_->attach_link(*link.device, link.port, link.name + " " + link.direction, *link.home);
    jobs.forward_to(*timeline_);
  }
}

bool Tracing::can_convert() {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (access((folder + "/" + kConverter).c_str(), X_OK) == 0) return true;
  return false;
}

void Tracing::finish(Time end, const std::vector<probe::CriticalPath::Measure>& paths) {
  if (timeline_) {
    for (const probe::CriticalPath::Measure& path : paths) timeline_->add_path(path);
    timeline_->finish(end);
  }
  if (waveform_) waveform_->finish(end);
  if (fst_path_.empty()) return;
  if (const int status = convert(vcd_path_, fst_path_); status != 0)
    throw InputError(Origin{"--fst", 0, 0},
                     std::string(kConverter) + " failed with exit status " + std::to_string(status));
  if (!is_complete_fst(fst_path_))
    throw InputError(Origin{"--fst", 0, 0}, std::string(kConverter) + " left an incomplete file; is the disk full?");
  std::filesystem::remove(vcd_path_);
}

}  // namespace railyard
