#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <charconv>
#include <memory>

#include "base/input_error.h"
#include "sc_main/serve/endpoint.h"

namespace railyard::serve {

namespace {

[[noreturn]] void refuse_address(const std::string& text, const std::string& what) {
  throw InputError(Origin{"--listen " + text, 0, 0}, what);
}

bool is_loopback(const sockaddr& address) {
  if (address.sa_family == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr) >> 24 == 127;
  return address.sa_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

}  // namespace

ListenAddress ListenAddress::parse(const std::string& text, bool is_public) {
  ListenAddress address;
  const std::size_t colon = text.rfind(':');
  const std::string port = colon == std::string::npos ? "" : text.substr(colon + 1);
  const auto read = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (port.empty() || read.ec != std::errc() || read.ptr != port.data() + port.size() || address.port < 0 ||
      address.port > 65535)
    refuse_address(text, "expected HOST:PORT, for example 127.0.0.1:8000; a port is 0 (any) to 65535");
  address.host = text.substr(0, colon);
  if (address.host.size() > 2 && address.host.front() == '[' && address.host.back() == ']')
    address.host = address.host.substr(1, address.host.size() - 2);
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  const int error = address.host.empty() ? EAI_NONAME : getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) refuse_address(text, fmt::format("'{}' is no address of a host", address.host));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found, &freeaddrinfo);
  for (const addrinfo* one = found; one != nullptr && !is_public; one = one->ai_next)
    if (!is_loopback(*one->ai_addr))
      refuse_address(text, fmt::format("'{}' can be reached from other computers, and there are no passwords; add "
                                       "--public, or use 127.0.0.1",
                                       address.host));
  return address;
}

std::string ListenAddress::text() const {
  return fmt::format(host.find(':') == std::string::npos ? "{}:{}" : "[{}]:{}", host, port);
}

}  // namespace railyard::serve
