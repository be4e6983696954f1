// Loads a timeline into Perfetto's trace_processor and asks it questions in SQL.
//
//   node query.mjs FOLDER TRACE < {"name": "select ...", ...}       prints {"name": [{column: value, ...}, ...], ...}
//
// FOLDER is what `install` beside this file makes: trace_processor compiled to WebAssembly, with the glue that Perfetto's page runs
// in a worker. The glue finds here what it expects of one: `self`, a location, and a synchronous XMLHttpRequest that reads files.
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";
import vm from "node:vm";

const [folder, trace] = process.argv.slice(2);
const { EngineBase } = await import(pathToFileURL(path.resolve(folder, "engine.mjs")));

globalThis.self = globalThis;
globalThis.WorkerGlobalScope = class {};
globalThis.location = { href: pathToFileURL(path.resolve(folder)).href + "/" };
globalThis.XMLHttpRequest = class {
  open(_method, name) { this.name = name; }
  send() { this.response = fs.readFileSync(path.resolve(folder, this.name)); }
};

const kProbe = "this.useMemory64 = hasMemory64Support();";
const glue = fs.readFileSync(path.join(folder, "engine_bundle.node.js"), "utf8");
if (!glue.includes(kProbe)) throw new Error("engine_bundle.node.js is not of the version that this script knows");
vm.runInThisContext(glue.replace(kProbe, "this.useMemory64 = false;"));  // the package has the 32-bit one only

class Engine extends EngineBase {
  constructor(port) {
    super();
    this.port = port;
    port.onmessage = (message) => this.onRpcResponseBytes(message.data);
  }
  rpcSendRequestBytes(data) { this.port.postMessage(data); }
}

const { port1, port2 } = new MessageChannel();
self.onmessage({ data: port1 });
const engine = new Engine(port2);

await engine.parse(new Uint8Array(fs.readFileSync(trace)));
await engine.notifyEof();

const answers = {};
for (const [name, sql] of Object.entries(JSON.parse(fs.readFileSync(0, "utf8")))) {
  const result = await engine.query(sql);
  answers[name] = [];
  for (const row = result.iter({}); row.valid(); row.next())
    answers[name].push(Object.fromEntries(result.columns().map((column) => [column, row.get(column)])));
}
// Whole numbers come as bigint. What trace_processor counts and times fits in 53 bits.
console.log(JSON.stringify(answers, (_key, value) => (typeof value === "bigint" ? Number(value) : value)));
port2.close();
