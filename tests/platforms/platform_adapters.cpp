// Users' TLM-2.0 models on machines that platforms/ builds: what GPUs send them, and what they send.
#define BOOST_TEST_MODULE platform_adapters
#include "tests/support/simulation.h"
#include "tests/support/systemc_main.h"
#include "tests/support/user_models.h"

#include "platforms/machine.h"
#include "tests/support/machine_of.h"
#include "transport/edge/generic_payload_adapter.h"

using namespace railyard;
using test::machine_of;

namespace {

/// Two servers, and of the first one's last branch a user's initiator and a user's memory.
struct Guests : test::Simulation {
  explicit Guests(const std::string& yaml, const std::string& platform = "plx_box")
      : machine(machine_of(yaml, platform), fabric),
        initiator_adapter("initiator_adapter", fabric, machine.first_free_window(), 0),
        target_adapter("target_adapter", fabric, machine.first_free_window() + 1) {
    const std::uint32_t branch = platforms::branches_of(machine.spec().board) - 1;
    machine.attach(initiator_adapter, 0, branch, machine.spec().nic_pcie);
    machine.attach(target_adapter, 0, branch, machine.spec().nic_pcie);
    user.socket.bind(initiator_adapter.socket);
    target_adapter.socket.bind(memory.socket);
  }
  static std::uint64_t address(transport::Window window) { return transport::window_base(window); }
  void access(tlm::tlm_command command, transport::Window window) {
    user.accesses.push_back({command, address(window), 100'000, sc_core::SC_ZERO_TIME});
  }

  platforms::Machine machine;
  transport::InitiatorAdapter initiator_adapter;
  transport::TargetAdapter target_adapter;
  test::UserInitiator user{"user"};
  test::UserMemory memory{"memory"};
};

constexpr Bytes kMessage = 1'000'000;

const std::pair<const char*, const char*> kMachines[] = {
    {"plx_box", "machine: {groups: {node: {gpu: L40S, servers: 2}}, plx: {uplink: dual_root}}\n"},
    {"plx_box", "machine: {groups: {node: {gpu: L40S, servers: 2}}, plx: {uplink: single_root}}\n"},
    {"plx_box", "machine: {groups: {node: {gpu: L40S, servers: 2}}, plx: {uplink: cascaded}}\n"},
    {"plx_box", "machine: {groups: {node: {gpu: L40S, servers: 2}}, plx: {acs: true}}\n"},
    {"dgx_h100", "machine: {groups: {node: {gpu: H100-SXM5-80GB, servers: 2}}}\n"},
    {"gb200_nvl72", "machine: {groups: {node: {gpu: GB200-186GB}}}\n"},
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_users_memory_takes_what_the_gpus_of_a_machine_write_and_read) {
  for (const auto& [platform, yaml] : kMachines) {
    Guests s(yaml, platform);
    const auto gpus = static_cast<transport::Window>(s.machine.gpus());
    const auto near = static_cast<transport::Window>(s.machine.spec().board.gpus - 1);
    BOOST_TEST_CONTEXT(yaml) {
      // From its own switch or socket, from the server's first GPU and from the machine's last one.
      Time when;
      for (const transport::Window gpu : {near, transport::Window(0), gpus - 1})
        s.send(when += Time::ms(1), gpu, s.target_adapter.window(), kMessage);
      transport::Message read;
      read.kind = transport::MessageKind::read;
      read.source = near;
      read.destination = s.target_adapter.window();
      read.bytes = kMessage;
      s.send(when += Time::ms(1), read);
      s.run();
      for (std::size_t i = 0; i < s.took.size(); ++i) {
        BOOST_TEST_CONTEXT("message " << i)
        BOOST_TEST(s.took[i].seconds() == s.alone[i].seconds(), boost::test_tools::tolerance(i == 3 ? 0.01 : 1e-3));
      }
      BOOST_TEST(s.memory.written == 3 * kMessage);
      BOOST_TEST(s.memory.read == kMessage);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_users_initiator_learns_which_addresses_are_nobodys_and_the_run_goes_on) {
  for (const auto& [platform, yaml] : kMachines) {
    Guests s(yaml, platform);
    const std::uint32_t gpus = s.machine.spec().board.gpus;
    const auto everywhere = static_cast<transport::Window>(s.machine.gpus());
    const transport::Window host = s.machine.host_of(GpuId(gpus - 1)).window();
    for (const tlm::tlm_command command : {tlm::TLM_WRITE_COMMAND, tlm::TLM_READ_COMMAND}) {
      s.access(command, gpus - 1);                       // 0: a GPU of its switch or socket
      s.access(command, host);                           // 1: its socket's memory
      s.access(command, s.target_adapter.window());      // 2: the user's memory beside it
      s.access(command, everywhere);                     // 3: a NIC
      s.access(command, s.initiator_adapter.window());   // 4: itself
      s.access(command, s.target_adapter.window() + 1);  // 5: beyond everything
      s.access(command, 40'000);                         // 6: far beyond
      s.access(command, gpus - 1);                       // 7: and on it goes
    }
    s.send(Time(), 0, gpus - 1, kMessage);
    s.run();
    BOOST_TEST_CONTEXT(yaml)
    for (std::size_t i = 0; i < s.user.accesses.size(); ++i) {
      const auto& access = s.user.accesses[i];
      const bool nobodys = i % 8 >= 3 && i % 8 <= 6;
      BOOST_TEST_CONTEXT("access " << i) {
        BOOST_TEST(access.response == (nobodys ? tlm::TLM_ADDRESS_ERROR_RESPONSE : tlm::TLM_OK_RESPONSE));
        BOOST_TEST((access.ended == access.began) == nobodys);
      }
    }
    BOOST_TEST(s.memory.written == 100'000u);
    BOOST_TEST(s.memory.read == 100'000u);
  }
}

BOOST_AUTO_TEST_CASE(memories_of_another_server_are_no_addresses_of_its_pcie) {
  Guests s(kMachines[0].second, kMachines[0].first);
  s.access(tlm::TLM_WRITE_COMMAND, 0);  // below the other root complex
  s.access(tlm::TLM_WRITE_COMMAND, 8);  // of the other server
  s.run();
  BOOST_TEST(s.user.accesses[0].response == tlm::TLM_OK_RESPONSE);
  BOOST_TEST(s.user.accesses[1].response == tlm::TLM_ADDRESS_ERROR_RESPONSE);
}

BOOST_AUTO_TEST_CASE(gpus_share_the_link_of_a_users_memory) {
  // Four GPUs of one switch write at once: what they share is the memory's own link.
  Guests s(kMachines[0].second, kMachines[0].first);
  for (transport::Window gpu = 4; gpu < 8; ++gpu) s.send(Time(), gpu, s.target_adapter.window(), kMessage);
  s.run();
  const auto& spec = s.machine.spec();
  const double longer = 4 * spec.gpu_pcie.gb_per_s / spec.nic_pcie.gb_per_s;
  BOOST_TEST_REQUIRE(longer > 1.5);
  for (const Time took : s.took)
    BOOST_TEST(took.seconds() == longer * s.alone[0].seconds(), boost::test_tools::tolerance(0.05));
}

BOOST_AUTO_TEST_CASE(a_device_has_a_window_and_a_branch_of_its_own) {
  Guests s(kMachines[0].second, kMachines[0].first);
  transport::TargetAdapter gpus_window("gpus_window", s.fabric, 200);
  BOOST_CHECK_THROW(s.machine.attach(gpus_window, 0, 9, s.machine.spec().nic_pcie), std::logic_error);
  BOOST_CHECK_THROW(s.machine.attach(gpus_window, 2, 0, s.machine.spec().nic_pcie), std::logic_error);
  BOOST_CHECK_THROW(s.machine.attach(s.target_adapter, 0, 0, s.machine.spec().nic_pcie), std::logic_error);
}

BOOST_AUTO_TEST_CASE(fluid_fidelity_is_refused_where_a_users_model_is_attached) {
  Guests s("machine: {groups: {node: {gpu: L40S, servers: 1}}}\n");
  BOOST_CHECK_EXCEPTION(s.fabric.model_as_fluid(), std::invalid_argument, [](const std::invalid_argument& error) {
    return std::string(error.what()).find("_adapter serves a TLM model outside of the fabric") != std::string::npos;
  });
}
