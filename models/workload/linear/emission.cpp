#include "workload/linear/emission.h"

#include <algorithm>

#include "gpu/datasheet.h"

namespace railyard::workload::linear {

using Work = Action::Work;

CoupledRanks::CoupledRanks(std::vector<Rank*> ranks, Streams streams, const collective::CollectiveRequest& request,
                           transport::Fabric& fabric, const Communicator* same)
    : ranks_(std::move(ranks)), streams_(streams), request_(request), fabric_(fabric), same_(same) {}

Communicator& CoupledRanks::communicator(bool beside, std::uint32_t sms, std::uint32_t root) {
  std::unique_ptr<Communicator>& found = communicators_[{beside, sms, root}];
  if (found == nullptr) {
    collective::CollectiveRequest request = request_;
    request.root = root;
    if (sms > 0) {
      request.most_channels = sms;
      request.registered = request.nvls = true;         // userbuffers do not read NCCL_NVLS_ENABLE
      request.protocol = collective::Protocol::simple;  // of NCCL's kernels, which run all else
    }
    found = std::make_unique<Communicator>(ranks_, beside ? streams_.send : streams_.compute, request, fabric_);
    if (same_ != nullptr) found->share_reuse(*same_);
  }
  return *found;
}

Communicator& CoupledRanks::pair(std::uint32_t from, std::uint32_t to, std::uint32_t sms) {
  std::unique_ptr<Communicator>& found = pairs_[{from, to, sms}];
  if (found == nullptr) {
    collective::CollectiveRequest request = request_;
    request.most_channels = sms;
    found = std::make_unique<Communicator>(std::vector<Rank*>{ranks_[from], ranks_[to]},
                                           std::vector<std::size_t>{streams_.send, streams_.receive}, request, fabric_);
  }
  return *found;
}

JobRef CoupledRanks::emit_shard(const Action& action, std::uint32_t rank, RankPrograms& programs, const Labels& labels,
                                std::vector<JobRef>& after, const std::vector<JobRef>& ready) {
  const auto to = static_cast<std::uint32_t>((rank + action.to) % ranks_.size());
  Rank& sender = *ranks_[rank];
  after.push_back(programs.launch(sender.number, action.launches));
  const JobLabel label = labels(action, false, false, rank);
  if (action.mover != Action::Mover::kernels) {
    execution::Copy copy{{{*ranks_[to]->memory, action.bytes}}, request_.traffic_class};
    if (action.mover == Action::Mover::product)
      copy.engine = transport::Engine::sm;
    else
      copy.start = Time::seconds(sender.gpu->datasheet().copy.engine_us * 1e-6);
    return programs.copy(sender.number, streams_.send, std::move(copy), label, after);
  }
  Communicator& communicator = pair(rank, to, action.sms);
  const execution::Exchange exchange{0, 1, 0, action.bytes};
  programs.receive(communicator, exchange, labels(action, false, false, to), ready);
  return programs.send(communicator, exchange, label, after);
}

void CoupledRanks::emit(const ProductPlan& plan, RankPrograms& programs, const Labels& labels) {
  const auto ranks = static_cast<std::uint32_t>(ranks_.size());
  const auto in_program = [](const Action& action) { return !action.beside; };
  const auto first = std::find_if(plan.actions.begin(), plan.actions.end(), in_program);
  start_.resize(ranks);
  for (std::uint32_t r = 0; r < ranks; ++r) {
    start_[r] = programs.waits(ranks_[r]->number);
    start_[r].push_back(programs.last(ranks_[r]->number));
  }
  jobs_.assign(plan.actions.size() * ranks, JobRef());
  for (std::size_t a = 0; a < plan.actions.size(); ++a) {
    const Action& action = plan.actions[a];
    const bool is_first = &action == &*first, is_last = &action == &plan.actions.back();
    JobRef* const done = &jobs_[a * ranks];
    const auto waits_of = [&](std::uint32_t r) -> std::vector<JobRef>& {
      waits_.clear();
      if (action.beside) waits_ = start_[r];
      for (const Wait& wait : action.waits) waits_.push_back(jobs_[wait.action * ranks + (r + wait.from) % ranks]);
      return waits_;
    };
    if (action.work == Work::collective) {
      Communicator& all = communicator(action.beside, action.sms, action.root);
      const JobLabel label = labels(action, is_first, is_last, 0);
      if (action.beside) {
        const std::size_t each = waits_of(0).size();
        std::vector<JobRef> after((each + 1) * ranks);
        for (std::uint32_t r = 0; r < ranks; ++r) {
          const std::vector<JobRef>& waits = waits_of(r);
          for (std::size_t n = 0; n < each; ++n) after[n * ranks + r] = waits[n];
        }
        for (std::uint32_t r = 0; r < ranks; ++r) after[each * ranks + r] = programs.launch(ranks_[r]->number, 1);
        const std::vector<JobRef>& started = programs.start(all, plan.operation, action.bytes, label, after);
        std::copy(started.begin(), started.end(), done);
      } else {
        for (std::uint32_t r = 0; r < ranks; ++r) programs.wait_for(ranks_[r]->number, waits_of(r));
        programs.collective(all, plan.operation, action.bytes, label);
        for (std::uint32_t r = 0; r < ranks; ++r) done[r] = programs.last(ranks_[r]->number);
      }
      continue;
    }
    for (std::uint32_t r = 0; r < ranks; ++r) {
      if (action.work == Work::shard) {
        done[r] = emit_shard(action, r, programs, labels, waits_of(r), start_[(r + action.to) % ranks]);
        continue;
      }
      const std::uint32_t number = ranks_[r]->number;
      if (action.work == Work::main_loop) {
        done[r] = programs.delay(number, streams_.send, Time::seconds(action.seconds), labels(action, false, false, r),
                                 waits_of(r));
        continue;
      }
      programs.wait_for(number, waits_of(r));
      programs.kernels(number, action.kernels, action.launches, labels(action, is_first, is_last, r));
      done[r] = programs.last(number);
    }
  }
}

}  // namespace railyard::workload::linear
