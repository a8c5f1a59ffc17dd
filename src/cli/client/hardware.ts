import { HARDWARE, MACHINES } from "../../shapes/hardware.ts";
import type { GpuRecord, MachineRecord } from "../../shapes/hardware.ts";
import type { Definitions } from "../options.ts";
import { bytes, paint, printableName, tableOf } from "../output.ts";
import { asking, asks, type Task } from "./task.ts";

export const COMMANDS: Definitions = {
  hardware(command) {
    const list = command
      .command("list", { isDefault: true })
      .description("list the processors and each model of GPU");
    asks(list, listHardware, "millrace hardware list");
    asking(command, "gpus", "list each GPU of each node, how full it is, and which apps have it", listGpus);
  },
};

async function listHardware({ api, out }: Task): Promise<void> {
  const rows = await api.get(HARDWARE, "/v2/hardware");
  out.list(rows, {
    NAME: ({ name }) => printableName(name),
    GPUS: ({ gpuCount }) => (gpuCount === 0 ? "–" : String(gpuCount)),
    "GPU MEMORY": ({ gpuMemoryGb }) => (gpuMemoryGb === undefined ? "–" : `${gpuMemoryGb} GB`),
    CORES: ({ cpu }) => String(cpu),
    MEMORY: ({ memoryGb }) => `${memoryGb} GB`,
  });
  for (const { gpuTrouble } of rows) if (gpuTrouble !== undefined) out.warn(gpuTrouble);
  out.note(
    rows.some(({ gpuCount }) => gpuCount > 0)
      ? "each GPU, and which apps have it: millrace hardware gpus"
      : "no GPU that apps can use; on the service's machine, millrace doctor says why",
  );
}

async function listGpus({ api, out }: Task): Promise<void> {
  const machines = await api.get(MACHINES, "/v2/gpus");
  const gpus = machines.flatMap((machine) => machine.gpus.map((gpu) => ({ machine, gpu })));
  type Entry = (typeof gpus)[number];
  const isCluster = machines.length > 1;
  const columns: Readonly<Record<string, (entry: Entry) => string>> = {
    ...(isCluster && { NODE: ({ machine }: Entry) => printableName(machine.name) }),
    GPU: ({ gpu }) => String(gpu.index),
    MODEL: ({ gpu }) => printableName(gpu.model),
    STATE: ({ gpu }) => (gpu.fault === null ? paint("green", "ok") : paint("red", "out of service")),
    MEMORY: ({ gpu }) => bytes(gpu.memoryBytes),
    USED: ({ gpu }) => (gpu.usedBytes === null ? "–" : bytes(gpu.usedBytes)),
    GRANTED: ({ gpu }) => bytes(gpu.grantedBytes),
    LOAD: ({ gpu }) => (gpu.utilization === null ? "–" : `${Math.round(gpu.utilization)} %`),
    TEMPERATURE: ({ gpu }) => (gpu.celsius === null ? "–" : `${Math.round(gpu.celsius)} °C`),
    "HELD BY": ({ gpu }) => holdersOf(gpu),
    UUID: ({ gpu }) => printableName(gpu.uuid),
  };
  out.show(machines, () => tableOf(gpus, columns));
  for (const machine of machines) warnOf(machine, isCluster, (text) => out.warn(text));
  if (gpus.length === 0) out.note("no GPU: on the service's machine, millrace doctor says why");
}

function warnOf(
  { name, trouble, gpus }: MachineRecord,
  isNamed: boolean,
  warn: (text: string) => void,
): void {
  const where = isNamed ? `${printableName(name)}: ` : "";
  if (trouble !== null) warn(where + trouble);
  for (const { index, fault } of gpus)
    if (fault !== null) warn(`${where}GPU ${index} is out of service: ${fault}`);
}

/** Each app once, with the number of its replicas if it has several. */
function holdersOf({ holders }: GpuRecord): string {
  const byApp = Map.groupBy(holders, ({ appId }) => appId);
  const named = Array.from(byApp, ([id, held]) => (held.length === 1 ? id : `${id} × ${held.length}`));
  return named.map(printableName).join(", ") || "–";
}
