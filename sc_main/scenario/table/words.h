// Wording of errors: quotes of user text, and suggestions.
#pragma once

#include <string>
#include <vector>

namespace railyard::scenario {

/// User text as 'text' on one line, shortened if necessary.
std::string in_quotes(const std::string& text);

/// "a, b, c"
std::string joined(const std::vector<std::string>& words);

/// The candidate with the fewest edits (insert, delete, replace, swap), at most a third of its length, or "".
std::string nearest(const std::string& word, const std::vector<std::string>& candidates);

/// " (did you mean 'x'?)", or "; accepted: a, b, c" if no candidate is near.
std::string suggestion(const std::string& word, const std::vector<std::string>& candidates);

/// A candidate that names the same quantity in another unit: "latency_us" finds "latency_ns", "gbps" finds "gb_per_s";
/// or "".
std::string same_quantity(const std::string& key, const std::vector<std::string>& candidates);

/// The unit at the end of a key, spelled out ("nanoseconds"), or "".
std::string unit_of_key(const std::string& key);

}  // namespace railyard::scenario
