import { createHash } from "node:crypto";
import type { Socket } from "node:net";
import { describeRunOut } from "../../host/limits/limits.ts";
import { describeExit } from "../engine.ts";
import type { Clock, Timer } from "../../kit/clock.ts";
import { randomName, randomTicket } from "../../kit/ids.ts";
import type { Exit, SeatEvents, ServerPlace } from "../engine.ts";
import type { StartedProcess } from "../local/spawn.ts";
import { Questions } from "./questions.ts";
import { refused, whyNotThere } from "./refusals.ts";
import type { RemoteParts, SeatStartPhase } from "./remote-parts.ts";
import { endOfSeat } from "./seat-limits.ts";
import { SeatLine } from "./seat-line.ts";
import type { Guest } from "./seat-listener.ts";
import { seatReader } from "./seat-messages.ts";
import type { SeatMessage, ServiceMessage, Session } from "./seat-messages.ts";
import type { PlacedSeat, SeatPlaceEvents } from "./seat-place.ts";
import type { ClaimedSeat } from "./seat-records.ts";
import { sittingOf } from "./sitting.ts";
import type { SeatStart } from "./sitting.ts";
import { strikeOff } from "./strike-off.ts";

type AgentLine = SeatLine<SeatMessage, ServiceMessage>;

/** How long the end of a place is waited for that was asked to end; its seat counts no more by then. */
const END_MS = 5_000;
/** How long a seat that was claimed may take to come: its agent may first have to find out that others are gone. */
const BACK_MS = 8_000;
/** Less than the lease of a node: whoever was frozen since then has not lost its seats yet. */
const NEAR_MS = 5_000;
const KILLED = describeExit(null, "SIGKILL");

export type RemoteSeatEvents = Pick<SeatEvents, "onLog" | "onError">;

/** By what another service may take a seat over, and what this one has taken over. */
export type SeatPast = {
  /** Marks what runs in it; null where nobody may take it over. */
  readonly mark: Buffer | null;
  /** Null for a seat that is new. */
  readonly claimed: ClaimedSeat | null;
};

/** One agent, and what it keeps. It is over once, in whichever way that is learned first. */
export class RemoteSeat implements Guest {
  readonly id: string;
  readonly process: StartedProcess;
  /** Whether the agent of one that was claimed has come, and goes on for this service. */
  readonly isBack: Promise<boolean>;
  secretHash: Buffer | null;
  readonly #parts: RemoteParts;
  readonly #start: SeatStart;
  readonly #clock: Clock;
  readonly #events: RemoteSeatEvents;
  readonly #mark: Buffer | null;
  readonly #ticket: string;
  readonly #placed: PlacedSeat;
  /** Null for one that was claimed: its start was another's. */
  readonly #begunAt: number | null;
  readonly #fence: number;
  readonly #back = Promise.withResolvers<boolean>();
  readonly #exited = Promise.withResolvers<Exit>();
  readonly #leaving = Promise.withResolvers<void>();
  readonly #questions: Questions;
  readonly #told = new Set<SeatStartPhase>();
  #secret = "";
  #line: AgentLine | null = null;
  /** Monotonic; null before anything was heard. */
  #heardAt: number | null = null;
  #waiting: Timer | null = null;
  #fault: string | null = null;
  /** Why its agent has ended all of it, if it has; for people. */
  #verdict: string | null = null;
  /** Forks that ended because memory ran out. */
  #memoryDeaths = 0;
  #isOver = false;
  /** Which services its agent knows. */
  #knows = "";

  constructor(
    parts: RemoteParts,
    start: SeatStart,
    { mark, claimed }: SeatPast,
    clock: Clock,
    events: RemoteSeatEvents,
  ) {
    this.id = claimed?.id ?? `s-${randomName(12)}`;
    this.secretHash = claimed?.secretHash ?? null;
    this.isBack = this.#back.promise;
    this.#fence = claimed?.fence ?? 1;
    this.#mark = mark;
    this.#parts = parts;
    this.#start = start;
    this.#clock = clock;
    this.#events = events;
    this.#begunAt = claimed ? null : clock.monotonic();
    this.#questions = new Questions(clock, (question) => this.#line?.say(question));
    this.#ticket = parts.listener.expect(this);
    this.#placed = this.#place(claimed);
    if (claimed) {
      const late = clock.after(BACK_MS, () => this.#end({ detail: "it did not come", initFailure: null }));
      void this.isBack.then(() => late.cancel());
    }
    this.#placed.exited.then((exit) => this.#end(exit)).catch((error: unknown) => events.onError(error));
    this.process = {
      exited: this.#exited.promise,
      leaving: this.#leaving.promise,
      kill: () => this.#kill(),
      vitals: (pid) => (this.#line ? this.#questions.vitals(pid) : null),
      usage: async (pid) => (this.#line ? await this.#questions.usage(pid) : null),
      obstacle: () => this.#obstacle(),
      residentBytes: async () => 0,
      noteImported: () => this.#tell("imported"),
      explain: (exit) => this.#explain(exit),
    };
  }

  #place(claimed: ClaimedSeat | null): PlacedSeat {
    const { place, listener, graceMs } = this.#parts;
    const { workload } = this.#start;
    const events: SeatPlaceEvents = {
      onPhase: (phase) => this.#tell(phase),
      onError: (error) => this.#events.onError(error),
    };
    if (claimed && place.adopt)
      return place.adopt({ seatId: this.id, placeName: claimed.placeName }, workload, events);
    const order = {
      seatId: this.id,
      addresses: this.#parts.addresses(),
      authority: listener.authority,
      ticket: this.#ticket,
      graceMs,
    };
    return place.begin(order, workload, events);
  }

  /** Where the app's own server takes connections. */
  async place(): Promise<ServerPlace> {
    return (this.#line && (await this.#questions.place())?.place) ?? { kind: "nowhere" };
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
      const seat = { id: this.id, secretHash, fence: this.#fence, placeName: this.#placed.placeName };
      const { appNumber, id: versionId } = version;
      await this.#parts.listener.records.add({ ...seat, appNumber, versionId, workload: this.#mark });
    } catch (error) {
      socket.destroy();
      this.#events.onError(error);
      return false;
    }
    if (this.#isOver) {
      socket.destroy();
      this.secretHash = secretHash;
      void this.#strike();
      return true;
    }
    this.#secret = secret;
    this.secretHash = secretHash;
    this.#tell("connected");
    this.#listen(socket);
    return true;
  }

  takeBack(socket: Socket, secret: string, fence: number): boolean {
    // One that another service has taken over since has a later fence than ours.
    if (this.#isOver || fence > this.#fence) return false;
    this.#secret = secret;
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
    this.#heardAt = this.#clock.monotonic();
    const session = this.#session();
    this.#knows = session.addresses.join();
    line.say({ session });
  }

  /** Nodes come and go: an agent has to know whom it may look for. */
  #tellServices(): void {
    const addresses = this.#parts.addresses();
    if (addresses.join() === this.#knows) return;
    this.#knows = addresses.join();
    this.#line?.say({ services: { addresses } });
  }

  #session(): Session {
    const { server, workload } = this.#start;
    const { storage, walls, folders } = this.#parts;
    return {
      secret: this.#secret,
      fence: this.#fence,
      grace_ms: this.#parts.graceMs,
      addresses: this.#parts.addresses(),
      sit: sittingOf(this.#start, storage, walls?.(workload, server?.port ?? 0), folders),
    };
  }

  #hear(message: SeatMessage): void {
    this.#heardAt = this.#clock.monotonic();
    if ("beat" in message) this.#tellServices();
    else if ("hello" in message) this.#meet(message.hello);
    else if ("leaving" in message) this.#leaving.resolve();
    else if ("adopted" in message) this.#back.resolve(true);
    else if ("fetched" in message) this.#tell("fetched");
    else if ("started" in message) {
      this.#tell("started");
      if (message.started.walls) this.#parts.onWalls?.(message.started.walls);
    } else if ("printed" in message) this.#events.onLog({ ...message.printed, runId: null });
    else if ("seen" in message) this.#questions.answer(message.seen);
    else if ("at" in message) this.#questions.answer(message.at);
    else if ("failed" in message) this.#end(refused(message.failed.message));
    else if ("exited" in message) {
      const exit = endOfSeat(message.exited, this.#start.workload.limits, this.#parts.folders);
      if (message.exited.full) this.#verdict = exit.detail;
      this.#end(exit);
    }
  }

  /** Where the kernel ends one process of a place, not all of it, the code alone does not tell why. */
  async #explain(exit: Exit): Promise<Exit> {
    if (this.#verdict !== null) return { ...exit, detail: this.#verdict };
    if (exit.detail !== KILLED || !this.#line) return exit;
    if ((await this.#questions.memoryDeaths()) <= this.#memoryDeaths) return exit;
    this.#memoryDeaths += 1;
    return { ...exit, detail: describeRunOut(this.#start.workload.limits), isOutOfMemory: true };
  }

  #meet(hello: Extract<SeatMessage, { hello: unknown }>["hello"]): void {
    const why = whyNotThere(this.#start.workload, hello, this.#parts.place);
    if (why !== null) this.#end(refused(why));
  }

  /** Its agent may come back: what it passes on may still be on its way. */
  #lose(): void {
    if (this.#fault !== null)
      this.#end({
        detail: `its agent broke the protocol: ${this.#fault}`,
        initFailure: null,
        fault: this.#fault,
      });
    this.#line = null;
    this.#questions.giveUp();
    if (this.#isOver) return;
    const { graceMs } = this.#parts;
    const detail = `its seat ${this.#placed.placeName} was lost: no word from it for ${graceMs / 1000} s`;
    this.#waiting = this.#clock.after(graceMs, () => this.#end({ detail, initFailure: null }));
  }

  /** Whoever is there ends it; if nobody is, it counts no more after a while all the same. */
  #kill(): void {
    if (this.#isOver) return;
    if (this.#parts.isLeft?.() && this.#mark !== null && this.secretHash !== null) {
      this.#leave();
      return;
    }
    this.#line?.say({ end: {} });
    if (this.#isSurelyOurs) this.#placed.kill();
    else void this.#strike(false);
    this.#waiting?.cancel();
    this.#waiting = this.#clock.after(END_MS, () => this.#end({ detail: "ended", initFailure: null }));
  }

  /** Its agent looks for the next service. The records still have it. */
  #leave(): void {
    this.#finish({ detail: "left to the next service", initFailure: null, isLeft: true });
    this.#line?.close();
    this.#placed.letGo?.();
  }

  #end(exit: Exit): void {
    if (this.#isOver) return;
    const isSurelyOurs = this.#isSurelyOurs;
    this.#finish(exit);
    this.#line?.close({ end: {} });
    if (isSurelyOurs) this.#placed.kill();
    void this.#strike(isSurelyOurs);
  }

  #finish(exit: Exit): void {
    this.#isOver = true;
    this.#waiting?.cancel();
    this.#parts.listener.forget(this.id, this.#ticket);
    this.#questions.giveUp();
    this.#back.resolve(false);
    this.#exited.resolve(exit);
  }

  /** Nobody can have taken it over: its agent has just been heard, or has not been with anybody yet. */
  get #isSurelyOurs(): boolean {
    const heardAt = this.#line && this.#heardAt;
    const isNear = heardAt !== null && this.#clock.monotonic() - heardAt < NEAR_MS;
    return isNear || this.secretHash === null;
  }

  /**
   * If another service has taken it over, its place is that one's to end. Nor is the place ended of one that was claimed
   * and never came: its service may be alive after all, and only have been cut off from the database.
   */
  async #strike(isEnded = true): Promise<void> {
    if (this.secretHash === null) return;
    const { records } = this.#parts.listener;
    const onError = (error: unknown): void => this.#events.onError(error);
    const isOurs = await strikeOff(
      { id: this.id, fence: this.#fence },
      { records, clock: this.#clock, onError },
    );
    if (isEnded) return;
    if (isOurs && this.#heardAt !== null) this.#placed.kill();
    else this.#placed.letGo?.();
  }

  #obstacle(): string | null {
    if (this.#told.has("started")) return null;
    if (this.#told.has("connected")) return "its files have not been fetched";
    return this.#placed.obstacle() ?? `its seat ${this.#placed.placeName} has not started`;
  }

  #tell(phase: SeatStartPhase): void {
    if (this.#told.has(phase)) return;
    this.#told.add(phase);
    if (this.#begunAt !== null) this.#parts.onPhase?.(phase, this.#clock.monotonic() - this.#begunAt);
  }
}
