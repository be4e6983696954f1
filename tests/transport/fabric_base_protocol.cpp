// The edge of the fabric keeps the base protocol of TLM-2.0, towards initiators and targets, and so do the modules of examples/.
#include "tests/support/simulation.h"
#include "tests/support/systemc_main.h"
#include "tests/support/user_models.h"

#include "pcie/pcie.h"
#include "tests/support/protocol_checker.h"
#include "transport/edge/generic_payload_adapter.h"

#define railyard_module dma_library
#include "examples/modules/dma.cpp"
#undef railyard_module
#define railyard_module memory_library
#include "examples/modules/memory.cpp"
#undef railyard_module

using namespace railyard;
using test::gb;
using test::ideal;
using test::ProtocolChecker;

namespace {

constexpr transport::Window kInitiator = 10, kTarget = 11;
constexpr unsigned kBytes = 100'000;

/// A PCIe switch with a memory of ours, and checkers in front of what a user connects to either adapter.
struct Checked : test::Simulation {
  Checked() : Simulation(4096) {
    const auto link = ideal(gb(50), Time::ns(100), 65'536, Time::ns(100));
    fabric.add_device(plx);
    attach(node(Time::ns(500)), plx, link);
    plx.decoder().map(kInitiator, join(initiator_adapter, plx, link, link).second);
    plx.decoder().map(kTarget, join(target_adapter, plx, link, link).second);
    at_initiator.to_target.bind(initiator_adapter.socket);
    target_adapter.socket.bind(at_target.from_initiator);
  }
  void expect_no_faults() const {
    for (const ProtocolChecker* checker : {&at_initiator, &at_target}) {
      for (const std::string& fault : checker->faults) BOOST_ERROR(checker->name() << ": " << fault);
    }
  }

  pcie::PlxSwitch plx{"plx", fabric.context(), false};
  transport::InitiatorAdapter initiator_adapter{"initiator_adapter", fabric, kInitiator, 0};
  transport::TargetAdapter target_adapter{"target_adapter", fabric, kTarget};
  ProtocolChecker at_initiator{"at_initiator"}, at_target{"at_target"};
};

std::uint64_t address(transport::Window window) { return transport::window_base(window); }

/// Sends one transaction after the other without blocking, and asks for DMI and debug transport first.
struct NonBlocking : sc_core::sc_module, tlm::tlm_bw_transport_if<>, tlm::tlm_mm_interface {
  tlm::tlm_initiator_socket<> socket{"socket"};
  std::vector<std::uint64_t> addresses;
  std::vector<tlm::tlm_response_status> responses;
  unsigned debugged = 0;
  bool has_dmi = false;
  sc_core::sc_event over;

  SC_HAS_PROCESS(NonBlocking);
  explicit NonBlocking(sc_core::sc_module_name name) : sc_module(name) {
    socket.bind(static_cast<tlm::tlm_bw_transport_if<>&>(*this));
    SC_THREAD(run);
  }
  void free(tlm::tlm_generic_payload* payload) override { delete payload; }
  void run() {
    std::vector<unsigned char> data(kBytes);
    for (const std::uint64_t to : addresses) {
      auto* const payload = new tlm::tlm_generic_payload(this);
      payload->acquire();
      payload->set_command(tlm::TLM_WRITE_COMMAND);
      payload->set_address(to);
      payload->set_data_ptr(data.data());
      payload->set_data_length(kBytes);
      payload->set_streaming_width(kBytes);
      tlm::tlm_dmi dmi;
      has_dmi = has_dmi || socket->get_direct_mem_ptr(*payload, dmi);
      debugged += socket->transport_dbg(*payload);
      tlm::tlm_phase phase = tlm::BEGIN_REQ;
      sc_core::sc_time delay;
      if (socket->nb_transport_fw(*payload, phase, delay) != tlm::TLM_COMPLETED) wait(over);
      responses.push_back(payload->get_response_status());
      payload->release();
    }
  }
  tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload&, tlm::tlm_phase& phase, sc_core::sc_time&) override {
    if (phase == tlm::END_REQ) return tlm::TLM_ACCEPTED;
    phase = tlm::END_RESP;
    over.notify(sc_core::SC_ZERO_TIME);
    return tlm::TLM_COMPLETED;
  }
  void invalidate_direct_mem_ptr(sc_dt::uint64, sc_dt::uint64) override {}
};

/// What a scenario says to a module of examples/.
struct Place : transport::ModulePlace {
  std::uint64_t to = 0;
  tlm::tlm_base_initiator_socket<>* initiator = nullptr;
  tlm::tlm_base_target_socket<>* target = nullptr;

  double number(const char* parameter) const override {
    const std::string name = parameter;
    return name == "block_bytes" ? kBytes : name == "gb_per_s" ? 10 : 0;
  }
  const char* text(const char*) const override { return ""; }
  std::uint64_t address_of(const char*) const override { return to; }
  void connect(tlm::tlm_base_initiator_socket<>& socket) override { initiator = &socket; }
  void connect(tlm::tlm_base_target_socket<>& socket) override { target = &socket; }
};

}  // namespace

BOOST_AUTO_TEST_CASE(blocking_accesses_keep_the_base_protocol_whatever_they_ask_for) {
  Checked s;
  test::UserInitiator user("user");
  test::UserMemory memory("memory");
  user.socket.bind(s.at_initiator.from_initiator);
  s.at_target.to_target.bind(memory.socket);
  const auto now = sc_core::SC_ZERO_TIME;
  for (const tlm::tlm_command command : {tlm::TLM_WRITE_COMMAND, tlm::TLM_READ_COMMAND})
    for (const transport::Window window : {transport::Window(0), kTarget, transport::Window(99)})
      user.accesses.push_back({command, address(window), kBytes, now});
  user.accesses.push_back({tlm::TLM_WRITE_COMMAND, address(kTarget), 64, now, true});
  user.accesses.push_back({tlm::TLM_WRITE_COMMAND, address(kTarget), 64, now, false, 8});
  s.run();
  s.expect_no_faults();
  BOOST_TEST(s.at_initiator.blocking == 8u);
  BOOST_TEST(s.at_initiator.under_way() == 0u);
  auto& responses = s.at_initiator.responses;
  BOOST_TEST(responses[tlm::TLM_OK_RESPONSE] == 4u);
  BOOST_TEST(responses[tlm::TLM_ADDRESS_ERROR_RESPONSE] == 2u);
  BOOST_TEST(responses[tlm::TLM_BYTE_ENABLE_ERROR_RESPONSE] == 1u);
  BOOST_TEST(responses[tlm::TLM_BURST_ERROR_RESPONSE] == 1u);
  BOOST_TEST(s.at_target.blocking == 2 * ceil_div(kBytes, 4096u));  // trains of 4096 bytes, there and back
  BOOST_TEST(memory.written == kBytes);
}

BOOST_AUTO_TEST_CASE(non_blocking_accesses_go_through_their_phases_and_get_no_dmi) {
  Checked s;
  NonBlocking user("user");
  test::UserMemory memory("memory");
  user.socket.bind(s.at_initiator.from_initiator);
  s.at_target.to_target.bind(memory.socket);
  user.addresses = {address(0), address(kTarget), address(99), address(0)};
  s.run();
  s.expect_no_faults();
  BOOST_TEST(s.at_initiator.nonblocking == 4u);
  BOOST_TEST(s.at_initiator.under_way() == 0u);
  BOOST_TEST(user.responses.size() == 4u);
  BOOST_TEST(s.at_initiator.responses[tlm::TLM_OK_RESPONSE] == 3u);
  BOOST_TEST(s.at_initiator.responses[tlm::TLM_ADDRESS_ERROR_RESPONSE] == 1u);
  BOOST_TEST(!user.has_dmi);
  BOOST_TEST(user.debugged == 0u);  // contents are not modelled
}

BOOST_AUTO_TEST_CASE(the_modules_of_the_examples_keep_it_too) {
  Checked s;
  Place place;
  place.to = address(kTarget);
  const std::unique_ptr<sc_core::sc_module> dma(dma_library()->make("dma", place)),
      memory(memory_library()->make("memory", place));
  place.initiator->bind(s.at_initiator.from_initiator);
  s.at_target.to_target.bind(*place.target);
  sc_core::sc_start(sc_core::sc_time(105, sc_core::SC_US));
  s.expect_no_faults();
  // Each block waits for 10 GB/s of the memory: 10 us, and 0.4 us there for its first train and both links.
  BOOST_TEST(s.at_initiator.blocking == 10u);
  BOOST_TEST(s.at_initiator.responses[tlm::TLM_OK_RESPONSE] == 10u);
  BOOST_TEST(s.at_target.blocking >= 10 * ceil_div(kBytes, 4096u));
}

namespace {

/// A target that does what it is told to, right or wrong.
struct Wrong : sc_core::sc_module, tlm::tlm_fw_transport_if<> {
  tlm::tlm_target_socket<> socket{"socket"};
  std::function<void(tlm::tlm_generic_payload&)> answer;

  explicit Wrong(sc_core::sc_module_name name) : sc_module(name) {
    socket.bind(static_cast<tlm::tlm_fw_transport_if<>&>(*this));
  }
  void b_transport(tlm::tlm_generic_payload& payload, sc_core::sc_time&) override { answer(payload); }
  tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload&, tlm::tlm_phase&, sc_core::sc_time&) override {
    return tlm::TLM_ACCEPTED;
  }
  bool get_direct_mem_ptr(tlm::tlm_generic_payload&, tlm::tlm_dmi&) override { return true; }
  unsigned transport_dbg(tlm::tlm_generic_payload&) override { return 0; }
};

}  // namespace

BOOST_AUTO_TEST_CASE(the_checker_finds_what_is_wrong) {
  ProtocolChecker checker("checker");
  NonBlocking user("user");
  Wrong target("target");
  user.socket.bind(checker.from_initiator);
  checker.to_target.bind(target.socket);
  sc_core::sc_start(sc_core::SC_ZERO_TIME);
  unsigned char data[8] = {}, enables[1] = {0xff};
  const auto ok = [](tlm::tlm_generic_payload& p) { p.set_response_status(tlm::TLM_OK_RESPONSE); };
  const auto prepared = [&](tlm::tlm_generic_payload& p) {
    p.set_command(tlm::TLM_WRITE_COMMAND);
    p.set_data_ptr(data);
    p.set_data_length(8);
    p.set_streaming_width(8);
    p.set_response_status(tlm::TLM_INCOMPLETE_RESPONSE);
  };
  const auto faults_of = [&](const std::function<void(tlm::tlm_generic_payload&)>& answer, const auto& change) {
    checker.faults.clear();
    tlm::tlm_generic_payload payload;
    prepared(payload);
    change(payload);
    target.answer = answer;
    sc_core::sc_time delay;
    user.socket->b_transport(payload, delay);
    return checker.faults;
  };
  const auto none = [](tlm::tlm_generic_payload&) {};
  using Faults = std::vector<std::string>;
  BOOST_TEST((faults_of(ok, none) == Faults{}));
  BOOST_TEST((faults_of(none, none) == Faults{"a response without a status"}));
  BOOST_TEST((faults_of(ok, ok) == Faults{"a request with a response"}));
  BOOST_TEST((faults_of(ok, [&](auto& p) { p.set_data_ptr(nullptr); }) == Faults{"a request without data"}));
  BOOST_TEST((faults_of(ok, [&](auto& p) { p.set_streaming_width(0); }) == Faults{"a streaming width of zero"}));
  const auto with_enables = [&](auto& p) {
    p.set_byte_enable_ptr(enables);
    p.set_byte_enable_length(1);
  };
  BOOST_TEST((faults_of(ok, with_enables) == Faults{"byte enables are ignored"}));
  const auto allows_dmi = [&](auto& p) {
    ok(p);
    p.set_dmi_allowed(true);
  };
  BOOST_TEST((faults_of(allows_dmi, none) == Faults{"a response allows DMI"}));
  const auto moves = [&](auto& p) {
    ok(p);
    p.set_address(4);
  };
  BOOST_TEST((faults_of(moves, none) == Faults{"a target changes a request"}));

  // Two requests without an answer; the first transaction again.
  checker.faults.clear();
  tlm::tlm_generic_payload first(&user), second(&user);
  for (tlm::tlm_generic_payload* payload : {&first, &second}) payload->acquire(), prepared(*payload);
  sc_core::sc_time delay;
  tlm::tlm_phase phase = tlm::BEGIN_REQ;
  user.socket->nb_transport_fw(first, phase, delay);
  BOOST_TEST(checker.faults.empty());
  user.socket->nb_transport_fw(second, phase, delay);
  BOOST_TEST((checker.faults == Faults{"BEGIN_REQ before the END_REQ of another transaction"}));
  checker.faults.clear();
  user.socket->nb_transport_fw(first, phase, delay);
  BOOST_TEST((checker.faults == Faults{"BEGIN_REQ before the END_REQ of another transaction",
                                       "a transaction is used again before it is over"}));
  checker.faults.clear();
  phase = tlm::END_RESP;
  user.socket->nb_transport_fw(second, phase, delay);
  BOOST_TEST((checker.faults == Faults{"END_RESP not after BEGIN_RESP, or not by the initiator"}));
  tlm::tlm_dmi dmi;
  checker.faults.clear();
  user.socket->get_direct_mem_ptr(first, dmi);
  BOOST_TEST((checker.faults == Faults{"DMI is given"}));
}
