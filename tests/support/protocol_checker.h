// A checker of the TLM-2.0 base protocol (IEEE 1666-2011, clauses 14 to 16) between an initiator and a target. It forwards all calls
// and collects what either side does wrong.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <tlm>
#include <vector>

namespace railyard::test {

class ProtocolChecker : public sc_core::sc_module,
                        private tlm::tlm_fw_transport_if<>,
                        private tlm::tlm_bw_transport_if<> {
 public:
  tlm::tlm_target_socket<> from_initiator{"from_initiator"};
  tlm::tlm_initiator_socket<> to_target{"to_target"};
  std::vector<std::string> faults;
  std::size_t blocking = 0, nonblocking = 0;  ///< transactions that are over
  std::map<tlm::tlm_response_status, std::size_t> responses;

  explicit ProtocolChecker(sc_core::sc_module_name name) : sc_module(name) {
    from_initiator.bind(static_cast<tlm::tlm_fw_transport_if<>&>(*this));
    to_target.bind(static_cast<tlm::tlm_bw_transport_if<>&>(*this));
  }
  /// Transactions that have begun and are not over.
  std::size_t under_way() const { return live_.size(); }

 private:
  /// Attributes that belong to the initiator while the transaction is under way.
  struct Request {
    tlm::tlm_command command;
    std::uint64_t address;
    const unsigned char *data, *enables;
    unsigned length, width, enable_length;

    static Request of(const tlm::tlm_generic_payload& p) {
      return {p.get_command(),     p.get_address(),         p.get_data_ptr(),          p.get_byte_enable_ptr(),
              p.get_data_length(), p.get_streaming_width(), p.get_byte_enable_length()};
    }
    bool operator==(const Request& o) const {
      return command == o.command && address == o.address && data == o.data && enables == o.enables &&
             length == o.length && width == o.width && enable_length == o.enable_length;
    }
  };
  struct Live {
    Request request;
    tlm::tlm_phase_enum last = tlm::UNINITIALIZED_PHASE;  ///< the latest phase; uninitialised: a blocking call
  };

  void expect(bool is_right, const std::string& rule) {
    if (!is_right) faults.push_back(rule);
  }

  void begins(tlm::tlm_generic_payload& p, tlm::tlm_phase_enum phase) {
    expect(live_.count(&p) == 0, "a transaction is used again before it is over");
    expect(p.get_response_status() == tlm::TLM_INCOMPLETE_RESPONSE, "a request with a response");
    expect(!p.is_dmi_allowed(), "a request allows DMI");
    if (p.get_command() != tlm::TLM_IGNORE_COMMAND)
      expect(p.get_data_ptr() != nullptr && p.get_data_length() > 0, "a request without data");
    expect(p.get_streaming_width() > 0, "a streaming width of zero");
    expect(p.get_byte_enable_ptr() == nullptr || p.get_byte_enable_length() > 0, "byte enables without a length");
    live_[&p] = {Request::of(p), phase};
  }
  void responds(const tlm::tlm_generic_payload& p) {
    expect(p.get_response_status() != tlm::TLM_INCOMPLETE_RESPONSE, "a response without a status");
    expect(!p.is_dmi_allowed(), "a response allows DMI");
    const auto own = live_.find(&p);
    if (own == live_.end()) return expect(false, "a response without a request");
    expect(own->second.request == Request::of(p), "a target changes a request");
    if (p.get_byte_enable_ptr() != nullptr)
      expect(p.get_response_status() == tlm::TLM_BYTE_ENABLE_ERROR_RESPONSE, "byte enables are ignored");
    ++responses[p.get_response_status()];
  }

  void b_transport(tlm::tlm_generic_payload& p, sc_core::sc_time& delay) override {
    begins(p, tlm::UNINITIALIZED_PHASE);
    to_target->b_transport(p, delay);
    responds(p);
    live_.erase(&p);
    ++blocking;
  }

  tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload& p, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay) override {
    expect(p.has_mm(), "a non-blocking transaction without a memory manager");
    const tlm::tlm_phase_enum sent = moves(p, phase, true);
    const tlm::tlm_sync_enum status = to_target->nb_transport_fw(p, phase, delay);
    returns(p, status, sent, phase, false);
    return status;
  }
  tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload& p, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay) override {
    const tlm::tlm_phase_enum sent = moves(p, phase, false);
    const tlm::tlm_sync_enum status = from_initiator->nb_transport_bw(p, phase, delay);
    returns(p, status, sent, phase, true);
    return status;
  }

  /// A phase that one side sends. @return the phase
  tlm::tlm_phase_enum moves(tlm::tlm_generic_payload& p, const tlm::tlm_phase& phase, bool by_initiator) {
    const auto next = static_cast<tlm::tlm_phase_enum>(static_cast<unsigned>(phase));
    if (next == tlm::BEGIN_REQ) {
      expect(by_initiator, "a target sends BEGIN_REQ");
      expect(!is_requesting_, "BEGIN_REQ before the END_REQ of another transaction");
      is_requesting_ = true;
      begins(p, next);
      return next;
    }
    const auto own = live_.find(&p);
    if (own == live_.end()) {
      expect(false, "a phase of a transaction that is not under way");
      return next;
    }
    const tlm::tlm_phase_enum last = own->second.last;
    own->second.last = next;
    switch (next) {
      case tlm::END_REQ:
        expect(!by_initiator && last == tlm::BEGIN_REQ, "END_REQ not after BEGIN_REQ, or not by the target");
        is_requesting_ = false;
        break;
      case tlm::BEGIN_RESP:
        expect(!by_initiator && (last == tlm::END_REQ || last == tlm::BEGIN_REQ),
               "BEGIN_RESP not after the request, or not by the target");
        expect(!is_responding_, "BEGIN_RESP before the END_RESP of another transaction");
        if (last == tlm::BEGIN_REQ) is_requesting_ = false;
        is_responding_ = true;
        responds(p);
        break;
      case tlm::END_RESP:
        expect(by_initiator && last == tlm::BEGIN_RESP, "END_RESP not after BEGIN_RESP, or not by the initiator");
        is_responding_ = false;
        over(p);
        break;
      default: expect(false, "a phase that the base protocol does not have");
    }
    return next;
  }

  /// What the called side returns. @param sent  the phase of the call
  void returns(tlm::tlm_generic_payload& p, tlm::tlm_sync_enum status, tlm::tlm_phase_enum sent,
               const tlm::tlm_phase& phase, bool by_initiator) {
    const bool is_changed = static_cast<unsigned>(phase) != static_cast<unsigned>(sent);
    switch (status) {
      case tlm::TLM_ACCEPTED: expect(!is_changed, "TLM_ACCEPTED with another phase"); break;
      case tlm::TLM_UPDATED:
        expect(is_changed, "TLM_UPDATED with the same phase");
        if (is_changed) moves(p, phase, by_initiator);
        break;
      case tlm::TLM_COMPLETED:
        if (live_.count(&p) == 0) break;  // END_RESP was the call
        if (sent == tlm::BEGIN_REQ || sent == tlm::END_REQ) responds(p);
        if (sent == tlm::BEGIN_REQ) is_requesting_ = false;
        if (sent == tlm::BEGIN_RESP) is_responding_ = false;
        over(p);
    }
  }
  void over(const tlm::tlm_generic_payload& p) {
    live_.erase(&p);
    ++nonblocking;
  }

  bool get_direct_mem_ptr(tlm::tlm_generic_payload& p, tlm::tlm_dmi& dmi) override {
    const bool is_given = to_target->get_direct_mem_ptr(p, dmi);
    expect(!is_given, "DMI is given");
    return is_given;
  }
  void invalidate_direct_mem_ptr(sc_dt::uint64, sc_dt::uint64) override {
    expect(false, "DMI is taken back, which was never given");
  }
  unsigned transport_dbg(tlm::tlm_generic_payload& p) override {
    const unsigned bytes = to_target->transport_dbg(p);
    expect(bytes <= p.get_data_length(), "debug transport of more bytes than asked for");
    return bytes;
  }

  std::map<const tlm::tlm_generic_payload*, Live> live_;
  bool is_requesting_ = false, is_responding_ = false;
};

}  // namespace railyard::test
