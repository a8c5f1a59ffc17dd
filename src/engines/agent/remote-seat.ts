import { runsOn } from "../../host/interpreter.ts";
import { backoffMs, retry } from "../../kit/retry.ts";
import type { Clock } from "../../kit/clock.ts";
import { type Exit, noStartTimes, type ServerPlace, type Workload, ended, refused } from "../engine.ts";
import type { StartedProcess } from "../local/spawn.ts";
import { Questions } from "./agent-messages.ts";
import { endOfSeat } from "./seat-walls.ts";
import type { SeatMessage, ServiceMessage } from "./seat-messages.ts";
import type { SeatPlace } from "./seat-place.ts";
import type { ClaimedSeat, SeatProof } from "./seat-records.ts";
import { AgentSession, assignmentOf } from "./session.ts";
import type { RemoteParts, SeatStart, SeatStartPhase } from "./session.ts";
import { explainer, type Verdict } from "../local/limited.ts";
import type { OutputEvents } from "../log-lines.ts";

/** How long a place may take to end; then its seat counts as ended. */
const END_MS = 5_000;
/** How long the agent of a claimed seat may take to connect: it may first have to try services that are gone. */
const BACK_MS = 8_000;
/** Less than the lease of a node: a service that was frozen since then has not lost its seats yet. */
const NEAR_MS = 5_000;
const REMOVAL_FIRST_WAIT_MS = 500;
const REMOVAL_LONGEST_WAIT_MS = 15_000;
/** Then its agent ends by itself, and its place with it. */
const MAX_REMOVALS = 10;

/** A remote seat of an app, which another service may take over. */
export class RemoteSeat {
  readonly process: StartedProcess;
  /** Whether the agent of a claimed seat has connected, and continues for this service. */
  readonly isBack: Promise<boolean>;
  readonly #parts: RemoteParts;
  readonly #start: SeatStart;
  readonly #clock: Clock;
  readonly #events: OutputEvents;
  /** Marks what runs in it, for the service that may take it over; null if none may. */
  readonly #mark: Buffer | null;
  readonly #session: AgentSession;
  /** Null for a claimed seat: another service has started it. */
  readonly #begunAt: number | null;
  readonly #back = Promise.withResolvers<boolean>();
  readonly #exited = Promise.withResolvers<Exit>();
  readonly #leaving = Promise.withResolvers<void>();
  readonly #questions: Questions;
  readonly #times = noStartTimes();
  readonly #told = new Set<SeatStartPhase>();
  readonly #verdict: Verdict = { why: null };
  /** Its agent has said on this connection that the program runs: before that it has nothing to look at. */
  #hasStarted = false;

  constructor(
    parts: RemoteParts,
    start: SeatStart,
    mark: Buffer | null,
    claimed: ClaimedSeat | null,
    clock: Clock,
    events: OutputEvents,
  ) {
    this.isBack = this.#back.promise;
    this.#mark = mark;
    this.#parts = parts;
    this.#start = start;
    this.#clock = clock;
    this.#events = events;
    this.#begunAt = claimed ? null : clock.monotonic();
    this.#questions = new Questions(clock, (question) => this.#hasStarted && this.say(question));
    this.#session = this.#open(claimed);
    if (claimed) {
      const late = clock.after(BACK_MS, () => this.#end(ended("it did not come")));
      void this.isBack.then(() => late.cancel());
    }
    this.process = {
      exited: this.#exited.promise,
      leaving: this.#leaving.promise,
      kill: () => this.#kill(),
      vitals: (pid) => this.#questions.vitals(pid),
      usage: (pid) => this.#questions.usage(pid),
      obstacle: () => this.#obstacle(),
      residentBytes: async () => 0,
      noteImported: () => this.#tell("imported"),
      times: () => this.#times,
      explain: explainer(start.workload.limits, this.#verdict, this.#questions),
    };
  }

  #open(claimed: ClaimedSeat | null): AgentSession {
    const { addresses, storage, walls, folders, listener, graceMs } = this.#parts;
    const { workload, server } = this.#start;
    const { bundleBlob, environmentBlob, appNumber, id: versionId } = workload.version;
    return new AgentSession(
      this.#parts,
      {
        workload,
        first: "greeting",
        addresses,
        assignment: () => assignmentOf(this.#start, storage, walls?.(workload, server?.port ?? 0), folders),
        uses: (blob) => blob === bundleBlob || blob === environmentBlob,
        record: (proof, placeName) =>
          listener.parts.records.add({ ...proof, placeName, appNumber, versionId, workload: this.#mark }),
        onPhase: (phase) => this.#tell(phase),
        onConnected: () => {
          this.#tell("connected");
          // It may have been asked to end while its agent was not connected.
          if (this.#session.isEnding) this.say({ end: {} });
        },
        onMessage: (message) => this.#hear(message),
        onDisconnected: () => {
          this.#hasStarted = false;
          this.#questions.giveUp();
        },
        onFault: (fault) =>
          this.#end({ detail: `its agent broke the protocol: ${fault}`, initFailure: null, fault }),
        onLost: () => {
          const { placeName } = this.#session.placed;
          this.#end(ended(`its seat ${placeName} was lost: no word from it for ${graceMs / 1000} s`));
        },
        onExited: (exit) => this.#end(exit),
        onTooLate: () => void this.#giveUpSeat(),
        onError: (error) => this.#events.onError(error),
      },
      claimed,
      this.#clock,
    );
  }

  async place(): Promise<ServerPlace> {
    return (await this.#questions.place())?.place ?? { kind: "nowhere" };
  }

  say(message: ServiceMessage): boolean {
    return this.#session.say(message);
  }

  #hear(message: SeatMessage): void {
    if ("hello" in message) {
      const why = whyNotThere(this.#start.workload, message.hello, this.#parts.place);
      if (why !== null) this.#end(refused(why));
    } else if ("leaving" in message) this.#leaving.resolve();
    else if ("adopted" in message) this.#back.resolve(true);
    else if ("fetched" in message) this.#tell("fetched");
    else if ("started" in message) {
      this.#hasStarted = true;
      this.#tell("started");
      if (message.started.walls) this.#parts.onWalls?.(message.started.walls);
    } else if ("printed" in message) this.#events.onLog({ ...message.printed, runId: null });
    else if ("seen" in message) this.#questions.answer(message.seen);
    else if ("at" in message) this.#questions.answer(message.at);
    else if ("failed" in message) this.#end(refused(message.failed.message));
    else if ("exited" in message) {
      const exit = endOfSeat(message.exited, this.#start.workload.limits, this.#parts.folders);
      if (message.exited.full) this.#verdict.why = exit.detail;
      this.#end(exit);
    }
  }

  #kill(): void {
    if (this.#parts.isLeft?.() && this.#mark !== null && this.#session.secretHash !== null) {
      this.#leave();
      return;
    }
    if (!this.#session.end(END_MS, () => this.#end(ended("ended")))) return;
    this.say({ end: {} });
    if (this.#isSurelyOurs) this.#session.placed.kill();
    else void this.#giveUpSeat(false);
  }

  /** Its agent looks for the next service. The records still have it. */
  #leave(): void {
    if (!this.#session.close()) return;
    this.#finish({ detail: "left to the next service", initFailure: null, isLeft: true });
    this.#session.placed.letGo?.();
  }

  #end(exit: Exit): void {
    const isSurelyOurs = this.#isSurelyOurs;
    if (!this.#session.close({ end: {} })) return;
    this.#finish(exit);
    if (isSurelyOurs) this.#session.placed.kill();
    void this.#giveUpSeat(isSurelyOurs);
  }

  #finish(exit: Exit): void {
    this.#questions.giveUp();
    this.#back.resolve(false);
    this.#exited.resolve(exit);
  }

  /** No other service can have taken it over: its agent was just heard, or has never connected. */
  get #isSurelyOurs(): boolean {
    const { isConnected, heardAt, secretHash } = this.#session;
    const isNear = isConnected && heardAt !== null && this.#clock.monotonic() - heardAt < NEAR_MS;
    return isNear || secretHash === null;
  }

  /** Leaves its place if another service may have it: the service of a claimed seat may be cut off from the database only. */
  async #giveUpSeat(isEnded = true): Promise<void> {
    const session = this.#session;
    if (session.secretHash === null) return;
    const isOurs = await this.#removeRecord(session);
    if (isEnded) return;
    if (isOurs && session.heardAt !== null) session.placed.kill();
    else session.placed.letGo?.();
  }

  /** Removes its record, so that its agent ends if it comes back. False if another service may have it by now. */
  async #removeRecord({ id, fence }: Pick<SeatProof, "id" | "fence">): Promise<boolean> {
    let tries = 0;
    const isOurs = await retry(() => this.#parts.listener.parts.records.remove({ id, fence }), {
      clock: this.#clock,
      delayMs: (failures) => backoffMs(failures, REMOVAL_FIRST_WAIT_MS, REMOVAL_LONGEST_WAIT_MS),
      shouldRetry: (error) => {
        if (tries++ === 0) this.#events.onError(error);
        return tries < MAX_REMOVALS;
      },
    });
    return isOurs ?? false;
  }

  #obstacle(): string | null {
    if (this.#told.has("started")) return null;
    if (this.#told.has("connected")) return "its files have not been fetched";
    const { placed } = this.#session;
    return placed.obstacle() ?? `its seat ${placed.placeName} has not started`;
  }

  #tell(phase: SeatStartPhase): void {
    if (this.#told.has(phase)) return;
    this.#told.add(phase);
    const now = this.#clock.monotonic();
    if (phase === "scheduled" || phase === "pulled" || phase === "imported") this.#times[`${phase}At`] = now;
    if (this.#begunAt !== null) this.#parts.onPhase?.(phase, now - this.#begunAt);
  }
}

/** Why an app cannot start in any remote seat; null if it can. */
export function whatIsMissing({ version, environment }: Workload): string | null {
  const { bundleBlob, environmentBlob } = version;
  if (bundleBlob === null || (environment !== null && environmentBlob === null))
    return "its files are in no blob, from which they could be fetched: deploy the app again";
  return null;
}

/** Why it cannot start on that Python: packages for another one would fail in ways that are hard to understand. */
function whyNotThere(
  { version: { environmentTag }, python: wish, image }: Workload,
  { python, tag }: { readonly python: string; readonly tag: string },
  place: Pick<SeatPlace, "name" | "builds">,
): string | null {
  if (environmentTag !== null && !runsOn(environmentTag, tag))
    return `its packages are for ${environmentTag}, and ${place.name} has ${tag}`;
  // An image of the app's own has the Python that it has.
  if (image && place.builds) return null;
  const minor = (version: string) => version.split(".", 2).join(".");
  if (wish && minor(python) !== minor(wish.version))
    return `it asks for Python ${wish.version}, and ${place.name} has ${python}`;
  return null;
}
