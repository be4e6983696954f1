#include "sc_main/option_errors.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/printable.h"
#include "sc_main/scenario/table/words.h"

namespace railyard {

namespace {

constexpr std::size_t kLongestLine = 1000;

/// Of the words that no option and no position takes, the first option; if there is none, the first word.
std::string unexpected_text(const CLI::App& app) {
  const std::vector<std::string> words = app.remaining();
  const auto option =
      std::find_if(words.begin(), words.end(), [](const std::string& w) { return w.rfind('-', 0) == 0; });
  if (option == words.end()) return scenario::in_quotes(words.front()) + " is one word too many";
  const std::string name = option->substr(0, option->find('='));
  std::vector<std::string> names;
  for (const CLI::Option* known : app.get_options())
    for (const std::string& word : known->get_lnames()) names.push_back("--" + word);
  const std::string near = scenario::nearest(name, names);
  return fmt::format("{}: no such option{}", name, near.empty() ? "" : " (did you mean '" + near + "'?)");
}

}  // namespace

std::string command_line_error(const std::string& program, const CLI::App& app, const CLI::ParseError& error) {
  const bool is_unexpected = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !app.remaining().empty();
  return fmt::format("{}: error: {} (--help lists the options)", program,
                     printable(is_unexpected ? unexpected_text(app) : error.what(), kLongestLine));
}

}  // namespace railyard
