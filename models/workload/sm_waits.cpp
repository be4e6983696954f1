// For the report of a run that cannot progress: collectives whose CTAs wait for SMs, and who holds those.
#include <fmt/format.h>
#include <algorithm>

#include "workload/job.h"

namespace railyard::workload {

bool Job::holds_sms() const { return collective_ != nullptr && begun() && device_->gpu->sms().resident(claim_); }

bool Job::waits_for_sms() const { return collective_ != nullptr && begun() && !device_->gpu->sms().resident(claim_); }

std::vector<std::string> Dispatcher::sm_waits() const {
  struct Wait {
    const Job* waits;
    const Job* holds;
  };
  std::vector<Wait> waits;
  std::vector<std::string> lines;
  for (const Job& job : storage_) {
    if (!job.waits_for_sms()) continue;
    const gpu::SmArray& sms = job.device_->gpu->sms();
    std::string holders;
    for (const Job& other : storage_) {
      if (!other.holds_sms() || other.device_->gpu != job.device_->gpu) continue;
      waits.push_back({&job, &other});
      holders +=
          fmt::format("{}{} holds {}", holders.empty() ? "" : ", ", other.name(), other.collective()->spec().channels);
    }
    lines.push_back(fmt::format("{} waits for {} of the {} SMs of {}: {}", job.name(),
                                job.collective()->spec().channels, sms.count(), job.device_->gpu->name(),
                                holders.empty() ? "kernels hold them" : holders));
  }
  // A collective that waits on one GPU holds SMs on others until all of its members are in.
  for (const Wait& first : waits) {
    std::vector<const Wait*> chain{&first};
    while (true) {
      const auto next = std::find_if(waits.begin(), waits.end(), [&](const Wait& w) {
        return w.waits->collective() == chain.back()->holds->collective();
      });
      if (next == waits.end()) break;
      if (next->waits->collective() == first.waits->collective()) {
        std::string cycle = "a deadlock, each waits for SMs that the next one holds: ";
        for (const Wait* w : chain)
          cycle += fmt::format("{} on {} > ", w->waits->name(), w->waits->device_->gpu->name());
        lines.push_back(cycle + first.waits->name());
        return lines;
      }
      if (std::find(chain.begin(), chain.end(), &*next) != chain.end()) break;
      chain.push_back(&*next);
    }
  }
  return lines;
}

}  // namespace railyard::workload
