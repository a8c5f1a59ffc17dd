import path from "node:path";
import { once } from "node:events";
import { refused, STOPPED } from "../engine.ts";
import type { Engine, Exit, ServerCommand, StartedServer, Workload } from "../engine.ts";
import type { ProcessHost } from "../local/host.ts";
import { IdleTemplates } from "../templates/template-line.ts";
import { templateSeats } from "../templates/seat.ts";
import type { RemoteParts, SeatStart } from "./session.ts";
import { rm } from "node:fs/promises";
import { createServer, type Server, type Socket } from "node:net";
import type { Clock } from "../../kit/clock.ts";
import { randomName } from "../../kit/ids.ts";
import { LogSockets, type OutputEvents } from "../log-lines.ts";
import { withPort, withPortVariable } from "../server/ports.ts";
import { startServer } from "../server/start-server.ts";
import { RemoteSeat, whatIsMissing } from "./remote-seat.ts";
import { deferred, orderOf, over, type Spawn } from "../local/spawn.ts";
import type { ClaimedSeat, SeatWish } from "./seat-records.ts";

/** Runs replicas in remote seats: in pods, actors, or whatever else a place starts. */
export function remoteEngine(host: ProcessHost, remote: RemoteParts): Engine {
  // Remote templates take no memory of this machine.
  const idle = new IdleTemplates(Number.POSITIVE_INFINITY);
  return {
    name: remote.place.name,
    replicasPerSeat: remote.replicasPerSeat ?? 1,
    reserves: true,
    open: templateSeats({ ...host, idle, spawn: spawnRemote(remote) }),
    serve: (workload, events) => {
      const { server } = workload;
      // A machine of its own has the author's port free.
      const authored = { take: async () => server?.port ?? 0, giveBack: () => {} };
      return startServer(remote.place.isShared ? host.ports.remote : authored, (port) => {
        const missing = whatIsMissing(workload);
        if (missing !== null) return refused(missing);
        if (!server) return refused("it has no server of its own");
        return remoteServer(remote, workload, server, port, host.clock, events);
      });
    },
  };
}

/** How long the agent may take to open a connection to the server. */
const DIAL_MS = 10_000;

/** A server in a remote seat. The service connects to a local socket, and the agent forwards to the server over TLS. */
function remoteServer(
  parts: RemoteParts,
  workload: Workload,
  { entrypoint, port: authored }: ServerCommand,
  port: number,
  clock: Clock,
  events: OutputEvents,
): StartedServer {
  const { home } = parts.listener.parts;
  const isShared = parts.place.isShared === true;
  const logs = new LogSockets(workload.projectId, events);
  const ticket = home.expect((kind, socket) => void (logs.take(kind, socket) || socket.destroy()));
  const command = isShared ? withPort(entrypoint, authored, port) : withPortVariable(entrypoint, authored);
  const start = { workload, order: {}, server: { command, port, authored, ticket } };
  const seat = seatFor(parts, start, clock, events);
  const { process } = seat;
  const address = path.join(path.dirname(home.address), `s-${randomName(12)}`);
  let listener: Promise<Server> | null = null;
  /** Has the agent connect to the server, and joins the two connections. */
  const dial = (local: Socket): void => {
    local.on("error", () => local.destroy());
    const late = clock.after(DIAL_MS, () => local.destroy());
    const ticket = home.expect((_, remote) => {
      late.cancel();
      home.forget(ticket);
      local.pipe(remote).pipe(local);
      // Either side may close without having ended. Data that has arrived is still delivered locally.
      local.once("close", () => remote.destroy());
      remote.once("close", () => (remote.readableEnded ? local.end(() => local.destroy()) : local.destroy()));
    });
    local.once("close", () => home.forget(ticket));
    seat.say({ dial: { ticket } });
  };
  const exited = process.exited.then(async (exit) => {
    home.forget(ticket);
    (await listener)?.close();
    await rm(address, { force: true });
    logs.close(exit.isLeft ? null : clock);
    return exit;
  });
  return {
    pid: 0,
    exited,
    ...(process.leaving && { leaving: process.leaving }),
    kill: () => process.kill(),
    // A seat that is left to the next service continues.
    askToEnd: () => (parts.isLeft?.() ? process.kill() : seat.say({ ask: {} })),
    usage: async () => await process.usage(0),
    obstacle: () => process.obstacle?.() ?? null,
    async place() {
      const place = await seat.place();
      if (place.kind !== "listening") return place;
      await (listener ??= listenAt(address, dial));
      // A machine that is not shared cannot be reached by other apps.
      return { ...place, host: "", path: address, isOpen: place.isOpen && isShared };
    },
  };
}

async function listenAt(address: string, onConnection: (socket: Socket) => void): Promise<Server> {
  const listener = createServer({ allowHalfOpen: true, pauseOnConnect: true }, onConnection);
  listener.listen(address);
  await once(listener, "listening");
  listener.on("error", () => {});
  return listener;
}

/** Increased when agents of the previous release cannot continue for a service of this one. */
const GENERATION = 2;

/** Starts templates and replicas in remote seats: an agent there fetches the app, starts it and forwards its connections. */
export function spawnRemote(parts: RemoteParts): Spawn {
  return (start, clock, events) => {
    const failure = whatIsMissing(start.workload);
    if (failure !== null) return over(refused(failure));
    const { workload, folders, tickets } = start;
    const order: unknown = JSON.parse(orderOf(workload, { ...folders, bundle: "" }, "", tickets));
    return seatFor(parts, { workload, order, server: null }, clock, events).process;
  };
}

type FoundSeat = Pick<RemoteSeat, "process" | "say" | "place">;

/** A seat for that: an abandoned one of a dead service that runs exactly this, else a new one. */
function seatFor(parts: RemoteParts, start: SeatStart, clock: Clock, events: OutputEvents): FoundSeat {
  const wish = wishOf(parts, start.workload);
  const open = (claimed: ClaimedSeat | null): RemoteSeat =>
    new RemoteSeat(parts, start, wish?.workload ?? null, claimed, clock, events);
  if (!wish) return open(null);
  let seat: RemoteSeat | null = null;
  let isKilled = false;
  const { promise: leaving, resolve: leave } = Promise.withResolvers<void>();
  const begin = (claimed: ClaimedSeat | null): RemoteSeat => {
    seat = open(claimed);
    void seat.process.leaving?.then(leave);
    return seat;
  };
  const live = async (): Promise<Exit> => {
    const claimed = await parts.listener.parts.records.claim(wish).catch((error: unknown) => {
      events.onError(error);
      return null;
    });
    if (claimed) {
      const found = begin(claimed);
      if (isKilled) found.process.kill();
      if (await found.isBack) return await found.process.exited;
    }
    return isKilled ? STOPPED : await begin(null).process.exited;
  };
  const kill = (): void => {
    isKilled = true;
    seat?.process.kill();
  };
  return {
    process: deferred(() => seat?.process ?? null, { exited: live(), leaving, kill }),
    say: (message) => seat?.say(message) ?? false,
    place: async () => (await seat?.place()) ?? { kind: "nowhere" },
  };
}

/** Null where a seat cannot be taken over: its place cannot, or its process is a replica and ends with its service. */
function wishOf(
  { place, listener, replicasPerSeat = 1, storage, walls, folders }: RemoteParts,
  workload: Workload,
): SeatWish | null {
  if (!place.adopt || (!workload.mayFork && !workload.server)) return null;
  // Its port may be reserved for another server of this service.
  if (workload.server && place.isShared) return null;
  const { appNumber, id: versionId } = workload.version;
  const variables = Object.entries(workload.variables).toSorted(([one], [other]) => (one < other ? -1 : 1));
  // Without folders, which differ between nodes while the blobs are the same; and without names, which are for people.
  const what = { ...workload, names: undefined, variables, bundle: null, environment: null };
  const around = walls?.(workload, 0).asked ?? null;
  const held = folders ? [folders] : [];
  const content = JSON.stringify([GENERATION, place.name, replicasPerSeat, storage, around, what, ...held]);
  return { appNumber, versionId, workload: listener.parts.records.mark(content) };
}
