#include "sc_main/scenario/table/words.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/printable.h"

namespace railyard::scenario {

namespace {

constexpr std::size_t kLongestQuote = 60;

struct Unit {
  const char* suffix;
  const char* name;      ///< "" for spellings that no key of this project uses
  const char* quantity;  ///< keys with the same stem and quantity differ only by unit
};

// A unit that ends in another unit comes first. Units without a name are common spellings of users.
constexpr std::array<Unit, 40> kUnits{{
    {"gb_per_sec", "", "rate"},
    {"gbytes_per_s", "", "rate"},
    {"gbit_per_s", "", "rate"},
    {"gbits_per_s", "", "rate"},
    {"gb_per_s", "GB/s (1e9 bytes per second, one direction)", "rate"},
    {"gib_per_s", "", "rate"},
    {"tb_per_s", "", "rate"},
    {"mb_per_s", "", "rate"},
    {"bytes_per_s", "", "rate"},
    {"rate_per_s", "requests per second", "rate"},
    {"bandwidth_gbps", "", "rate"},
    {"bandwidth", "", "rate"},
    {"gbps", "", "rate"},
    {"gb_s", "", "rate"},
    {"gbs", "", "rate"},
    {"tbps", "", "rate"},
    {"_token_s", "", "tokens"},
    {"_tokens", "tokens", "tokens"},
    {"_token", "", "tokens"},
    {"_toks", "", "tokens"},
    {"_ratio", "a ratio", "ratio"},
    {"_percent", "", "ratio"},
    {"_pct", "", "ratio"},
    {"_fraction", "", "ratio"},
    {"_bytes", "bytes", "size"},
    {"_byte", "", "size"},
    {"_kib", "KiB", "size"},
    {"_mib", "MiB", "size"},
    {"_gib", "", "size"},
    {"_kb", "", "size"},
    {"_mb", "MB", "size"},
    {"_gb", "GB (1e9 bytes)", "size"},
    {"_mhz", "MHz", "frequency"},
    {"_ghz", "", "frequency"},
    {"_ns", "nanoseconds", "time"},
    {"_us", "microseconds", "time"},
    {"_ms", "", "time"},
    {"_ps", "", "time"},
    {"_sec", "", "time"},
    {"_s", "seconds", "time"},
}};

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

const Unit* unit_at_end(const std::string& key) {
  for (const Unit& unit : kUnits) {
    if (ends_with(key, unit.suffix)) return &unit;
  }
  return nullptr;
}

std::string stem(const std::string& key, const Unit& unit) {
  std::string rest = key.substr(0, key.size() - std::string(unit.suffix).size());
  if (!rest.empty() && rest.back() == '_') rest.pop_back();
  return rest;
}

/// Optimal string alignment distance.
std::size_t edits(const std::string& a, const std::string& b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), now(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) now[j] = std::min(now[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(now);
  }
  return last[b.size()];
}

std::string lower(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

}  // namespace

std::string in_quotes(const std::string& text) { return "'" + printable(text, kLongestQuote) + "'"; }

std::string joined(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, ", ")); }

std::string nearest(const std::string& word, const std::vector<std::string>& candidates) {
  constexpr std::size_t kLongestWord = 64;
  if (word.empty() || word.size() > kLongestWord) return "";
  std::string best;
  std::size_t best_edits = 0;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edits(lower(word), lower(candidate));
    const std::size_t allowed = std::max<std::size_t>(1, (candidate.size() + 1) / 3);
    if (distance <= allowed && (best.empty() || distance < best_edits)) {
      best = candidate;
      best_edits = distance;
    }
  }
  return best;
}

std::string suggestion(const std::string& word, const std::vector<std::string>& candidates) {
  const std::string near = nearest(word, candidates);
  if (!near.empty()) return " (did you mean '" + near + "'?)";
  return candidates.empty() ? "" : "; accepted: " + joined(candidates);
}

std::string same_quantity(const std::string& key, const std::vector<std::string>& candidates) {
  const Unit* unit = unit_at_end(key);
  for (const std::string& candidate : candidates) {
    const Unit* accepted = unit_at_end(candidate);
    if (!accepted || candidate == key) continue;
    // A stem without a unit ("latency") is the same quantity.
    if (!unit && !stem(candidate, *accepted).empty() && stem(candidate, *accepted) == key) return candidate;
    if (unit && std::string(unit->quantity) == accepted->quantity && stem(key, *unit) == stem(candidate, *accepted)) {
      return candidate;
    }
  }
  return "";
}

std::string unit_of_key(const std::string& key) {
  const Unit* unit = unit_at_end(key);
  return unit ? unit->name : "";
}

}  // namespace railyard::scenario
