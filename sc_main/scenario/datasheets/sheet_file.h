// A datasheet's file as a tree: a shipped one or a user's, with all that it takes from the sheets that it names.
#pragma once

#include <algorithm>
#include <memory>
#include <string>

#include "sc_main/scenario/datasheets/datasheets.h"
#include "sc_main/scenario/table/record.h"

namespace railyard::scenario {

struct Sheet {
  std::string file;
  NodePtr root;
};

/// @param folder  of platforms/datasheets ("gpus")  @throws InputError: no such sheet, with the shipped ones and the nearest
Sheet open_sheet(const std::string& folder, const DatasheetName& which);

/// The same, with all that it takes from its `base`, and this from its own. `source` is its own.
Sheet open_with_base(const std::string& folder, const DatasheetName& which);

/// A datasheet with the constants of its `family`, by the family rule (docs/calibration.md).
/// @param fields  those of a GPU, of which some are inherited
Sheet open_gpu(const DatasheetName& which, const Fields& fields);

/// The sheet of a GPU's kernels: the one that its datasheet names, or that of its architecture.
/// @param whole  open_gpu()  @param gpu  what it says
Sheet open_kernels(const DatasheetName& which, const Sheet& whole, const gpu::GpuDatasheet& gpu);

/// Of a sheet that this one names: a shipped name, or a path from the folder of this sheet.
DatasheetName named_in(const Sheet& sheet, const Entry& entry);

/// @throws InputError at the name, once a chain of sheets is too long to be meant
void check_chain(const DatasheetName& which, const char* key, std::uint32_t followers);

/// Removes `source:`, which every datasheet must have, and reads the rest. @return the source
template <class T>
std::string read_sheet(const Sheet& sheet, const Record<T>& record, T& into) {
  if (sheet.root->kind != Node::Kind::mapping) {
    throw InputError(sheet.root->origin, "expected a mapping, got " + sheet.root->described());
  }
  auto rest = std::make_shared<Node>(*sheet.root);
  const Entry* source = sheet.root->find("source");
  if (!source) throw InputError(sheet.root->origin, "source: is required; where the values come from");
  const std::string text = read_text({}, *source->value, "source");
  rest->entries.erase(
      std::find_if(rest->entries.begin(), rest->entries.end(), [](const Entry& e) { return e.key == "source"; }));
  record.read(into, *rest, "");
  return text;
}

}  // namespace railyard::scenario
