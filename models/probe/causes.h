// Chains of causes. Each link of a chain is a piece of time with a reference to the piece before. References are
// counted: a chain that nothing refers to is freed, piece by piece.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "transport/study/cost.h"

namespace railyard::probe {

struct Cause;

/// Holds a chain by its last piece.
class CauseRef {
 public:
  CauseRef() = default;
  explicit CauseRef(Cause* cause);
  CauseRef(const CauseRef& other);
  CauseRef(CauseRef&& other) noexcept : cause_(std::exchange(other.cause_, nullptr)) {}
  CauseRef& operator=(CauseRef other) noexcept {
    std::swap(cause_, other.cause_);
    return *this;
  }
  ~CauseRef() { drop(cause_); }
  const Cause* get() const { return cause_; }
  const Cause* operator->() const { return cause_; }
  explicit operator bool() const { return cause_ != nullptr; }

 private:
  static void drop(Cause* cause);
  Cause* cause_ = nullptr;
};

struct Cause {
  CauseRef before;  ///< the previous piece; it ends where this piece begins
  Time from, to;
  std::vector<transport::Cost> costs;  ///< sum to the time from `from` to `to`
  std::string name;                    ///< name of the job
  bool is_collective = false;          ///< of a member of a collective, as a whole
  std::uint32_t member = 0;            ///< inside a collective: the member with whose entry the chain begins
  std::uint32_t holders = 0;
};

/// A chain that follows `last` back to the instant `at`, and there goes over to another one, which ends at that instant.
CauseRef spliced(const CauseRef& last, Time at, const CauseRef& other);

/// The pieces of a chain that end after `from`, in order of time.
inline std::vector<const Cause*> chain(const CauseRef& last, Time from) {
  std::vector<const Cause*> pieces;
  for (const Cause* cause = last.get(); cause != nullptr && cause->to > from; cause = cause->before.get())
    pieces.push_back(cause);
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

inline CauseRef::CauseRef(Cause* cause) : cause_(cause) {
  if (cause_ != nullptr) ++cause_->holders;
}
inline CauseRef::CauseRef(const CauseRef& other) : CauseRef(other.cause_) {}

inline void CauseRef::drop(Cause* cause) {
  while (cause != nullptr && --cause->holders == 0) {  // a loop instead of recursion, because chains are long
    Cause* const before = std::exchange(cause->before.cause_, nullptr);
    delete cause;
    cause = before;
  }
}

}  // namespace railyard::probe
