import path from "node:path";
import { PYTHON_ELSEWHERE } from "../../host/app-python.ts";
import type {
  Engine,
  Exit,
  ServerCommand,
  ServerEvents,
  ServerPlace,
  StartedServer,
  Usage,
  Workload,
} from "../engine.ts";
import type { ProcessHost } from "../local/host.ts";
import { IdleTemplates } from "../templates/template-line.ts";
import { ProcessSeat } from "../templates/seat.ts";
import type { RemoteParts, SeatStart } from "./session.ts";
import { rm } from "node:fs/promises";
import { createServer, type Server, type Socket } from "node:net";
import type { Clock } from "../../kit/clock.ts";
import { randomName } from "../../kit/ids.ts";
import { LogSockets } from "../log-lines.ts";
import { type Ports, withPort, withPortVariable } from "../server/ports.ts";
import { startServer, STOPPED } from "../server/start-server.ts";
import { refused, RemoteSeat, type RemoteSeatEvents, whatIsMissing } from "./remote-seat.ts";
import { deferred, orderOf, over, type Spawn } from "../local/spawn.ts";
import type { ClaimedSeat, SeatWish } from "./seat-records.ts";

/** Runs replicas in seats elsewhere: in pods, actors, or whatever else a place starts. */
export function remoteEngine(host: ProcessHost, remote: RemoteParts): Engine {
  // They use memory elsewhere.
  const idle = new IdleTemplates(Number.POSITIVE_INFINITY);
  const parts = { ...host, idle, spawn: spawnRemote(remote), interpreterOf: () => PYTHON_ELSEWHERE };
  return {
    name: remote.place.name,
    replicasPerSeat: remote.replicasPerSeat ?? 1,
    reserves: true,
    open: (workload, keepMs, home, owner) => new ProcessSeat(parts, workload, keepMs, home, owner),
    serve: (workload, events) => startRemoteServer(remote, workload, host.ports, host.clock, events),
  };
}

/** How long the agent may take to open a connection to the server. */
const DIAL_MS = 10_000;

/** Starts an app's own server in a remote seat: on its author's port, or on one of its own if apps share machines. */
function startRemoteServer(
  parts: RemoteParts,
  workload: Workload,
  ports: Ports,
  clock: Clock,
  events: ServerEvents,
): StartedServer {
  const { server } = workload;
  const authored = { take: async () => server?.port ?? 0, giveBack: () => {} };
  return startServer(parts.place.isShared ? ports.remote : authored, (port) => {
    const missing = whatIsMissing(workload);
    if (missing !== null) return refused(missing);
    if (!server) return refused("it has no server of its own");
    return new RemoteServer(parts, workload, server, port, clock, events);
  });
}

/** A server in a remote seat. The service connects to a local socket, and the agent forwards to the server over TLS. */
class RemoteServer implements StartedServer {
  readonly pid = 0;
  readonly exited: Promise<Exit>;
  readonly leaving: Promise<void>;
  readonly #parts: RemoteParts;
  readonly #clock: Clock;
  readonly #seat: FoundSeat;
  readonly #path: string;
  #listener: Promise<Server> | null = null;

  constructor(
    parts: RemoteParts,
    workload: Workload,
    { entrypoint, port: authored }: ServerCommand,
    port: number,
    clock: Clock,
    events: ServerEvents,
  ) {
    this.#parts = parts;
    this.#clock = clock;
    const { home } = parts.listener;
    const logs = new LogSockets(workload.projectId, events);
    const ticket = home.expect((kind, socket) => void (logs.take(kind, socket) || socket.destroy()));
    const command = parts.place.isShared
      ? withPort(entrypoint, authored, port)
      : withPortVariable(entrypoint, authored);
    this.#seat = seatFor(
      parts,
      { workload, order: {}, server: { command, port, authored, ticket } },
      clock,
      events,
    );
    this.#path = path.join(path.dirname(home.address), `s-${randomName(12)}`);
    const { process } = this.#seat;
    this.leaving = process.leaving ?? new Promise(() => {});
    this.exited = process.exited.then(async (exit) => {
      home.forget(ticket);
      (await this.#listener)?.close();
      await rm(this.#path, { force: true });
      logs.close(exit.isLeft ? null : clock);
      return exit;
    });
  }

  kill(): void {
    this.#seat.process.kill();
  }

  askToEnd(): void {
    // A seat that is left to the next service goes on running.
    if (this.#parts.isLeft?.()) this.kill();
    else this.#seat.say({ ask: {} });
  }

  async usage(): Promise<Usage | null> {
    return await this.#seat.process.usage(0);
  }

  obstacle(): string | null {
    return this.#seat.process.obstacle?.() ?? null;
  }

  async place(): Promise<ServerPlace> {
    const place = await this.#seat.place();
    if (place.kind !== "listening") return place;
    await (this.#listener ??= this.#listen());
    // A machine that is not shared cannot be reached by other apps.
    const isOpen = place.isOpen && this.#parts.place.isShared === true;
    return { ...place, host: "", path: this.#path, isOpen };
  }

  async #listen(): Promise<Server> {
    const listener = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (local) =>
      this.#dial(local),
    );
    await new Promise<void>((resolve, reject) => {
      listener.once("error", reject);
      listener.listen(this.#path, resolve);
    });
    listener.on("error", () => {});
    return listener;
  }

  /** Has the agent connect to the server, and joins the two connections. */
  #dial(local: Socket): void {
    const { home } = this.#parts.listener;
    local.on("error", () => local.destroy());
    const late = this.#clock.after(DIAL_MS, () => local.destroy());
    const ticket = home.expect((_, remote) => {
      late.cancel();
      home.forget(ticket);
      local.pipe(remote).pipe(local);
      // Either side may close without having ended. Data that has arrived is still delivered locally.
      local.once("close", () => remote.destroy());
      remote.once("close", () => (remote.readableEnded ? local.end(() => local.destroy()) : local.destroy()));
    });
    local.once("close", () => home.forget(ticket));
    this.#seat.say({ dial: { ticket } });
  }
}

/** Counted up when an agent of the release before cannot go on for a service of this one. */
const GENERATION = 1;

/** Starts templates and replicas in seats elsewhere: an agent there fetches the app, starts it and passes on what it says. */
export function spawnRemote(parts: RemoteParts): Spawn {
  return (start, clock, events) => {
    const failure = whatIsMissing(start.workload);
    if (failure !== null) return over(refused(failure));
    const { workload, folders, tickets } = start;
    const order: unknown = JSON.parse(orderOf(workload, { ...folders, bundle: "" }, "", tickets));
    return seatFor(parts, { workload, order, server: null }, clock, events).process;
  };
}

/** A seat that is there, or is looked for. */
type FoundSeat = Pick<RemoteSeat, "process" | "say" | "place">;

/** A seat for that: one which a service that is gone has left and that runs exactly this, else a new one. */
function seatFor(parts: RemoteParts, start: SeatStart, clock: Clock, events: RemoteSeatEvents): FoundSeat {
  const wish = wishOf(parts, start.workload);
  const open = (claimed: ClaimedSeat | null): RemoteSeat =>
    new RemoteSeat(parts, start, { mark: wish?.workload ?? null, claimed }, clock, events);
  if (!wish) return open(null);
  const claim = async (): Promise<ClaimedSeat | null> => {
    try {
      return await parts.listener.records.claim(wish);
    } catch (error) {
      events.onError(error);
      return null;
    }
  };
  return search(claim, open);
}

function search(
  claim: () => Promise<ClaimedSeat | null>,
  open: (claimed: ClaimedSeat | null) => RemoteSeat,
): FoundSeat {
  let seat: RemoteSeat | null = null;
  let isKilled = false;
  const { promise: leaving, resolve: leave } = Promise.withResolvers<void>();
  const outlive = async (): Promise<Exit> => {
    const claimed = await claim();
    if (claimed) {
      seat = open(claimed);
      if (isKilled) seat.process.kill();
      void seat.process.leaving?.then(leave);
      if (await seat.isBack) return await seat.process.exited;
    }
    if (isKilled) return STOPPED;
    seat = open(null);
    void seat.process.leaving?.then(leave);
    return await seat.process.exited;
  };
  const kill = (): void => {
    isKilled = true;
    seat?.process.kill();
  };
  const process = deferred(() => seat?.process ?? null, { exited: outlive(), leaving, kill });
  return {
    process,
    say: (message) => seat?.say(message),
    place: async () => (await seat?.place()) ?? { kind: "nowhere" },
  };
}

/** Null where a seat cannot be taken over: its place cannot, or its process is a replica and ends with its service. */
function wishOf(
  { place, listener, replicasPerSeat = 1, storage, walls, folders }: RemoteParts,
  workload: Workload,
): SeatWish | null {
  if (!place.adopt || (!workload.mayFork && !workload.server)) return null;
  // A port that the other service gave it could be another server's here.
  if (workload.server && place.isShared) return null;
  const { appNumber, id: versionId } = workload.version;
  const variables = Object.entries(workload.variables).toSorted(([one], [other]) => (one < other ? -1 : 1));
  // Folders are another node's; the blobs of the version are the same files. Names change nothing of what runs.
  const what = { ...workload, names: undefined, variables, bundle: null, environment: null };
  const around = walls?.(workload, 0).asked ?? null;
  const held = folders ? [folders] : [];
  const content = JSON.stringify([GENERATION, place.name, replicasPerSeat, storage, around, what, ...held]);
  return { appNumber, versionId, workload: listener.records.mark(content) };
}
