// Stall report of a run that cannot progress: the front job of each stream, the collectives that wait for SMs, and the
// jobs that hold these SMs.
#include <fmt/format.h>
#include <algorithm>

#include "execution/executor.h"

namespace railyard::execution {

bool Job::holds_sms() const { return claimed_ && cta_gpu().sms().resident(claim_); }

std::uint32_t Job::ctas() const { return copy_.kernel == nullptr ? collective_->spec().channels : copy_.kernel->ctas; }

bool Job::waits_for_sms() const { return claimed_ && !cta_gpu().sms().resident(claim_); }

std::vector<std::string> Executor::sm_waits() const {
  struct Wait {
    const Job* waits;
    const Job* holds;
  };
  std::vector<Wait> waits;
  std::vector<std::string> lines;
  for (const Job& job : storage_) {
    if (!job.waits_for_sms()) continue;
    std::string holders;
    for (const Job& other : storage_) {
      if (!other.holds_sms() || &other.cta_gpu() != &job.cta_gpu()) continue;
      waits.push_back({&job, &other});
      holders += fmt::format("{}{} holds {}", holders.empty() ? "" : ", ", other.name(), other.ctas());
    }
    lines.push_back(fmt::format("{} waits for {} of the {} SMs of {}: {}", job.name(), job.ctas(),
                                job.cta_gpu().sms().count(), job.cta_gpu().name(),
                                holders.empty() ? "kernels hold them" : holders));
  }
  // A collective that waits on one GPU keeps its SMs on other GPUs until all its members have entered.
  for (const Wait& first : waits) {
    std::vector<const Wait*> chain{&first};
    while (chain.back()->holds->collective() != nullptr) {  // a kernel that copies waits for nobody
      const auto next = std::find_if(waits.begin(), waits.end(), [&](const Wait& w) {
        return w.waits->collective() == chain.back()->holds->collective();
      });
      if (next == waits.end()) break;
      if (next->waits->collective() == first.waits->collective()) {
        std::string cycle = "a deadlock, each waits for SMs that the next one holds: ";
        for (const Wait* w : chain) cycle += fmt::format("{} on {} > ", w->waits->name(), w->waits->rank_->gpu->name());
        lines.push_back(cycle + first.waits->name());
        return lines;
      }
      if (std::find(chain.begin(), chain.end(), &*next) != chain.end()) break;
      chain.push_back(&*next);
    }
  }
  return lines;
}

namespace {

/// What the front job of a stream waits for.
std::string waits_for(const Job& job) {
  if (!job.begun()) return "waits for jobs of other streams";
  if (job.kind() == Job::Kind::send || job.kind() == Job::Kind::receive) return "waits for the other side";
  if (job.kind() == Job::Kind::quiet) return "waits for quiet links";
  if (job.collective() == nullptr) return "runs";
  const collective::Collective& c = *job.collective();
  std::string absent;
  for (std::uint32_t m = 0; m < c.size(); ++m)
    if (!c.has_entered(m)) absent += fmt::format("{}{}", absent.empty() ? "" : ", ", m);
  return absent.empty() ? "waits for bytes of its peers" : fmt::format("waits for member {} to enter", absent);
}

}  // namespace

std::vector<std::string> Executor::blocked() const {
  std::vector<std::string> lines;
  for (const Rank& rank : ranks_)
    for (const Rank::NamedStream& named : rank.streams) {
      if (named.stream.empty()) continue;
      const auto& job = static_cast<const Job&>(*named.stream.front());
      const std::string where = rank.gpu != nullptr ? fmt::format(" ({})", rank.gpu->name()) : "";
      const std::string work = job.label().work();
      lines.push_back(fmt::format("{} rank {}{}, stream {}: {}{}{} {}", rank.group, rank.number, where, named.name,
                                  job.label().task(), work.empty() ? "" : " of ", work, waits_for(job)));
    }
  for (const Job& job : storage_)
    if (job.landing_ != 0) lines.push_back(fmt::format("{}: {} messages have not landed", job.name(), job.landing_));
  for (const std::string& line : sm_waits()) lines.push_back(line);
  return lines;
}

}  // namespace railyard::execution
