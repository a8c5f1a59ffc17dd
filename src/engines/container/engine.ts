import { type Containers, readImageRecord } from "../../host/containers/containers.ts";
import type { Engine, ServerCommand, ServerOwner, StartedServer, Workload } from "../engine.ts";
import { foldersOf, type ProcessHost } from "../local/host.ts";
import { withPortVariable } from "../server/ports.ts";
import { startServer } from "../server/start-server.ts";
import { IdleTemplates } from "../templates/template-line.ts";
import { templateSeats } from "../templates/seat.ts";
import { type ContainerHost, startAppContainer } from "./app-container.ts";
import { spawnContainer } from "./spawn-container.ts";

const ON_LOOPBACK =
  "its server listens on 127.0.0.1 inside its container, where it cannot be reached; have it listen on 0.0.0.0";

/** Runs replicas whose packages are in an image as containers, and leaves all others to `processes`. */
export function containerEngine(host: ProcessHost, containers: Containers, processes: Engine): Engine {
  const own = { ...host, containers };
  const idle = new IdleTemplates();
  const isOurs = (workload: Workload): boolean =>
    readImageRecord(foldersOf(workload, host.dataDir).environment) !== null;
  return {
    name: "container",
    open: (workload, keepMs, home, owner) => {
      if (!isOurs(workload)) return processes.open(workload, keepMs, home, owner);
      const open = templateSeats({ ...host, idle, spawn: spawnContainer(own, home) });
      return open(workload, keepMs, home, owner);
    },
    // The devices of a container are decided when it is made.
    gpuHandling: (workload) => {
      if (isOurs(workload)) return { mayFork: false, hidesOthers: true };
      return processes.gpuHandling?.(workload) ?? { mayFork: true, hidesOthers: false };
    },
    serve: (workload, owner) => {
      if (!workload.server || !isOurs(workload)) return processes.serve(workload, owner);
      return serveContainer(own, workload, workload.server, owner);
    },
  };
}

/** An app's own server in a container of its own. Inside, it has the port that its author wrote. */
function serveContainer(
  host: ContainerHost,
  workload: Workload,
  { entrypoint, port: inside }: ServerCommand,
  owner: ServerOwner,
): StartedServer {
  return startServer(host.ports, async (outside) => {
    const [program = null, ...args] = withPortVariable(entrypoint, inside);
    const variables = { ...workload.variables, PORT: String(inside) };
    const { gpus } = owner;
    const parts = { program, args, port: { outside, inside }, input: null, mounts: [], variables, gpus };
    const started = await startAppContainer(host, workload, parts, owner);
    if (!("container" in started)) return started;
    const { container, exited } = started;
    return {
      get pid() {
        return started.top;
      },
      exited,
      kill: () => container.end(),
      askToEnd: () => container.askToEnd(),
      usage: async () => (await started.watch?.questions.usage(0)) ?? null,
      // The engine listens on the outer port from the start, so only the container's own network shows a server.
      place: async () => {
        const place = (await started.watch?.questions.place())?.place;
        if (place?.kind !== "listening") return { kind: "nowhere" };
        if (!place.isOpen) return { kind: "nowhere", why: ON_LOOPBACK };
        return { kind: "listening", host: "127.0.0.1", port: outside, isOpen: false, isFixed: false };
      },
    };
  });
}
