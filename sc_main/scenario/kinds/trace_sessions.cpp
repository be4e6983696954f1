#include "sc_main/scenario/kinds/trace_sessions.h"

#include <algorithm>

#include "sc_main/scenario/table/words.h"

namespace railyard::scenario {

namespace {

const auto belongs = [](const auto& link) { return link.session > 0; };

}  // namespace

void TraceSessions::add(const TraceLink& link, const TraceRow& row, const TraceRows& reader) {
  const std::uint32_t number = rows_++;
  if (link.is_none() && links_.empty()) return;
  links_.resize(rows_);
  Link& own = links_.back();
  own.line = reader.place().line;
  own.delay_ns = link.delay_ns;
  if (link.session) {
    const auto [session, is_new] =
        sessions_.try_emplace(*link.session, static_cast<std::uint32_t>(sessions_.size()) + 1, number);
    own.session = session->second.first;
    if (!is_new) own.history = std::exchange(session->second.second, number);
  }
  if (link.follows == TraceLink::Follows::row) own.awaits.push_back(number - 1);
  if (link.follows == TraceLink::Follows::session && own.history != kNone) own.awaits.push_back(own.history);
  if (link.name) {
    const auto [same, is_new] = row_of_name_.try_emplace(*link.name, number);
    if (!is_new)
      throw reader.lines.error(std::string(reader.link_keys().name) + ": " + in_quotes(*link.name) +
                               " is that of line " + std::to_string(links_[same->second].line) + ", too");
  }
  if (!link.after.empty()) named_.emplace_back(number, link.after);
  if (row.arrival_ns == TraceRow::kNoArrival && own.awaits.empty() && link.after.empty())
    throw reader.lines.error("timestamp: is required on a line that waits for no other");
}

void TraceSessions::resolve_names(const TraceRows::LinkKeys& keys) {
  for (const auto& [row, names] : named_) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto found = row_of_name_.find(names[i]);
      if (found == row_of_name_.end()) {
        std::vector<std::string> all;
        for (const auto& [name, other] : row_of_name_) all.push_back(name);
        throw InputError(at(row), std::string(keys.after) + ": no line that is read has the " + keys.name + " " +
                                      in_quotes(names[i]) + suggestion(names[i], all));
      }
      links_[row].awaits.push_back(found->second);
    }
    if (links_[row].session == 0 && links_[row].history == kNone) links_[row].history = links_[row].awaits.front();
  }
}

std::vector<std::uint32_t> TraceSessions::order(const TraceRows::LinkKeys& keys) const {
  std::vector<std::uint32_t> order, missing(links_.size());
  for (std::uint32_t row = 0; row < links_.size(); ++row) {
    missing[row] = awaited(row);
    if (missing[row] == 0) order.push_back(row);
  }
  for (std::size_t i = 0; i < order.size(); ++i)
    for (const std::uint32_t follower : followers(order[i]))
      if (--missing[follower] == 0) order.push_back(follower);
  if (order.size() == links_.size()) return order;
  // Along rows that are missing: the first one that comes again is in a circle.
  const auto is_missing = [&](std::uint32_t row) { return missing[row] > 0; };
  std::vector<bool> seen(links_.size());
  auto row = static_cast<std::uint32_t>(
      std::find_if(missing.begin(), missing.end(), [](std::uint32_t n) { return n > 0; }) - missing.begin());
  while (!seen[row]) {
    seen[row] = true;
    row = *std::find_if(links_[row].awaits.begin(), links_[row].awaits.end(), is_missing);
  }
  const std::uint32_t next = *std::find_if(links_[row].awaits.begin(), links_[row].awaits.end(), is_missing);
  throw InputError(at(row), std::string(keys.after) + ": the line waits for itself" +
                                (next == row ? "" : ", by way of line " + std::to_string(links_[next].line)));
}

void TraceSessions::close(std::vector<TraceRow*> rows, TraceRows::LinkKeys keys) {
  if (empty()) return;
  resolve_names(keys);
  for (std::uint32_t row = 0; row < links_.size(); ++row)
    for (const std::uint32_t awaited : links_[row].awaits) links_[awaited].followers.push_back(row);
  auto sessions = static_cast<std::uint32_t>(sessions_.size());
  for (const std::uint32_t row : order(keys)) {
    Link& link = links_[row];
    const bool is_alone = link.awaits.empty() && link.followers.empty();
    if (link.session == 0 && !is_alone)
      link.session = link.history == kNone ? ++sessions : links_[link.history].session;
    for (const std::uint32_t awaited : link.awaits)
      rows[row]->arrival_ns = std::max(rows[row]->arrival_ns, rows[awaited]->arrival_ns);
  }
  row_of_name_.clear();
  sessions_.clear();
  named_.clear();
  if (std::none_of(links_.begin(), links_.end(), belongs)) links_.clear();
}

Origin TraceSessions::place() const { return {file_, std::find_if(links_.begin(), links_.end(), belongs)->line, 1}; }

void TraceSessions::renumber(const std::vector<std::uint32_t>& now) {
  if (empty()) return;
  std::vector<Link> links(links_.size());
  const auto renumber_all = [&](std::vector<std::uint32_t>& rows) {
    for (std::uint32_t& row : rows) row = now[row];
    std::sort(rows.begin(), rows.end());
  };
  for (std::uint32_t row = 0; row < links_.size(); ++row) {
    Link& link = links[now[row]] = std::move(links_[row]);
    if (link.history != kNone) link.history = now[link.history];
    renumber_all(link.awaits);
    renumber_all(link.followers);
  }
  links_ = std::move(links);
}

}  // namespace railyard::scenario
