// Rows of traces in JSON lines, and what they share with those in CSV.
#pragma once

#include <memory>
#include <string>

#include "sc_main/scenario/kinds/trace_rows.h"
#include "sc_main/scenario/table/record.h"
#include "sc_main/scenario/table/words.h"

namespace railyard::scenario {

constexpr std::int64_t kNsPerSecond = 1'000'000'000;

/// @param refuse  makes an error of a text
template <class Refuse>
std::uint32_t tokens(const std::string& column, const std::string& text, const Refuse& refuse) {
  const bool is_number =
      !text.empty() && text.size() <= 12 && text.find_first_not_of("0123456789") == std::string::npos;
  const double value = is_number ? std::stod(text) : 0;
  if (!is_number) throw refuse(column + ": expected an integer, got " + in_quotes(text));
  if (value < 1 || value > kMostTokens)
    throw refuse(column + ": " + in_quotes(text) + " is out of range; accepted: 1 to " + number_text(kMostTokens));
  return static_cast<std::uint32_t>(value);
}

std::unique_ptr<TraceRows> mooncake_rows(const std::string& path, const Origin& where);
std::unique_ptr<TraceRows> bailian_rows(const std::string& path, const Origin& where);
std::unique_ptr<TraceRows> llmservingsim_rows(const std::string& path, const Origin& where);

}  // namespace railyard::scenario
