#include "transport/horizon.h"

#include <fmt/format.h>

namespace railyard::transport {

void Horizon::begins(Time now) {
  if (now < promised_)
    throw BrokenHorizon(
        fmt::format("{} sends at {:.9f} s, and has said that it would not before {:.9f} s ({} fs later)", sender_,
                    now.seconds(), promised_.seconds(), (promised_ - now).fs()));
  ++sends_;
}

}  // namespace railyard::transport
