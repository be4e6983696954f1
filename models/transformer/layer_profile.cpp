#include "transformer/layer_profile.h"

#include <algorithm>

namespace railyard::transformer {

namespace {

const ProfileTable<2>::Names kPrefillNames{"attention prefill tokens", "attention prefill context"};
const ProfileTable<2>::Names kDecodeNames{"attention decode sequences", "attention decode context"};
const ProfileTable<4>::Names kMixedNames{"mixed attention prefill tokens", "mixed attention prefill context",
                                         "mixed attention decode sequences", "mixed attention decode context"};

}  // namespace

double LayerProfile::attention_seconds(const Sequences& prefills, const Sequences& decodes, ProfileUse& use) const {
  double tokens = 0, before = 0;
  for (const gpu::AttentionSequence& s : prefills) {
    tokens += static_cast<double>(s.tokens);
    before += static_cast<double>(s.kv_start);
  }
  if (decodes.empty()) return prefill.at({tokens, before}, kPrefillNames, use);

  const auto count = static_cast<double>(decodes.size());
  double context = 0, shortest = static_cast<double>(decodes.front().kv_start), longest = shortest;
  for (const gpu::AttentionSequence& s : decodes) {
    const auto own = static_cast<double>(s.kv_start);
    context += own;
    shortest = std::min(shortest, own);
    longest = std::max(longest, own);
  }
  const auto with_context = [&](double keys) {
    return prefills.empty() ? decode.at({count, keys}, kDecodeNames, use)
                            : mixed.at({tokens, before, count, keys}, kMixedNames, use);
  };
  const double mean = context / count, seconds = with_context(mean);
  if (longest == shortest) return seconds;
  const double alpha = skew.alpha({tokens, count, (mean - shortest) / (longest - shortest), longest, before});
  return alpha > 0 ? std::max(seconds, seconds + alpha * (with_context(longest) - seconds)) : seconds;
}

}  // namespace railyard::transformer
