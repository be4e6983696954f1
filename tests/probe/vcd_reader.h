// A small VCD reader for tests, written from the format and not from the writer: it refuses whatever is not whole.
#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace railyard::test {

/// Signal name -> its (time, value text) changes in file order, the initial dump included.
struct VcdFile {
  std::string timescale;
  std::map<std::string, std::vector<std::pair<std::uint64_t, std::string>>> signals;
  std::vector<std::uint64_t> stamps;

  const std::vector<std::pair<std::uint64_t, std::string>>& at(const std::string& name) const {
    return signals.at(name);
  }
};

inline std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("no file " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline VcdFile parse_vcd(const std::string& text) {
  if (!text.empty() && text.back() != '\n') throw std::runtime_error("the last line is cut off");
  VcdFile vcd;
  std::map<std::string, std::string> names;  // code -> full name
  std::vector<std::string> scopes;
  bool in_header = true;
  bool in_dump = false;
  std::istringstream lines(text);
  std::size_t number = 0;
  const auto refuse = [&](const std::string& why) {
    throw std::runtime_error("line " + std::to_string(number) + ": " + why);
  };
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream in(line);
    std::vector<std::string> words;
    for (std::string word; in >> word;) words.push_back(word);
    if (words.empty()) continue;  // fills a page
    if (in_header) {
      if (words.back() != "$end") refuse("header line without $end");
      if (words[0] == "$timescale") {
        vcd.timescale = words.at(1) + words.at(2);
      } else if (words[0] == "$scope") {
        scopes.push_back(words.at(2));
      } else if (words[0] == "$upscope") {
        if (scopes.empty()) refuse("$upscope without a scope");
        scopes.pop_back();
      } else if (words[0] == "$var") {
        std::string full;
        for (const std::string& scope : scopes) full += scope + ".";
        full += words.at(4) + (words.size() == 7 ? words[5] : "");
        if (!names.emplace(words.at(3), full).second) refuse("code used twice");
        vcd.signals[full];
      } else if (words[0] == "$enddefinitions") {
        if (!scopes.empty()) refuse("a scope is left open");
        in_header = false;
      }
    } else if (words[0] == "$dumpvars") {
      in_dump = true;
    } else if (words[0] == "$end") {
      if (!in_dump) refuse("$end of nothing");
      in_dump = false;
    } else if (words[0][0] == '#') {
      const std::uint64_t time = std::stoull(words[0].substr(1));
      if (!vcd.stamps.empty() && time <= vcd.stamps.back()) refuse("time does not increase");
      vcd.stamps.push_back(time);
    } else {
      if (vcd.stamps.empty()) refuse("a value before any time");
      const char type = words[0][0];
      const bool scalar = type == '0' || type == '1';
      if (!scalar && (std::string("brs").find(type) == std::string::npos || words.size() != 2)) refuse("not a value");
      if (scalar && words.size() != 1) refuse("not a value");
      const auto name = names.find(scalar ? words[0].substr(1) : words[1]);
      if (name == names.end()) refuse("unknown code");
      vcd.signals[name->second].emplace_back(vcd.stamps.back(), scalar ? words[0].substr(0, 1) : words[0].substr(1));
    }
  }
  if (in_header) throw std::runtime_error("the header is not whole");
  if (in_dump) throw std::runtime_error("the initial dump is not whole");
  return vcd;
}

}  // namespace railyard::test
