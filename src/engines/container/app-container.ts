import { type Containers, readImageRecord } from "../../host/containers/containers.ts";
import { foldersOf, notEnforced, type ProcessHost } from "../local/host.ts";
import { randomUUID } from "node:crypto";
import type { ContainerTool } from "../../host/containers/container-tool.ts";
import { startContainer } from "../../host/containers/start-container.ts";
import type { ContainerStart, Mount, StartedContainer } from "../../host/containers/start-container.ts";
import { describeRunOut, type FolderName } from "../../host/limits/limits.ts";
import { describeExit, type Exit, type ReplicaGpus, type Workload, refused, ended } from "../engine.ts";
import { NO_GPU_VARIABLES } from "../../host/app-environment.ts";
import { unkeptByContainers } from "../../host/walls/network.ts";
import { makeScratch, removeScratch } from "../../host/walls/scratch.ts";
import { pause } from "../../kit/clock.ts";
import { LAST_LINES_MS, readOutput, type OutputEvents } from "../log-lines.ts";
import { type Agent, startWatch } from "../local/agent.ts";
import { backoffMs } from "../../kit/retry.ts";

export type ContainerHost = ProcessHost & { readonly containers: Containers };

type ContainerParts = Pick<ContainerStart, "program" | "args" | "port" | "input"> & {
  readonly variables: Readonly<Record<string, string>>;
  readonly mounts: readonly Mount[];
  readonly gpus?: ReplicaGpus | undefined;
};

/** The container tool would bring every GPU in for an app that names them itself. */
const NO_GPU = { ...NO_GPU_VARIABLES, NVIDIA_VISIBLE_DEVICES: "void" };

/** Where a container has its project's storage, and its temporary files. */
const STORAGE = "/persistent-storage";
const SCRATCH = "/tmp";
/** The runtimes by the names of the configuration. */
const RUNTIMES = { v1: "runc", v2: "runsc" } as const;
/** The tool's exit code if it could not start the container. */
const NOT_STARTED = 125;

/** How often a starting container is asked for its first process. */
const LOOK_MS = 50;

/** How soon a watch agent that died is replaced; later each time. */
const WATCH_FIRST_WAIT_MS = 1_000;
const WATCH_LONGEST_WAIT_MS = 60_000;

export type AppContainer = {
  readonly container: StartedContainer;
  readonly exited: Promise<Exit>;
  /** Its first process; 0 until it is known. */
  top: number;
  /** The agent that watches it; null while there is none. */
  watch: Agent | null;
};

/** Starts a container of an app's image, within its limits. Returns an exit if it may not or cannot start. */
export async function startAppContainer(
  host: ContainerHost,
  workload: Workload,
  { gpus, ...parts }: ContainerParts,
  events: OutputEvents,
): Promise<AppContainer | Exit> {
  const { containers, dataDir, storage, limits, clock } = host;
  const folders = foldersOf(workload, dataDir);
  const image = readImageRecord(folders.environment);
  const found = await containers.find();
  if (!("tool" in found)) return refused(`its image needs podman or docker, and ${found.lack}`);
  if (!image) return refused("its image is missing: run `millrace doctor --repair`, or deploy the app again");
  const gap = unkeptByContainers(workload.network, host.network);
  if (gap?.isRefused) return refused(notEnforced(gap.message));
  const { projectId } = workload;
  const user = storage.userOf(projectId);
  const scratch = makeScratch(dataDir, user);
  const container = await startContainer(containers, found.tool, {
    projectId,
    id: randomUUID(),
    image: image.id,
    ...parts,
    variables: {
      PYTHONUNBUFFERED: "1",
      HOME: SCRATCH,
      HF_HOME: `${STORAGE}/.cache/huggingface`,
      ...parts.variables,
      PERSISTENT_STORAGE: STORAGE,
      ...(gpus ? gpus.variables : NO_GPU),
    },
    // Those that are made up for tests have no device.
    gpus: gpus?.grant.gpus.filter(({ files }) => files.length > 0).map(({ uuid }) => uuid) ?? [],
    mounts: [{ from: folders.storage, to: STORAGE }, { from: scratch, to: SCRATCH }, ...parts.mounts],
    user,
    limits: workload.limits,
    runtime: runtimeFor(workload, found.tool),
    hasNetwork: workload.network !== false,
  }).catch(async (error: unknown) => {
    await removeScratch(scratch);
    throw error;
  });
  readOutput(container, projectId, events);
  if (container.withheld.length > 0) {
    const names = container.withheld.join(", ");
    const text = `millrace: ${names}: the container engine uses that variable itself, so only a short value of one line can be passed on`;
    events.onLog({ stream: "stderr", text, runId: null });
  }
  let excess: string | null = null;
  const over = new AbortController();
  const watchOnce = async (): Promise<void> => {
    const written = { scratch: [scratch, ...(await container.written())], storage: folders.storage };
    const watched = limits?.watched(workload.limits, written).folders ?? [];
    const input = JSON.stringify({
      top: app.top,
      port: parts.port?.inside ?? 0,
      watched: watched.map(({ name, maxBytes, path }) => [name, maxBytes, path]),
    });
    const onFull = (name: FolderName): void => {
      excess = limits?.describeFull(name) ?? null;
      limits?.noteStorage(folders.storage, name === "storage" ? true : null);
      container.end();
    };
    if (over.signal.aborted) return;
    app.watch = startWatch({ python: host.python, cwd: scratch, input, onFull }, clock);
    await app.watch.exited.finally(() => app.watch?.close());
  };
  /** Until the container has ended: without an agent nothing would limit its folders. */
  const watch = async (): Promise<void> => {
    while (app.top === 0 && !over.signal.aborted) {
      app.top = await container.pid();
      if (app.top === 0) await pause(clock, LOOK_MS, over.signal);
    }
    for (let tries = 1; !over.signal.aborted; tries++) {
      await watchOnce().catch((error: unknown) => events.onError(error));
      app.watch = null;
      const waitMs = backoffMs(tries, WATCH_FIRST_WAIT_MS, WATCH_LONGEST_WAIT_MS);
      await pause(clock, waitMs, over.signal);
    }
  };
  const exited = container.exited.then(async ({ code, isOutOfMemory }): Promise<Exit> => {
    over.abort();
    app.watch?.end();
    await removeScratch(scratch);
    clock.after(LAST_LINES_MS, () => [container.stdout, container.stderr].forEach((pipe) => pipe.destroy()));
    if (excess !== null) return ended(excess);
    if (isOutOfMemory) return { ...ended(describeRunOut(workload.limits)), isOutOfMemory: true };
    return ended(code === NOT_STARTED ? `${found.tool.kind} could not start it` : describeExit(code, null));
  });
  const app: AppContainer = { container, exited, top: 0, watch: null };
  watch().catch((error: unknown) => events.onError(error));
  return app;
}

/** Null for the tool's default. */
function runtimeFor({ containerRuntime }: Workload, { runtimes }: ContainerTool): "runc" | "runsc" | null {
  const runtime = containerRuntime && RUNTIMES[containerRuntime];
  return runtime !== null && runtimes.includes(runtime) ? runtime : null;
}
