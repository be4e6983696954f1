#include "sc_main/jobs_csv.h"

namespace railyard {

std::string exact_seconds(Time t) {
  constexpr std::uint64_t kSecond = 1'000'000'000'000'000ull;
  return fmt::format("{}.{:015}", t.fs() / kSecond, t.fs() % kSecond);
}

void JobsCsv::open(const std::string& path, JobsLevel level) {
  level_ = level;
  if (level == JobsLevel::none) return;
  out_ = std::make_unique<OutputFile>(path);
  out_->print("name,kind,rank,start_s,end_s,queued_s,bytes\n");
  rows_.emplace(*out_);
}

bool JobsCsv::takes(execution::Recorded recorded) const {
  return next_ != nullptr || (out_ && !(level_ == JobsLevel::stage && recorded == execution::Recorded::detail));
}

void JobsCsv::on_job(const execution::JobRecord& r) {
  if (next_ != nullptr) next_->on_job(r);
  if (!out_ || (level_ == JobsLevel::stage && r.label.recorded() == execution::Recorded::detail)) return;
  rows_->add(r.end, r.rank,
             fmt::format("{},{},{},{},{},{},{}\n", r.name(), r.kind(), r.rank, exact_seconds(r.start),
                         exact_seconds(r.end), exact_seconds(r.queued), r.bytes));
}

void JobsCsv::close() {
  rows_.reset();
  out_.reset();
}

}  // namespace railyard
