// A single collective of GPUs of a machine, whose SMs take no time.
#pragma once

#include <vector>

#include "collective/collective.h"
#include "collective/group.h"
#include "collective/tuner.h"
#include "tests/support/machine_run.h"

namespace railyard::test {

class MachineCollective : public MachineRun, public collective::CollectiveClient {
 public:
  MachineCollective(const std::string& yaml, const std::string& platform, const std::vector<std::uint32_t>& gpus)
      : MachineRun(yaml, platform, 64 << 10), collective_(fabric) {
    for (const std::uint32_t gpu : gpus) gpus_.push_back(&machine.gpu(GpuId(gpu)));
    group = collective::group_of(gpus_);
    collective::add_multicast_groups(group, gpus_, fabric);
  }
  /// @return the end of the last member
  Time run_once(const collective::CollectiveSpec& spec) {
    BOOST_TEST_REQUIRE(collective::unsupported(spec, group) == nullptr);
    collective_.prepare(spec, group, *this);
    fabric.calendar().at(Time(), entrance_, 0, 0);
    run();
    return end_;
  }
  collective::Site site() const { return collective::site_of(gpus_, group, fabric); }

  collective::Group group;

 private:
  void on_member_done(collective::Collective&, std::uint32_t) override {}
  void on_collective_done(collective::Collective&) override { end_ = fabric.now(); }
  struct Entrance : transport::CalendarClient {
    explicit Entrance(MachineCollective& owner) : owner(owner) {}
    void on_event(std::uint32_t, std::uint64_t) override {
      for (std::uint32_t m = 0; m < owner.group.size(); ++m) owner.collective_.enter(m);
    }
    MachineCollective& owner;
  };
  std::vector<gpu::Gpu*> gpus_;
  collective::Collective collective_;
  Entrance entrance_{*this};
  Time end_;
};

}  // namespace railyard::test
