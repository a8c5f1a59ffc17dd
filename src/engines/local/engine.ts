import { STOPPED, cannotStart } from "../engine.ts";
import type { Engine, InitFailure, ServerOwner, StartedServer, Workload } from "../engine.ts";
import { withPort } from "../server/ports.ts";
import { startServer } from "../server/start-server.ts";
import { IdleTemplates } from "../templates/template-line.ts";
import { templateSeats } from "../templates/seat.ts";
import { foldersOf, notEnforced, type ProcessHost } from "./host.ts";
import { type Spawn, spawnPython } from "./spawn.ts";
import { heldStart, startHeld } from "./start-held.ts";
import { appPython, type AppPython, missingPython } from "../../host/app-python.ts";
import { unkept } from "../../host/walls/network.ts";

const PYTHON_NAMES = new Set(["python", "python3"]);

/** Runs replicas as processes of this machine; `spawn` starts them. */
export function processEngine(host: ProcessHost, spawn: Spawn = spawnPython): Engine {
  const interpreterOf = (workload: Workload) => appInterpreter(host, workload);
  return {
    name: "process",
    open: templateSeats({ ...host, idle: new IdleTemplates(), spawn, interpreterOf }),
    // Without namespaces, the device files of a process are decided at its start.
    gpuHandling: () => ({
      mayFork: host.level !== "landlock" && host.level !== "process",
      hidesOthers: host.level !== null && host.level !== "process",
    }),
    serve: (workload, owner) => serveProcess(host, workload, owner),
  };
}

/** An app's own server as a process of this machine, on a port of its own. */
function serveProcess(host: ProcessHost, workload: Workload, owner: ServerOwner): StartedServer {
  const { server: command } = workload;
  if (!command) throw new Error("the app has no server of its own");
  return startServer(host.ports, async (port, isKilled) => {
    const python = await appInterpreter(host, workload);
    if (!("program" in python)) return { detail: python.message, initFailure: python };
    if (isKilled()) return STOPPED;
    const [program = "", ...args] = withPort(command.entrypoint, command.port, port);
    const started = startHeld(
      heldStart(host, workload, python, owner.gpus),
      {
        // The host may have Python under another name, and the app's own version matters.
        program: PYTHON_NAMES.has(program) ? python.program : program,
        args,
        // Set after the app's own variables: a secret named PORT must not win.
        fixed: { PORT: String(port) },
        server: { own: port, declared: command.port },
      },
      host.clock,
      owner,
    );
    if (!("agent" in started)) return started;
    const { agent, exited } = started;
    const server = {
      pid: 0,
      ancestor: agent.pid,
      exited,
      kill: () => agent.end(),
      askToEnd: () => agent.askToEnd(),
      usage: () => agent.questions.usage(0),
      place: async () => {
        const found = await agent.questions.place();
        if (found) server.pid = found.pid;
        return found?.place ?? ({ kind: "nowhere" } as const);
      },
    };
    return server;
  });
}

/** The Python of an app, or why the app may not run here. A promise if the host has to be searched. */
function appInterpreter(
  { python: own, dataDir, network }: Pick<ProcessHost, "python" | "dataDir" | "network">,
  workload: Workload,
): AppPython | Promise<AppPython | InitFailure> {
  const { environment } = foldersOf(workload, dataDir);
  const refuse = (error: Error): InitFailure => cannotStart(error.message);
  try {
    const gap = unkept(workload.network, network);
    if (gap?.isRefused) throw new Error(notEnforced(gap.message));
    const python = appPython(environment, workload.python, { own, dataDir });
    if ("program" in python) return python;
    return python
      .then((found) => found ?? cannotStart(missingPython(workload.python?.version)))
      .catch(refuse);
  } catch (error) {
    return Promise.resolve(refuse(error as Error));
  }
}
