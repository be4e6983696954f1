// Wording of refusals: quoting what the user wrote, and guessing what was meant.
#pragma once

#include <string>
#include <vector>

namespace railyard::scenario {

/// What a user wrote, as 'text' on one line, not too long.
std::string in_quotes(const std::string& text);

/// "a, b, c"
std::string joined(const std::vector<std::string>& words);

/// The candidate within a third of its length in edits (insert, delete, replace, swap neighbours), or "".
std::string nearest(const std::string& word, const std::vector<std::string>& candidates);

/// " (did you mean 'x'?)", or "; accepted: a, b, c" when nothing is near.
std::string suggestion(const std::string& word, const std::vector<std::string>& candidates);

/// A candidate that names the same quantity in another unit: "latency_us" finds "latency_ns", "gbps" finds "gb_per_s";
/// or "".
std::string same_quantity(const std::string& key, const std::vector<std::string>& candidates);

/// The unit that a key ends in, spelled out ("nanoseconds"), or "".
std::string unit_of_key(const std::string& key);

}  // namespace railyard::scenario
