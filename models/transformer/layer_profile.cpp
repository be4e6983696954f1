#include "transformer/layer_profile.h"

#include <algorithm>
#include <iterator>

#include "transformer/layer_kernels.h"

namespace railyard::transformer {

namespace {

/// The line through two points. @pre their x differ
double line(double x, double x0, double y0, double x1, double y1) { return y0 + (y1 - y0) * (x - x0) / (x1 - x0); }

}  // namespace

void ProfileUse::note(const std::string& what, double asked, double first, double last) {
  Outside& o = outside[what];
  o.least = o.times == 0 ? asked : std::min(o.least, asked);
  o.most = o.times == 0 ? asked : std::max(o.most, asked);
  o.first = first;
  o.last = last;
  ++o.times;
}

double ProfileCurve::at(double x, const std::string& what, ProfileUse& use) const {
  const auto above = points_.lower_bound(x);
  if (above != points_.end() && above->first == x) return above->second;
  const auto last = std::prev(points_.end());
  if (above == points_.begin() || above == points_.end()) use.note(what, x, points_.begin()->first, last->first);
  if (above == points_.begin()) return above->second;
  if (above != points_.end()) {
    const auto below = std::prev(above);
    return line(x, below->first, below->second, above->first, above->second);
  }
  if (points_.size() == 1) return last->second;
  const auto before = std::prev(last);
  return std::max(last->second, line(x, before->first, before->second, last->first, last->second));
}

double ProfileSurface::at(double x, double y, const std::string& what_x, const std::string& what_y,
                          ProfileUse& use) const {
  const auto above = curves_.lower_bound(x);
  if (above != curves_.end() && above->first == x) return above->second.at(y, what_y, use);
  // Two curves, on both sides of x or the last two, are read at y. These two points give a line over x.
  ProfileCurve across;
  const auto second = above == curves_.end() ? std::prev(curves_.end()) : above;
  const auto first = second == curves_.begin() ? second : std::prev(second);
  for (const auto& curve : {first, second}) across.add(curve->first, curve->second.at(y, what_y, use));
  ProfileUse edges;
  const double seconds = across.at(x, what_x, edges);
  if (!edges.outside.empty()) use.note(what_x, x, curves_.begin()->first, std::prev(curves_.end())->first);
  return seconds;
}

double LayerProfile::prefill_seconds(const std::vector<gpu::AttentionSequence>& sequences, ProfileUse& use) const {
  double seconds = 0;
  for (const gpu::AttentionSequence& s : sequences)
    seconds += prefill.at(static_cast<double>(s.tokens), static_cast<double>(s.kv_start), "attention prefill tokens",
                          "attention prefill context", use);
  return seconds;
}

double LayerProfile::decode_seconds(const std::vector<gpu::AttentionSequence>& sequences, ProfileUse& use) const {
  double context = 0;
  for (const gpu::AttentionSequence& s : sequences) context += static_cast<double>(s.kv_start);
  const auto count = static_cast<double>(sequences.size());
  return decode.at(count, context / count, "attention decode sequences", "attention decode context", use);
}

}  // namespace railyard::transformer
