#include "sc_main/scenario/parameters.h"

#include <nlohmann/json.hpp>

#include "sc_main/scenario/datasheets/datasheets.h"
#include "sc_main/scenario/datasheets/machine_records.h"
#include "sc_main/scenario/table/words.h"

namespace railyard::scenario {

namespace {

constexpr double kMostServers = 4096;
constexpr double kExactInteger = 9007199254740991;  // 2^53 - 1: every JSON reader holds it exactly

void read_places(ModuleItem& item, const Node& node, const std::string& path) {
  const auto refuse = [](const Node& wrong, const std::string& key, const char* accepted) {
    throw InputError(wrong.origin, key + ": expected " + accepted + ", got " + wrong.described());
  };
  if (node.kind == Node::Kind::scalar) {
    item.at.push_back({"", node.text, node.origin});
    return;
  }
  if (node.kind != Node::Kind::mapping) refuse(node, path, "a text, or a mapping of socket to text");
  for (const Entry& entry : node.entries) {
    if (entry.value->kind != Node::Kind::scalar) refuse(*entry.value, path + "." + entry.key, "a text");
    item.at.push_back({entry.key, entry.value->text, entry.value->origin});
  }
}

Record<ModuleItem> module_record() {
  Record<ModuleItem> r;
  r.add("library", &ModuleItem::library, "shared library with the module; its code runs in the simulator")
      .is_path()
      .required();
  r.custom(
       "at",
       "where it is connected: name of a PCIe switch in --describe, or of a root complex if the board has no PCIe "
       "switches; or such a name for each of its sockets",
       "text, or mapping of socket to text",
       [] {
         return nlohmann::json{
             {"anyOf", {{{"type", "string"}}, {{"type", "object"}, {"additionalProperties", {{"type", "string"}}}}}}};
       },
       read_places)
      .required();
  r.add("name", &ModuleItem::name, "name of the module in outputs").fallback("module_a, module_b, ...");
  r.custom(
      "parameters", "parameters that the module states, with a number or a text each", "mapping of numbers and texts",
      [] {
        return nlohmann::json{{"type", "object"},
                              {"additionalProperties", {{"type", {"number", "string", "boolean"}}}}};
      },
      [](ModuleItem& item, const Node& node, const std::string& path) {
        if (node.kind != Node::Kind::mapping)
          throw InputError(node.origin, path + ": expected a mapping, got " + node.described());
        for (const Entry& entry : node.entries) {
          if (entry.value->kind != Node::Kind::scalar)
            throw InputError(entry.value->origin,
                             path + "." + entry.key + ": expected a number or a text, got " + entry.value->described());
          item.parameters.push_back({entry.key, entry.value->text, entry.value->origin});
        }
      });
  return r;
}

Record<MachineSection> machine_record() {
  using platforms::MachineSpec;
  const auto of_machine = [](auto member) { return within(&MachineSection::machine, member); };
  Record<GroupSection> group;
  group.add("servers", &GroupSection::servers, "number of servers in the group").range(1, kMostServers);
  group.add("gpu", &GroupSection::datasheet, "GPU datasheet: a shipped name or a .yaml file")
      .is_path(Field::Path::unless_name)
      .fallback("from the board's datasheet");

  Record<MachineSection> plx;
  plx.add("board", &MachineSection::board,
          "datasheet of a server's board: its sockets and PCIe switches, their root complexes, and the link between "
          "sockets")
      .is_path(Field::Path::unless_name)
      .fallback("that of plx_box");
  plx.add("datasheet", &MachineSection::plx, "PCIe switch datasheet")
      .is_path(Field::Path::unless_name)
      .fallback("from the board's datasheet");
  plx.add("switches", &MachineSection::plx_switches,
          "number of PCIe switches of a server, with the same number of GPUs each; 0: GPUs and NICs connect to the "
          "sockets")
      .range(0, 8)
      .fallback("from the board's datasheet");
  plx.choice("uplink", of_machine(&MachineSpec::uplink), {"dual_root", "single_root", "cascaded"},
             "how the PCIe switches of a server are connected. dual_root: spread over both sockets; single_root: "
             "all below one; cascaded: all others below the first")
      .cite("Supermicro 4029GP-TRT, TRT2, TRT3");
  plx.add("nics_per_plx", &MachineSection::nics_per_plx, "number of NICs at each PCIe switch")
      .range(1, 4)
      .fallback("from the board's datasheet");
  plx.add("acs", of_machine(&MachineSpec::acs), "access control services: peer traffic goes through the root complex");

  Record<MachineSection> nic;
  nic.add("datasheet", &MachineSection::nic, "NIC datasheet")
      .is_path(Field::Path::unless_name)
      .fallback("from the board's datasheet");
  nic.add("per_server", &MachineSection::nics_per_server,
          "number of NICs per server, spread evenly over its PCIe switches or trays")
      .range(1, kMostNics)
      .fallback("from the board's datasheet");

  Record<MachineSection> network;
  network
      .choice("kind", &MachineSection::network_kind, {"single_switch", "leaf_spine", "rail_optimized"},
              "one switch, or a two-level fat tree; rail_optimized is leaf_spine with rail_optimized: true")
      .fallback("single_switch if it has enough ports, else leaf_spine");
  network.add("datasheet", &MachineSection::network, "network switch datasheet")
      .is_path(Field::Path::unless_name)
      .fallback("from the NIC's datasheet");
  network
      .add("sharp", of_machine(&MachineSpec::sharp),
           "switches add for all-reduces between servers (SHARP); one switch or two tiers. NCCL then considers "
           "collnet_direct")
      .cite("NVIDIA SHARP; NCCL_COLLNET_ENABLE");
  network.add("rail_optimized", of_machine(&MachineSpec::rail_optimized), "leaf r joins NIC r of every server");
  network.choice("routing", of_machine(&MachineSpec::routing), {"deterministic", "ecmp", "adaptive"},
                 "choice among the equal paths up from a leaf. deterministic: one per destination; ecmp: one per queue "
                 "pair, by a hash; adaptive: for each transaction, the port that is free first");
  network
      .add("tiers", of_machine(&MachineSpec::tiers),
           "tiers of a fat tree. 2: leaves and spines; 3: pods of leaves and spines, joined by cores. Spine s of every "
           "pod "
           "reaches the same cores")
      .range(2, 3);
  network.add("spines", of_machine(&MachineSpec::spines), "number of spine switches, with three tiers in each pod")
      .range(1, 1024)
      .fallback("enough for a non-blocking tree");
  network.add("pod_leaves", of_machine(&MachineSpec::pod_leaves), "three tiers: leaves of a pod")
      .range(1, 1024)
      .fallback("half of a switch's ports");
  network
      .add("cores", of_machine(&MachineSpec::cores),
           "three tiers: cores that a spine reaches; fewer oversubscribe the pods")
      .range(1, 1024)
      .fallback("enough for a non-blocking tree");

  Record<MachineSection> r;
  r.named("groups", &MachineSection::groups, group, "groups of servers; the name of a group is its prefix in reports")
      .fallback("the groups of the workload, or one called node");
  r.add("allow_any_gpu", &MachineSection::allow_any_gpu,
        "for what-ifs: the form factor of a GPU need not be one that the board holds. Its links must still fit");
  r.choice("cpu", &MachineSection::cpu, words_of(kCpuNames), "generation of the servers' CPUs")
      .fallback("from the board's datasheet");
  r.choice("nvlink_bridge", &MachineSection::nvlink_bridge, {"none", "pairs"},
           "NVLink bridges between GPUs 2i and 2i + 1 of a server; only plx_box with GPUs whose datasheet has "
           "nvlink.bridge");
  r.group("plx", plx, "PCIe switches; all but their datasheet only on plx_box");
  r.group("nic", nic, "NICs");
  r.group("network", network, "network between servers");
  r.list("modules", &MachineSection::modules, module_record(),
         "SystemC modules of shared libraries of the user, as devices below PCIe switches");
  // Checked and applied once the datasheets are known.
  r.mapping("overrides", override_fields(), "overrides of datasheet values, by role", [](void*) {
     return std::vector<void*>{};
   }).partial();
  return r;
}

Record<transport::ClassSpec> class_record(const transport::ClassSpec& defaults) {
  using transport::ClassSpec;
  Record<ClassSpec> r(defaults);
  r.add("vc", &ClassSpec::virtual_channel, "virtual channel").range(0, transport::kClassVcs - 1);
  r.add("weight", &ClassSpec::weight,
        "weight of the virtual channel when virtual channels of the same priority share a link")
      .range(1, 1024);
  r.add("priority", &ClassSpec::priority, "priority of the virtual channel; higher goes first")
      .range(0, transport::kPriorities - 1);
  return r;
}

Record<FabricSpec> fabric_record() {
  Record<FabricSpec> classes;
  for (const TrafficClassFacts& c : kTrafficClasses) {
    const auto spec = [n = number(c.traffic_class)](auto& all) -> auto& { return all[n]; };
    classes.nested(c.name, within(&FabricSpec::classes, spec), class_record(c.defaults), c.text);
  }

  Record<FabricSpec> r;
  r.choice("fidelity", &FabricSpec::fidelity, {"train", "fluid", "auto"},
           "model of traffic. train: trains of packets; fluid: max-min rates; auto: chosen per set of links by cost, "
           "the default of serving and training");
  r.number_or("transaction_bytes", "auto", &FabricSpec::transaction_bytes,
              "payload per transaction; auto: 0.25 us on the slowest link, limited by its buffers")
      .range(64, 1 << 30);
  r.add("compose", &FabricSpec::compose,
        "passes of a serving engine are added up where nobody else uses their links and memories, instead of running "
        "job by "
        "job; results are the same");
  r.group("classes", classes, "virtual channel, weight and priority of each traffic class");
  return r;
}

Record<Scenario> simulation_record() {
  Record<Scenario> r;
  r.choice(
      "fold", &Scenario::fold, {"off", "auto", "require"},
      "parts that are alike run once: data-parallel replicas, servers of a collective. auto: where this is possible; "
      "require: or the run ends with the reason");
  return r;
}

Record<EventItem> event_record() {
  Record<EventItem> r;
  r.add("at_us", &EventItem::at_us, "time of the event from the start of the run")
      .range(0, kLongestRunSeconds * 1e6)
      .required();
  r.add("link", &EventItem::link, "name of a link in links.csv, or of one end of a link in --describe");
  r.add("gpu", &EventItem::gpu, "name of a GPU in --describe");
  r.choice("direction", &EventItem::side, {"tx", "rx", "both"},
           "direction of the link; tx: from the device after which the link is named")
      .fallback("both");
  r.add("rate_ratio", &EventItem::rate_ratio,
        "trains that start on the link after this time get this share of its original rate; 1 restores the rate")
      .above(0, 1);
  r.add("fail", &EventItem::fail, "the link, or the instance, fails").choices = {"true"};
  r.add("slow_ratio", &EventItem::slow_ratio,
        "kernels that start on the GPU after this time run at this share of full speed")
      .above(0, 1);
  r.add("instance", &EventItem::instance, "of workload.kind serving: name of an instance");
  r.add("drain", &EventItem::drain, "no more requests go to the instance; those that are there are served").choices = {
      "true"};
  r.add(
      "join", &EventItem::join,
      "the instance loads its weights and takes requests then: from the host, or from an instance with the same tp and "
      "pp, by its name. If this is its first event, it is not there before");
  return r;
}

}  // namespace

const Record<ScenarioFile>& scenario_table() {
  static const Record<ScenarioFile> table = [] {
    const auto of_scenario = [](auto member) { return within(&ScenarioFile::scenario, member); };
    Record<ScenarioFile> r;
    r.add("name", of_scenario(&Scenario::name), "name of the scenario in outputs").fallback("path of the file");
    r.add("schema_version", &ScenarioFile::schema_version, "version of this schema").range(1, 1);
    r.word("platform", of_scenario(&Scenario::platform), shipped_datasheets("boards"),
           "the platform; must be that of the executable")
        .fallback("that of the executable");
    r.add("seed", of_scenario(&Scenario::seed),
          "seed of the hash with which ECMP spreads queue pairs (machine.network.routing)")
        .range(0, kExactInteger);
    r.nested("model", &ScenarioFile::model, model_record(), "the model; only for kinds that run one");
    r.nested("machine", &ScenarioFile::machine, machine_record(), "the machine");
    r.nested("compute", &ScenarioFile::compute, compute_record(), "kernel times");
    r.nested("fabric", of_scenario(&Scenario::fabric), fabric_record(), "how bytes move");
    r.nested("simulation", &ScenarioFile::scenario, simulation_record(), "how much of the machine is simulated");
    r.list("events", &ScenarioFile::events, event_record(), "faults and rate changes during the run");
    r.forms("workload", &ScenarioFile::workload, "kind", workload_forms(), "the workload of the run",
            "kind of workload")
        .required();
    return r;
  }();
  return table;
}

}  // namespace railyard::scenario
