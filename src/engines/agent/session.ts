import { createHash } from "node:crypto";
import type { Socket } from "node:net";
import type { StandingWalls } from "../../host/walls/walls.ts";
import type { Clock, Timer } from "../../kit/clock.ts";
import { randomName, randomTicket } from "../../kit/ids.ts";
import type { Exit, Workload } from "../engine.ts";
import type { Moves } from "../protocol.ts";
import { askedLimits, type FolderLimits, type GuestWalls } from "./seat-walls.ts";
import { SeatLine } from "./seat-line.ts";
import type { Guest, SeatListener } from "./seat-listener.ts";
import { type SeatMessage, seatReader, type ServiceMessage, type Assignment } from "./seat-messages.ts";
import type { PlacedSeat, SeatPlace, SeatPlaceEvents } from "./seat-place.ts";
import type { ClaimedSeat, SeatProof } from "./seat-records.ts";

/** The phases of a start, each told once, with the milliseconds since it was asked for. */
export type SeatStartPhase = "scheduled" | "pulled" | "connected" | "fetched" | "started" | "imported";

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
  /** The walls of apps where a place is shared; `ownPort` is that of a server, else 0. */
  readonly walls?: (workload: Workload, ownPort: number) => GuestWalls;
  /** What the folders of apps may hold where a place is shared; other places limit them themselves. */
  readonly folders?: FolderLimits;
  readonly onPhase?: (phase: SeatStartPhase, ms: number) => void;
  readonly onWalls?: (walls: StandingWalls) => void;
  /** Whether seats that end now are left to the next service, which starts within the grace; absent for never. */
  readonly isLeft?: () => boolean;
};

export type SeatStart = Pick<Assignment, "order" | "server"> & { readonly workload: Workload };

/** The agent's order for it; `storage` is where places have a project's storage. */
export function assignmentOf(
  { workload, order, server }: SeatStart,
  storage: string,
  around?: GuestWalls,
  folders?: FolderLimits,
): Assignment {
  const { bundleBlob, environmentBlob } = workload.version;
  return {
    bundle: bundleBlob ?? "",
    environment: environmentBlob,
    // A shared place has one folder for all projects.
    storage: around ? `${storage}/${workload.projectId}` : storage,
    variables: { ...around?.variables, ...workload.variables },
    walls: around?.asked ?? null,
    limits: askedLimits(workload.limits, folders),
    order,
    server,
  };
}

/** Whether the agent is there, and whether it is meant to be. */
type SessionState = "expected" | "online" | "offline" | "ending" | "over";
type SessionEvent = "connect" | "lose" | "end" | "close";

/** What may happen to a session; anything else is ignored or refused. `SEAT_MOVES` says what an agent may send. */
export const SESSION_MOVES: Moves<SessionState, SessionEvent> = {
  // The agent has not connected yet, or not to this service.
  expected: { connect: "online", end: "ending", close: "over" },
  // An agent may reconnect before the loss of its last connection is noticed.
  online: { connect: "online", lose: "offline", end: "ending", close: "over" },
  // The agent may come back within the grace period.
  offline: { connect: "online", end: "ending", close: "over" },
  // The seat was asked to end, or says that it does. Reconnecting does not save it.
  ending: { connect: "ending", lose: "ending", close: "over" },
  over: {},
};

/** What an agent is started for, and what its session reports. */
export type SessionTask = SeatPlaceEvents & {
  readonly workload: Workload;
  /** The first phase of `SEAT_MOVES` on each connection: the agent of an app, or of a build. */
  readonly first: "greeting" | "hired";
  addresses(): readonly string[];
  /** What the agent is to do, told on each connection. */
  assignment(): Assignment;
  uses(blob: string): boolean;
  /** Stores the hash of the secret, before the agent learns the secret; absent where no other service needs it. */
  record?(proof: SeatProof, placeName: string): Promise<void>;
  /** The agent has connected, again perhaps, and knows what to do. */
  onConnected(): void;
  onMessage(message: SeatMessage): void;
  onDisconnected?(): void;
  onFault(fault: string): void;
  /** The agent did not come back within the grace period. */
  onLost(): void;
  onExited(exit: Exit): void;
  /** The agent came when the session was over, and its secret has been stored meanwhile. */
  onTooLate?(): void;
};

/** The service's side of one remote agent: starts it, admits it by ticket and then by secret, and survives lost connections. */
export class AgentSession implements Guest {
  readonly id: string;
  readonly fence: number;
  readonly placed: PlacedSeat;
  secretHash: Buffer | null;
  /** Monotonic; null before anything was heard. */
  heardAt: number | null = null;
  readonly #parts: RemoteParts;
  readonly #task: SessionTask;
  readonly #clock: Clock;
  readonly #ticket: string;
  #state: SessionState = "expected";
  #line: SeatLine<SeatMessage, ServiceMessage> | null = null;
  /** Ends an agent that does not come back, or does not end. */
  #deadline: Timer | null = null;
  #knows = "";

  /** Continues a claimed seat, or begins a new one. */
  constructor(parts: RemoteParts, task: SessionTask, claimed: ClaimedSeat | null, clock: Clock) {
    this.id = claimed?.id ?? `s-${randomName(12)}`;
    this.fence = claimed?.fence ?? 1;
    this.secretHash = claimed?.secretHash ?? null;
    this.#parts = parts;
    this.#task = task;
    this.#clock = clock;
    this.#ticket = parts.listener.expect(this);
    this.placed = this.#place(claimed);
    this.placed.exited.then((exit) => task.onExited(exit)).catch((error: unknown) => task.onError(error));
  }

  #place(claimed: ClaimedSeat | null): PlacedSeat {
    const { place, listener, graceMs } = this.#parts;
    const { id: seatId } = this;
    const task = this.#task;
    if (claimed && place.adopt)
      return place.adopt({ seatId, placeName: claimed.placeName }, task.workload, task);
    const { authority } = listener.parts.identity;
    const order = { seatId, addresses: task.addresses(), authority, ticket: this.#ticket, graceMs };
    return place.begin(order, task.workload, task);
  }

  get isConnected(): boolean {
    return this.#line !== null;
  }

  get isEnding(): boolean {
    return this.#state === "ending";
  }

  /** Returns false while the agent is not connected. */
  say(message: ServiceMessage): boolean {
    this.#line?.say(message);
    return this.isConnected;
  }

  uses(blob: string): boolean {
    return this.#task.uses(blob);
  }

  async admit(socket: Socket): Promise<boolean> {
    const secret = randomTicket();
    const secretHash = createHash("sha256").update(secret).digest();
    const { id, fence } = this;
    try {
      await this.#task.record?.({ id, secretHash, fence }, this.placed.placeName);
    } catch (error) {
      socket.destroy();
      this.#task.onError(error);
      return false;
    }
    this.secretHash = secretHash;
    if (this.#connect(socket, secret)) return true;
    socket.destroy();
    this.#task.onTooLate?.();
    return true;
  }

  takeBack(socket: Socket, secret: string, fence: number): boolean {
    // One that another service has taken over since has a later fence than ours.
    return fence <= this.fence && this.#connect(socket, secret);
  }

  /** Gives the seat so long to end; its deadline is not put off by anything. False if it was ending already, or is over. */
  end(withinMs: number, onLate: () => void): boolean {
    if (!this.#move("end")) return false;
    this.#wait(withinMs, onLate);
    return true;
  }

  /** Admits no agent any more; false if it was closed before. */
  close(lastWord?: ServiceMessage): boolean {
    if (!this.#move("close")) return false;
    this.#deadline?.cancel();
    this.#parts.listener.forget(this.id, this.#ticket);
    this.#line?.close(lastWord);
    return true;
  }

  #move(event: SessionEvent): boolean {
    const next = SESSION_MOVES[this.#state][event];
    if (next === undefined) return false;
    this.#state = next;
    return true;
  }

  #wait(ms: number, onLate: () => void): void {
    this.#deadline?.cancel();
    this.#deadline = this.#clock.after(ms, onLate);
  }

  #connect(socket: Socket, secret: string): boolean {
    if (!this.#move("connect")) return false;
    if (this.#state === "online") this.#deadline?.cancel();
    const before = this.#line;
    this.#line = null;
    before?.close();
    const task = this.#task;
    const read = seatReader(task.first);
    const line: SeatLine<SeatMessage, ServiceMessage> = new SeatLine(socket, this.#clock, read, {
      onMessage: (message) => this.#hear(message),
      onFault: (fault) => task.onFault(fault),
      onError: (error) => task.onError(error),
      onEnded: () => this.#line === line && this.#lose(),
    });
    this.#line = line;
    this.heardAt = this.#clock.monotonic();
    const addresses = task.addresses();
    this.#knows = addresses.join();
    const { fence } = this;
    line.say({
      session: { secret, fence, grace_ms: this.#parts.graceMs, addresses, sit: task.assignment() },
    });
    task.onConnected();
    return true;
  }

  #hear(message: SeatMessage): void {
    this.heardAt = this.#clock.monotonic();
    if (!("beat" in message)) {
      this.#task.onMessage(message);
      return;
    }
    // Nodes come and go: an agent has to know where it may look for one.
    const addresses = this.#task.addresses();
    if (addresses.join() === this.#knows) return;
    this.#knows = addresses.join();
    this.#line?.say({ services: { addresses } });
  }

  #lose(): void {
    this.#line = null;
    this.#task.onDisconnected?.();
    if (this.#move("lose") && this.#state === "offline")
      this.#wait(this.#parts.graceMs, () => this.#task.onLost());
  }
}
