// Writes a million slices with names and bytes, on 16 tracks of 8 processes, to a file that is removed again. Wall-clock time.
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <vector>

#include <fmt/format.h>

#include "probe/trace_events.h"

using namespace railyard;

int main() {
  constexpr std::uint64_t kSlices = 1'000'000;
  constexpr std::uint32_t kProcesses = 8;
  const std::string path = (std::filesystem::temp_directory_path() / "bench_timeline.json.gz").string();
  const auto begun = std::chrono::steady_clock::now();
  {
    probe::TraceEvents events(path);
    std::vector<probe::TraceTrack> tracks;
    for (std::uint32_t p = 0; p < kProcesses; ++p) {
      const std::uint32_t process = events.add_process(fmt::format("gpu{}", p));
      tracks.push_back(events.add_track(process, "stream compute"));
      tracks.push_back(events.add_track(process, "tp messages"));
    }
    for (std::uint64_t i = 0; i < kSlices; ++i) {
      const Time from = Time::fs(i / tracks.size() * 7'654'321), to = from + Time::fs(5'432'109 + i % 1000);
      const std::string name = fmt::format("TP_AR_PP[0]_Layer[{}]_Chunk[{}]_Attn", i / 16 % 80, i / 1280);
      events.slice(tracks[i % tracks.size()], "tp", name, from, to, {{"bytes", 4096 * (i % 33)}});
    }
    events.close();
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  std::printf("%llu slices in %.2f s, %.1f MB\n", static_cast<unsigned long long>(kSlices), seconds,
              static_cast<double>(std::filesystem::file_size(path)) * 1e-6);
  std::filesystem::remove(path);
}
