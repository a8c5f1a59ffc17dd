import { createHash } from "node:crypto";
import type { Socket } from "node:net";
import { describeRunOut } from "../../host/limits/limits.ts";
import { runsOn } from "../../host/python-tag.ts";
import { describeExit } from "../../host/start-kept.ts";
import type { StandingWalls } from "../../host/walls/standing-walls.ts";
import type { Clock, Timer } from "../../kit/clock.ts";
import { randomName, randomTicket } from "../../kit/ids.ts";
import type { Exit, SeatEvents, Workload } from "../engine.ts";
import { orderOf } from "../process/spawn.ts";
import type { Spawn, StartedProcess } from "../process/spawn.ts";
import { Looks } from "./looks.ts";
import { SeatLine } from "./seat-line.ts";
import type { Guest, SeatListener } from "./seat-listener.ts";
import { seatReader } from "./seat-messages.ts";
import type { Listening, SeatMessage, ServiceMessage, Session, Sitting } from "./seat-messages.ts";
import type { PlacedSeat, SeatPlace } from "./seat-place.ts";
import type { GuestWalls } from "./seat-walls.ts";

/** The phases of a start, each told once, with the milliseconds since it was asked for. */
type SeatStartPhase = "scheduled" | "pulled" | "connected" | "fetched" | "started";

export type RemoteParts = {
  readonly place: SeatPlace;
  readonly listener: SeatListener;
  /** How many replicas of a version share a seat; absent for one. */
  readonly replicasPerSeat?: number;
  /** Where agents reach services: this one first. */
  readonly addresses: () => readonly string[];
  /** How long an agent without a service looks for one, and how long a service waits for it. */
  readonly graceMs: number;
  /** Where places have a project's storage. */
  readonly storage: string;
  /** What apps get on machines that strangers use too; `ownPort` is that of a server, else 0. Absent for no such place. */
  readonly walls?: (workload: Workload, ownPort: number) => GuestWalls;
  readonly onPhase?: (phase: SeatStartPhase, ms: number) => void;
  readonly onWalls?: (walls: StandingWalls) => void;
};

type AgentLine = SeatLine<SeatMessage, ServiceMessage>;

/** How long the end of a place is waited for that was asked to end; its seat counts no more by then. */
const END_MS = 5_000;

/** Starts templates and replicas in seats elsewhere: an agent there fetches the app, starts it and passes on what it says. */
export function spawnRemote(parts: RemoteParts): Spawn {
  return (start, clock, events) => {
    const failure = whatIsMissing(start.workload);
    if (failure !== null) return over(refused(failure));
    const { workload, folders, tickets } = start;
    const order: unknown = JSON.parse(orderOf(workload, { ...folders, bundle: "" }, "", tickets));
    return new RemoteSeat(parts, { workload, order, server: null }, clock, events).process;
  };
}

/** What is to run in a seat. */
type SeatStart = Pick<Sitting, "order" | "server"> & { readonly workload: Workload };

export type RemoteSeatEvents = Pick<SeatEvents, "onLog" | "onError"> & {
  /** Where the app's own server takes connections; null for nowhere. */
  readonly onListening?: (listening: Listening | null) => void;
};

/** One agent, and what it keeps. It is over once, in whichever way that is learned first. */
export class RemoteSeat implements Guest {
  readonly id = `s-${randomName(12)}`;
  readonly process: StartedProcess;
  secretHash: Buffer | null = null;
  readonly #parts: RemoteParts;
  readonly #start: SeatStart;
  readonly #clock: Clock;
  readonly #events: RemoteSeatEvents;
  readonly #ticket: string;
  readonly #placed: PlacedSeat;
  readonly #begunAt: number;
  readonly #fence = 1;
  readonly #exited = Promise.withResolvers<Exit>();
  readonly #leaving = Promise.withResolvers<void>();
  readonly #looks: Looks;
  readonly #told = new Set<SeatStartPhase>();
  #secret = "";
  #line: AgentLine | null = null;
  #waiting: Timer | null = null;
  #fault: string | null = null;
  #isOver = false;

  constructor(parts: RemoteParts, start: SeatStart, clock: Clock, events: RemoteSeatEvents) {
    this.#parts = parts;
    this.#start = start;
    this.#clock = clock;
    this.#events = events;
    this.#begunAt = clock.monotonic();
    this.#looks = new Looks(clock, (id, pid) => this.#line?.say({ look: { id, pid } }));
    const { place, listener, graceMs } = parts;
    this.#ticket = listener.expect(this);
    this.#placed = place.begin(
      {
        seatId: this.id,
        addresses: parts.addresses(),
        authority: listener.authority,
        ticket: this.#ticket,
        graceMs,
      },
      start.workload,
      { onPhase: (phase) => this.#tell(phase), onError: (error) => events.onError(error) },
    );
    this.#placed.exited.then((exit) => this.#end(exit)).catch((error: unknown) => events.onError(error));
    this.process = {
      exited: this.#exited.promise,
      leaving: this.#leaving.promise,
      kill: () => this.#kill(),
      vitals: (pid) => (this.#line ? this.#looks.vitals(pid) : null),
      usage: async (pid) => (this.#line ? await this.#looks.usage(pid) : null),
      obstacle: () => this.#obstacle(),
      residentBytes: () => 0,
    };
  }

  /** Tells the agent, if it is there. */
  say(message: ServiceMessage): void {
    this.#line?.say(message);
  }

  uses(blob: string): boolean {
    const { bundleBlob, environmentBlob } = this.#start.workload.version;
    return blob === bundleBlob || blob === environmentBlob;
  }

  /** The secret is told when the database has its hash. */
  async admit(socket: Socket): Promise<boolean> {
    const { version } = this.#start.workload;
    const secret = randomTicket();
    const secretHash = createHash("sha256").update(secret).digest();
    try {
      const { id, placeName } = { id: this.id, placeName: this.#placed.placeName };
      const { appNumber, id: versionId } = version;
      const fence = this.#fence;
      await this.#parts.listener.records.add({ id, secretHash, fence, appNumber, versionId, placeName });
    } catch (error) {
      socket.destroy();
      this.#events.onError(error);
      return false;
    }
    if (this.#isOver) {
      socket.destroy();
      this.#forget();
      return true;
    }
    this.#secret = secret;
    this.secretHash = secretHash;
    this.#tell("connected");
    this.#listen(socket);
    return true;
  }

  takeBack(socket: Socket, fence: number): boolean {
    if (this.#isOver || fence !== this.#fence) return false;
    const before = this.#line;
    this.#line = null;
    before?.close();
    this.#listen(socket);
    return true;
  }

  #listen(socket: Socket): void {
    this.#waiting?.cancel();
    const line: AgentLine = new SeatLine(socket, this.#clock, seatReader(), {
      onMessage: (message) => this.#hear(message),
      onFault: (fault) => (this.#fault = fault),
      onError: (error) => this.#events.onError(error),
      onEnded: () => this.#line === line && this.#lose(),
    });
    this.#line = line;
    line.say({ session: this.#session() });
  }

  #session(): Session {
    const { workload, order, server } = this.#start;
    const { storage, walls } = this.#parts;
    const around = walls?.(workload, server?.port ?? 0);
    const { bundleBlob, environmentBlob } = workload.version;
    return {
      secret: this.#secret,
      fence: this.#fence,
      grace_ms: this.#parts.graceMs,
      addresses: this.#parts.addresses(),
      sit: {
        bundle: bundleBlob ?? "",
        environment: environmentBlob,
        // A place of strangers has one folder for all projects.
        storage: around ? `${storage}/${workload.projectId}` : storage,
        variables: { ...around?.variables, ...workload.variables },
        walls: around?.asked ?? null,
        order,
        server,
      },
    };
  }

  #hear(message: SeatMessage): void {
    if ("hello" in message) this.#judge(message.hello.python, message.hello.tag);
    else if ("leaving" in message) this.#leaving.resolve();
    else if ("listening" in message) this.#events.onListening?.(message.listening);
    else if ("fetched" in message) this.#tell("fetched");
    else if ("started" in message) {
      this.#tell("started");
      if (message.started.walls) this.#parts.onWalls?.(message.started.walls);
    } else if ("printed" in message) this.#events.onLog({ ...message.printed, runId: null });
    else if ("seen" in message) this.#looks.answer(message.seen);
    else if ("failed" in message) this.#end(refused(message.failed.message));
    else if ("exited" in message) {
      const { code, isOutOfMemory } = message.exited;
      const { limits } = this.#start.workload;
      this.#end(
        isOutOfMemory
          ? { detail: describeRunOut(limits), initFailure: null, isOutOfMemory: true }
          : { detail: describeExit(code, null), initFailure: null },
      );
    }
  }

  /** Packages that were made for another Python would fail in ways that nobody understands. */
  #judge(python: string, tag: string): void {
    const { version, python: wish } = this.#start.workload;
    const { environmentTag } = version;
    if (environmentTag !== null && !runsOn(environmentTag, tag))
      this.#end(refused(`its packages are for ${environmentTag}, and ${this.#parts.place.name} has ${tag}`));
    else if (wish && minorOf(python) !== minorOf(wish.version))
      this.#end(refused(`it asks for Python ${wish.version}, and ${this.#parts.place.name} has ${python}`));
  }

  /** Its agent may come back: what it passes on may still be on its way. */
  #lose(): void {
    this.#line = null;
    this.#events.onListening?.(null);
    this.#looks.giveUp();
    if (this.#fault !== null)
      this.#end({
        detail: `its agent broke the protocol: ${this.#fault}`,
        initFailure: null,
        fault: this.#fault,
      });
    if (this.#isOver) return;
    const { graceMs } = this.#parts;
    const detail = `its seat ${this.#placed.placeName} was lost: no word from it for ${graceMs / 1000} s`;
    this.#waiting = this.#clock.after(graceMs, () => this.#end({ detail, initFailure: null }));
  }

  /** Whoever is there ends it; if nobody is, it counts no more after a while all the same. */
  #kill(): void {
    if (this.#isOver) return;
    this.#line?.say({ end: {} });
    this.#placed.kill();
    this.#waiting?.cancel();
    this.#waiting = this.#clock.after(END_MS, () => this.#end({ detail: "ended", initFailure: null }));
  }

  #end(exit: Exit): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#waiting?.cancel();
    this.#forget();
    this.#looks.giveUp();
    this.#line?.close({ end: {} });
    this.#placed.kill();
    this.#exited.resolve(exit);
  }

  #forget(): void {
    const { listener } = this.#parts;
    listener.forget(this.id, this.#ticket);
    listener.records.remove(this.id).catch((error: unknown) => this.#events.onError(error));
  }

  #obstacle(): string | null {
    if (this.#told.has("started")) return null;
    if (this.#told.has("connected")) return "its files were not fetched";
    return this.#placed.obstacle() ?? `its seat ${this.#placed.placeName} did not start`;
  }

  #tell(phase: SeatStartPhase): void {
    if (this.#told.has(phase)) return;
    this.#told.add(phase);
    this.#parts.onPhase?.(phase, this.#clock.monotonic() - this.#begunAt);
  }
}

export function whatIsMissing({ version, environment }: Workload): string | null {
  const { bundleBlob, environmentBlob } = version;
  if (bundleBlob === null || (environment !== null && environmentBlob === null))
    return "its files are in no blob, from which they could be fetched: deploy the app again";
  return null;
}

function minorOf(version: string): string {
  return version.split(".").slice(0, 2).join(".");
}

/** Why an app cannot start, as its end. */
export function refused(why: string): Exit {
  const message = `The app cannot start: ${why}.`;
  return { detail: why, initFailure: { message, traceback: message } };
}

/** One that has not been started. */
function over(exit: Exit): StartedProcess {
  const exited = Promise.resolve(exit);
  return { exited, kill: () => {}, vitals: () => null, usage: async () => null, residentBytes: () => 0 };
}
