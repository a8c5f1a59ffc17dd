import { type Containers, readImageRecord } from "../../host/containers/containers.ts";
import { foldersOf, notEnforced, type ProcessHost } from "../local/host.ts";
import { randomUUID } from "node:crypto";
import type { ContainerTool } from "../../host/containers/container-tool.ts";
import { startContainer } from "../../host/containers/start-container.ts";
import type { ContainerStart, Mount, StartedContainer } from "../../host/containers/start-container.ts";
import { describeRunOut } from "../../host/limits/limits.ts";
import { describeExit, type Exit, type SeatEvents, type Workload, refused, ended } from "../engine.ts";
import { unkeptByContainers } from "../../host/walls/network.ts";
import { makeScratch, removeScratch } from "../../host/walls/scratch.ts";
import { type Clock, pause } from "../../kit/clock.ts";
import { LAST_LINES_MS, readOutput } from "../log-lines.ts";
import { type Agent, startWatch } from "../local/agent.ts";

/** The machine that containers run on. */
export type ContainerHost = ProcessHost & { readonly containers: Containers };

/** What differs between containers of apps. */
type ContainerParts = Pick<ContainerStart, "program" | "args" | "port" | "input"> & {
  readonly variables: Readonly<Record<string, string>>;
  readonly mounts: readonly Mount[];
};

/** Where a container has its project's storage, and its temporary files. */
const STORAGE = "/persistent-storage";
const SCRATCH = "/tmp";
/** The runtimes by the names of the configuration. */
const RUNTIMES = { v1: "runc", v2: "runsc" } as const;
/** The tool's exit code if it could not start the container. */
const NOT_STARTED = 125;

/** How often a starting container is asked for its first process. */
const LOOK_MS = 50;

/** An app's container that was started. */
type AppContainer = {
  readonly container: StartedContainer;
  readonly exited: Promise<Exit>;
  /** The agent that watches it; null if the container ended first. */
  readonly watch: Promise<Agent | null>;
  /** Calls `act` with its first process once there is one. */
  onBorn(act: (pid: number) => void): void;
};

/** Starts a container of an app's image, within its limits. Returns an exit if it may not or cannot start. */
export async function startAppContainer(
  host: ContainerHost,
  workload: Workload,
  parts: ContainerParts,
  { onLog, onError }: Pick<SeatEvents, "onLog" | "onError">,
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
    },
    mounts: [{ from: folders.storage, to: STORAGE }, { from: scratch, to: SCRATCH }, ...parts.mounts],
    user,
    limits: workload.limits,
    runtime: runtimeFor(workload, found.tool),
    hasNetwork: workload.network !== false,
  }).catch(async (error: unknown) => {
    await removeScratch(scratch);
    throw error;
  });
  readOutput(container, projectId, { onLog, onError });
  if (container.withheld.length > 0)
    onLog({ stream: "stderr", text: withheldText(container.withheld), runId: null });
  let excess: string | null = null;
  let hasEnded = false;
  const born = firstProcess(container, clock);
  const begin = async (): Promise<Agent | null> => {
    const top = await born;
    if (top === 0) return null;
    const written = { scratch: [scratch, ...(await container.written())], storage: folders.storage };
    const watched = (limits?.watched(workload.limits, written).folders ?? []).map((each) => [
      each.name,
      each.maxBytes,
      each.path,
    ]);
    if (hasEnded) return null;
    return startWatch(
      {
        python: host.python,
        cwd: scratch,
        input: JSON.stringify({ top, port: parts.port?.inside ?? 0, watched }),
        onFull: (name) => {
          excess = limits?.describeFull(name) ?? null;
          limits?.noteStorage(folders.storage, name === "storage" ? true : null);
          container.end();
        },
      },
      clock,
    );
  };
  const watch = begin().catch((error: unknown) => {
    onError(error);
    return null;
  });
  const exited = container.exited.then(async ({ code, isOutOfMemory }): Promise<Exit> => {
    hasEnded = true;
    void watch.then(endWatch);
    await removeScratch(scratch);
    clock.after(LAST_LINES_MS, () => [container.stdout, container.stderr].forEach((pipe) => pipe.destroy()));
    if (excess !== null) return ended(excess);
    if (isOutOfMemory)
      return { detail: describeRunOut(workload.limits), initFailure: null, isOutOfMemory: true };
    const detail = code === NOT_STARTED ? `${found.tool.kind} could not start it` : describeExit(code, null);
    return ended(detail);
  });
  const onBorn = (act: (pid: number) => void): void => void born.then((pid) => pid > 0 && act(pid), onError);
  return { container, exited, onBorn, watch };
}

function endWatch(agent: Agent | null): void {
  agent?.end();
  agent?.close();
}

/** Returns 0 if the container ended first. */
async function firstProcess(container: StartedContainer, clock: Clock): Promise<number> {
  let hasEnded = false;
  void container.exited.then(() => (hasEnded = true));
  for (;;) {
    const pid = await container.pid();
    if (pid > 0 || hasEnded) return pid;
    await pause(clock, LOOK_MS);
  }
}

/** Null for the tool's default. */
function runtimeFor({ containerRuntime }: Workload, { runtimes }: ContainerTool): "runc" | "runsc" | null {
  const runtime = containerRuntime && RUNTIMES[containerRuntime];
  return runtime !== null && runtimes.includes(runtime) ? runtime : null;
}

function withheldText(names: readonly string[]): string {
  return `millrace: ${names.join(", ")}: the container engine uses that variable itself, so only a short value of one line can be passed on`;
}
