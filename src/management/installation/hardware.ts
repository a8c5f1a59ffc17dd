import { availableParallelism, totalmem } from "node:os";
import { z } from "zod";
import type { Gpu, GpuEviction, HeldGpu, MachineGpus } from "../../model/gpu.ts";
import { namedGb } from "../../host/gpus/source.ts";
import { appId } from "../../model/names.ts";
import type { OtherNodesGpus } from "../../nodes/join-nodes.ts";
import { timestamp } from "../../shapes/common.ts";
import { HARDWARE, MACHINES } from "../../shapes/hardware.ts";
import type { GpuRecord, HardwareRow, MachineRecord, NodeGpus } from "../../shapes/hardware.ts";
import { type Operation, tagged } from "../api/operation.ts";
import type { InstalledGpus, ManagementParts, OwnNode } from "../parts.ts";

const operation = tagged("Installation");

/** What apps can run on: by model for every caller, and each GPU of each node for the operator. */
export function hardwareOperations(parts: ManagementParts): Operation[] {
  return [
    operation("GET", "/v2/hardware", {
      id: "listHardware",
      summary: "List the hardware that apps can run on",
      access: "any",
      response: HARDWARE,
      handle: () => hardwareOf(parts.gpus.source.current()),
    }),
    operation("GET", "/v2/gpus", {
      id: "listGpus",
      summary:
        "List the machines of the installation with their GPUs: health, load, and which app holds them; with history, also over the last hour",
      access: "operator",
      query: z.object({ history: z.stringbool().optional() }),
      response: MACHINES,
      handle: async ({ query: { history = false } }) => {
        const others = await parts.gpus.ofOthers(history);
        const own = ownMachine(parts.ownNode(), tellGpus(parts.gpus, history));
        return [own, ...others.map(otherMachine)].toSorted(
          (a, b) => a.name.localeCompare(b.name) || a.nodeId.localeCompare(b.nodeId),
        );
      },
    }),
  ];
}

/** The row of the processors, and one for each model of GPU of which some work. */
function hardwareOf({ gpus, trouble }: MachineGpus): HardwareRow[] {
  const machine = {
    provider: "local",
    cpu: availableParallelism(),
    memoryGb: Math.round(totalmem() / 1e8) / 10,
  };
  const byModel = Map.groupBy(
    gpus.filter(({ fault }) => fault === null),
    ({ model }) => model,
  );
  const rows = Array.from(byModel, ([name, ofModel]) => {
    const smallest = Math.min(...ofModel.map(({ memoryBytes }) => memoryBytes));
    return { name, ...machine, gpuCount: ofModel.length, gpuMemoryGb: namedGb(smallest) };
  });
  const processors = { name: "CPU", ...machine, gpuCount: 0 };
  return [trouble === null ? processors : { ...processors, gpuTrouble: trouble }, ...rows];
}

/** What this node says of its GPUs. */
export function nodeGpus({ source, grants }: Pick<InstalledGpus, "source" | "grants">): NodeGpus {
  const { driver, gpus, trouble } = source.current();
  const held = Map.groupBy(grants(), ({ gpu }) => gpu);
  const readings = new Map(source.readings().map((reading) => [reading.uuid, reading]));
  const shown = gpus.map((gpu): GpuRecord => {
    // Its device files are of no use elsewhere.
    const { files: _, ...told } = gpu;
    const reading = readings.get(gpu.uuid);
    const holders = held.get(gpu.uuid) ?? [];
    return {
      ...told,
      usedBytes: reading?.usedBytes ?? null,
      freeBytes: reading?.freeBytes ?? null,
      grantedBytes: grantedOf(gpu, holders),
      utilization: reading?.utilization ?? null,
      watts: reading?.watts ?? null,
      celsius: reading?.celsius ?? null,
      holders: holders.map((holder) => ({
        appId: appId(holder.projectId, holder.app),
        projectId: holder.projectId,
        containerId: holder.replicaId,
        memoryBytes: holder.memoryBytes,
        usedBytes: holder.usedBytes,
      })),
    };
  });
  return { driver, trouble, gpus: shown };
}

type OwnGpus = Omit<InstalledGpus, "ofOthers">;

/** What this node says of its GPUs to others: as they are now, and if asked for also over the last hour. */
export function tellGpus(own: OwnGpus, withHistory: boolean): NodeGpus {
  return { ...nodeGpus(own), ...(withHistory && { history: historyOf(own) }) };
}

function historyOf({ source, history, evictions }: OwnGpus): NonNullable<NodeGpus["history"]> {
  const { fromMs, stepMs, gpus } = history.ofGpus();
  const nameOf = ({ projectId, app }: GpuEviction["by"]) => ({ appId: appId(projectId, app), projectId });
  return {
    from: timestamp(fromMs),
    stepMs,
    gpus: source.current().gpus.map(({ uuid }) => ({
      uuid,
      usedBytes: gpus.get(uuid)?.map((use) => use?.usedBytes ?? null) ?? [],
      utilization: gpus.get(uuid)?.map((use) => use?.utilization ?? null) ?? [],
    })),
    evictions: evictions()
      .filter(({ atMs }) => atMs >= fromMs)
      .map(({ atMs, gpus: of, evicted, by }) => ({
        at: timestamp(atMs),
        gpus: [...of],
        evicted: nameOf(evicted),
        by: nameOf(by),
      })),
  };
}

/** How much of a GPU's memory is granted. */
function grantedOf({ memoryBytes }: Gpu, holders: readonly HeldGpu[]): number {
  return holders.reduce((sum, holder) => sum + (holder.memoryBytes ?? memoryBytes), 0);
}

function ownMachine({ id, details }: OwnNode, found: NodeGpus): MachineRecord {
  return { nodeId: id, name: details.name, isSelf: true, ...details.capacity, ...found };
}

function otherMachine({ node: { id, details }, answer }: OtherNodesGpus): MachineRecord {
  const found =
    answer instanceof Error
      ? { driver: null, gpus: [], trouble: `could not ask for its GPUs: ${answer.message}` }
      : answer;
  return { nodeId: id, name: details.name, isSelf: false, ...details.capacity, ...found };
}
