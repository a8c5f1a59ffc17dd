import { type AppPython, PYTHON_ELSEWHERE } from "../../host/app-python.ts";
import { STOPPED } from "../engine.ts";
import type {
  Engine,
  Exit,
  InitFailure,
  ReplicaGpus,
  ReplicaStart,
  Seat,
  SeatOwner,
  Workload,
} from "../engine.ts";
import type { Home } from "../home.ts";
import { LogSockets } from "../log-lines.ts";
import type { ProcessHost } from "../local/host.ts";
import { heldStart } from "../local/start-held.ts";
import { type IdleTemplates, TemplateLine } from "./template-line.ts";
import { deferred, type Spawn, type StartedProcess, type Tickets } from "../local/spawn.ts";

type SeatParts = ProcessHost & {
  readonly idle: IdleTemplates;
  readonly spawn: Spawn;
  /** The interpreter of an app, or why it cannot run here; absent where the app has its own. */
  readonly interpreterOf?: (workload: Workload) => AppPython | Promise<AppPython | InitFailure>;
};

/** Opens seats with one template each, which is started with the first replica and forks all replicas. */
export function templateSeats(parts: SeatParts): Engine["open"] {
  return (workload, keepMs, home, owner) => openSeat(parts, workload, keepMs, home, owner);
}

/** A template that may not fork becomes the replica it was started for. */
function openSeat(parts: SeatParts, workload: Workload, keepMs: number, home: Home, owner: SeatOwner): Seat {
  const { clock, idle } = parts;
  let process: StartedProcess | null = null;
  let line: TemplateLine | null = null;
  let keptMs = keepMs;
  const spawn = (tickets: Tickets, gpus: ReplicaGpus | undefined): StartedProcess => {
    const start = (python: AppPython) =>
      parts.spawn(
        { ...heldStart(parts, workload, python, gpus), address: home.address, tickets },
        clock,
        owner,
      );
    const python = parts.interpreterOf?.(workload) ?? PYTHON_ELSEWHERE;
    process = "program" in python ? start(python) : startLater(python, start);
    void process.exited.then(() => owner.onEnded());
    return process;
  };
  const newLine = (first: ReplicaStart): TemplateLine => {
    const logs = new LogSockets(workload.projectId, owner);
    const ticket = home.expect((kind, socket, pid) => {
      if (kind === "template") made.template.attach(socket, pid);
      else if (!logs.take(kind, socket)) socket.destroy();
    });
    const started = spawn({ template: ticket, replica: first.ticket }, first.gpus);
    void started.exited.then(({ isLeft }) => logs.close(isLeft ? null : clock));
    const onReady = (): void => home.forget(ticket);
    const events = { ...owner, onReady };
    const made: TemplateLine = new TemplateLine(started, clock, idle, keptMs, events, first);
    return made;
  };
  return {
    start(replica) {
      if (!workload.mayFork) return spawn({ replica: replica.ticket }, replica.gpus);
      line ??= newLine(replica);
      return line.start(replica);
    },
    keepFor: (ms) => {
      keptMs = ms;
      line?.keepFor(ms);
    },
    leave: () => line?.detach(),
    async close() {
      line?.stop();
      process?.kill();
      await process?.exited;
    },
  };
}

/** A process that starts as soon as its interpreter is found. If there is none, it ends with that as the reason. */
function startLater(
  found: Promise<AppPython | InitFailure>,
  start: (python: AppPython) => StartedProcess,
): StartedProcess {
  let begun: StartedProcess | null = null;
  let isKilled = false;
  const exited = found.then(async (python): Promise<Exit> => {
    if (isKilled) return STOPPED;
    if (!("program" in python)) return { detail: python.message, initFailure: python };
    begun = start(python);
    return await begun.exited;
  });
  const kill = (): void => {
    isKilled = true;
    begun?.kill();
  };
  return deferred(() => begun, { exited, kill });
}
