#include "sc_main/scenario/kinds/host.h"

#include "sc_main/scenario/table/node.h"

namespace railyard::scenario {

Record<workload::Host> host_record() {
  Record<workload::Host> r;
  add_host_times(r);
  r.add("eager_layer_us", &workload::Host::eager_layer_us,
        "time to launch a dense layer, of nine kernels, one by one; other layers in proportion: cudagraph.mode none, "
        "and "
        "batches outside of graphs with decode")
      .range(0, kLongestHostUs);
  r.fallback_all("from the engine's sheet");
  return r;
}

workload::Host resolve_host(const HostSheet& sheet, Cpu cpu, const Source& source, bool streams) {
  const NodePtr written = value_at(source.root, "workload.host");
  if (written && written->kind == Node::Kind::scalar) {
    workload::Host none;
    none.name = "none";
    return none;
  }
  workload::Host host = sheet.on(cpu, streams);
  if (written) host_record().read(host, *written, "workload.host");
  return host;
}

}  // namespace railyard::scenario
