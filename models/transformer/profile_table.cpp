#include "transformer/profile_table.h"

namespace railyard::transformer {

void ProfileUse::note(const std::string& what, double asked, double first, double last) {
  Outside& o = outside[what];
  o.least = o.times == 0 ? asked : std::min(o.least, asked);
  o.most = o.times == 0 ? asked : std::max(o.most, asked);
  o.first = first;
  o.last = last;
  ++o.times;
}

}  // namespace railyard::transformer
