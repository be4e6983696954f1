// Mutated files for the scenario loader, which loads any bytes or throws an InputError of one line.
#pragma once

#include <random>

#include "tests/scenario/scenario_support.h"

namespace railyard::test {

/// A few seeded edits: bytes changed, inserted, removed, and spans copied from elsewhere in the text.
inline std::string mutated(std::string text, std::mt19937& random) {
  static const std::string kTelling = "{}[]:,-?*&!|>'\"%@#~ \n\t0123456789.e+\\";
  const auto below = [&](std::size_t n) { return n == 0 ? 0 : random() % n; };
  for (std::size_t edit = 1 + below(4); edit > 0; --edit) {
    const std::size_t at = below(text.size() + 1);
    switch (below(5)) {
      case 0: text.insert(at, 1, kTelling[below(kTelling.size())]); break;
      case 1:
        if (at < text.size()) text[at] = static_cast<char>(below(256));
        break;
      case 2: text.erase(at, below(12)); break;
      case 3: text.insert(at, text.substr(below(text.size() + 1), below(40))); break;
      default:
        if (at < text.size()) text[at] = kTelling[below(kTelling.size())];
        break;
    }
  }
  return text;
}

struct Tally {
  std::size_t loaded = 0, refused = 0;

  template <class Load>
  void run(const Load& load) {
    try {
      load();
      ++loaded;
    } catch (const InputError& error) {  // anything else fails the test
      ++refused;
      const std::string what = error.what();
      BOOST_TEST(what == printable(what));
      BOOST_TEST(what.find(": error: ") != std::string::npos, what);
    }
  }
};

}  // namespace railyard::test
