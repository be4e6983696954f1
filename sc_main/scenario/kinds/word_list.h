// A list of different words: modules of a layer, matrices with adapters.
#pragma once

#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "sc_main/scenario/table/record.h"
#include "sc_main/scenario/table/words.h"

namespace railyard::scenario {

nlohmann::json word_list_schema(const std::vector<std::string>& words);
/// Places of the listed words. @throws InputError: no list, an empty one, an unknown word, the same word twice
std::vector<std::size_t> read_word_list(const std::vector<std::string>& words, const Node& node,
                                        const std::string& path);

/// Which of the words are listed.
template <std::size_t kWords>
std::array<bool, kWords> read_word_set(const std::array<const char*, kWords>& words, const Node& node,
                                       const std::string& path) {
  std::array<bool, kWords> set{};
  for (const std::size_t word : read_word_list(words_of(words), node, path)) set[word] = true;
  return set;
}

}  // namespace railyard::scenario
