// User models for the fabric: standard TLM-2.0 models of the base protocol without code for the fabric, an initiator
// with a thread and a memory with b_transport.
#pragma once

#include <tlm_utils/simple_initiator_socket.h>
#include <tlm_utils/simple_target_socket.h>
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <tlm>
#include <vector>

#include "base/units.h"

namespace railyard::test {

/// A thread that makes blocking accesses, one after the other.
struct UserInitiator : sc_core::sc_module {
  struct Access {
    tlm::tlm_command command;
    std::uint64_t address;
    unsigned bytes;
    sc_core::sc_time delay;
    bool byte_enables = false;
    unsigned streaming_width = 0;  // 0: the length of the access
    tlm::tlm_response_status response = tlm::TLM_INCOMPLETE_RESPONSE;
    Time began{}, ended{};
    bool zeros = true;
  };
  tlm_utils::simple_initiator_socket<UserInitiator> socket{"socket"};
  std::vector<Access> accesses;

  SC_HAS_PROCESS(UserInitiator);
  explicit UserInitiator(sc_core::sc_module_name name) : sc_module(name) { SC_THREAD(run); }
  void run() {
    for (Access& a : accesses) {
      std::vector<unsigned char> data(a.bytes, 0xff);
      unsigned char enable = 0xff;
      tlm::tlm_generic_payload payload;
      payload.set_command(a.command);
      payload.set_address(a.address);
      payload.set_data_ptr(data.data());
      payload.set_data_length(a.bytes);
      payload.set_streaming_width(a.streaming_width == 0 ? a.bytes : a.streaming_width);
      if (a.byte_enables) {
        payload.set_byte_enable_ptr(&enable);
        payload.set_byte_enable_length(1);
      }
      a.began = Time::fs(sc_core::sc_time_stamp().value());
      sc_core::sc_time delay = a.delay;
      socket->b_transport(payload, delay);
      BOOST_TEST((delay == sc_core::SC_ZERO_TIME));
      a.response = payload.get_response_status();
      a.ended = Time::fs(sc_core::sc_time_stamp().value());
      if (payload.is_read())
        for (const unsigned char c : data) a.zeros = a.zeros && c == 0;
    }
  }
};

/// A memory that takes `latency` per access, as wait() or as annotated delay.
struct UserMemory : sc_core::sc_module {
  tlm_utils::simple_target_socket<UserMemory> socket{"socket"};
  sc_core::sc_time latency;
  bool annotates = false;
  std::uint64_t size = ~0ull;
  Bytes written = 0, read = 0;
  std::uint64_t lowest = ~0ull, highest = 0;

  explicit UserMemory(sc_core::sc_module_name name) : sc_module(name) {
    socket.register_b_transport(this, &UserMemory::b_transport);
  }
  void b_transport(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) {
    const Bytes bytes = payload.get_data_length();
    if (payload.get_address() + bytes > size) {
      payload.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
      return;
    }
    (payload.is_write() ? written : read) += bytes;
    lowest = std::min<std::uint64_t>(lowest, payload.get_address());
    highest = std::max<std::uint64_t>(highest, payload.get_address() + bytes);
    for (Bytes i = 0; i < bytes; ++i) BOOST_TEST_REQUIRE(payload.get_data_ptr()[i] == 0);
    if (annotates) {
      delay += latency;
    } else if (latency != sc_core::SC_ZERO_TIME) {
      wait(latency);
    }
    payload.set_response_status(tlm::TLM_OK_RESPONSE);
  }
};

}  // namespace railyard::test
