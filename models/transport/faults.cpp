#include "transport/faults.h"

#include <algorithm>
#include <cmath>

namespace railyard::transport {

void Faults::derate(Time when, const LinkEnd& link, double ratio) {
  const double rate = static_cast<double>(link.state().egress.link().rate.bytes_per_second()) * ratio;
  add(when,
      {{link}, Rate::bytes_per_second(std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::llround(rate))))});
}

void Faults::fail(Time when, const std::vector<LinkEnd>& links) {
  context_.losses = &losses_;
  add(when, {links, Rate()});
}

void Faults::add(Time when, Change change) {
  changes_.push_back(std::move(change));
  context_.calendar.at(when, *this, 0, changes_.size() - 1);
  ++pending_;
}

void Faults::on_event(std::uint32_t, std::uint64_t number) {
  --pending_;
  const Change& change = changes_[number];
  if (change.rate == Rate()) {
    lose(change.links);
    return;
  }
  for (const LinkEnd& link : change.links) link.device->set_rate(link.port, change.rate);
  observer_.on_links_changed();
}

void Faults::lose(const std::vector<LinkEnd>& links) {
  std::vector<LinkEnd> newly;
  std::copy_if(links.begin(), links.end(), std::back_inserter(newly),
               [](const LinkEnd& link) { return !link.state().egress.failed(); });
  for (const LinkEnd& link : newly) {
    link.device->fail(link.port);
    lost_.push_back({context_.calendar.now(), link});
  }
  observer_.on_links_changed();
  for (const LinkEnd& link : newly) link.device->take_back(link.port);
}

}  // namespace railyard::transport
