// A group in parts: its members run the programs of their parts, with the members' numbers in the whole group.
#include <stdexcept>

#include "collective/program.h"

namespace railyard::collective {

namespace {

class InParts final : public Program {
 public:
  explicit InParts(std::vector<std::unique_ptr<Program>> parts, std::uint32_t members)
      : Program(parts.front()->threads(), parts.front()->lanes()), parts_(std::move(parts)), members_(members) {}

  std::uint32_t channels(std::uint32_t thread) const override { return parts_.front()->channels(thread); }
  std::uint32_t actions(std::uint32_t member, std::uint32_t thread) const override {
    return parts_[member / members_]->actions(member % members_, thread);
  }
  void describe(std::uint32_t member, std::uint32_t thread, std::uint32_t index, Action& action) const override {
    const std::uint32_t part = member / members_;
    parts_[part]->describe(member % members_, thread, index, action);
    for (Transfer& transfer : action.transfers) transfer.to += part * members_;
  }

 private:
  std::vector<std::unique_ptr<Program>> parts_;
  std::uint32_t members_;  ///< of a part
};

}  // namespace

std::unique_ptr<Program> make_in_parts(const CollectiveSpec& spec, const Group& group) {
  std::vector<std::unique_ptr<Program>> parts;
  for (const Group& part : group.parts) {
    if (unsupported(spec, part) != nullptr) throw std::logic_error("the parts of a group are not placed alike");
    parts.push_back(make_program(spec, part));
    if (parts.back()->threads() != parts.front()->threads() || parts.back()->lanes() != parts.front()->lanes())
      throw std::logic_error("the parts of a group run different programs");
  }
  return std::make_unique<InParts>(std::move(parts), group.parts.front().size());
}

}  // namespace railyard::collective
