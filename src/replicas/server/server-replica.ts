import { Condition } from "../../kit/concurrency.ts";
import { type Clock, pause, type Timer, withTimeout } from "../../kit/clock.ts";
import type { AppConfig, CustomRuntimeConfig } from "../../model/app-config.ts";
import type { Outcome } from "../../model/outcome.ts";
import type { Call, CallHolder } from "../call.ts";
import { LAST_WORDS_MS, ReplicaLife } from "../replica-life.ts";
import type { Exit, InitFailure, ServerPlace, StartedServer, Usage } from "../../engines/engine.ts";
import type { FleetReplica, ReplicaEvents, ReplicaSource } from "../fleet-events.ts";
import { checkServer, checkStart } from "./checks.ts";
import { Connections } from "./connections.ts";
import { HttpCall } from "./http-call.ts";
import type { PrintedLine } from "../../engines/log-lines.ts";
import type { Seats } from "../seats.ts";

/** Every third heartbeat includes a health check. */
const CHECK_ROUNDS = 3;
const MAX_FAILED_CHECKS = 3;
const FIRST_LOOK_MS = 20;
const LAST_LOOK_MS = 250;
/** How long a server without calls may take to end. */
const END_SECONDS = 10;
/** How long before it is killed WebSocket clients are notified. */
const FAREWELL_SECONDS = 6;

/** An app's own server: a process that takes calls on a port. It is given none while its ready check fails. */
class ServerReplica extends ReplicaLife<StartedServer> implements CallHolder, FleetReplica<Call> {
  /** Its wire ids are never sent, so they cannot run out. */
  readonly isWorn = false;
  readonly setupMs = null;
  isSilent = false;
  readonly #events: ReplicaEvents<Call>;
  readonly #checks: CustomRuntimeConfig;
  /** What it printed, to explain a failed start. */
  readonly #lines: LastLines;
  readonly #connections: Connections;
  #nextId = 1;
  #farewell: Timer | null = null;
  /** The result of its last check before it was ready. */
  #fault = "nothing listens on its port";
  #rounds = 0;
  #failedChecks = 0;
  #isChecking = false;
  #isAsked = false;
  #isKilled = false;
  /** Signals that no call is left. */
  readonly #lastEnded = new Condition();

  constructor(
    id: string,
    clock: Clock,
    events: ReplicaEvents<Call>,
    checks: CustomRuntimeConfig,
    lines: LastLines,
  ) {
    super(id, clock, events);
    this.#events = events;
    this.#checks = checks;
    this.#lines = lines;
    this.#connections = new Connections(clock, async () => await this.#place());
  }

  get pid(): number {
    return this.process?.pid ?? 0;
  }

  override bindTo(started: StartedServer, initSeconds: number): void {
    super.bindTo(started, initSeconds);
    this.#awaitReady().catch((error: unknown) => this.#events.onError(error));
  }

  protected describeTimeout(initSeconds: number) {
    const { unheard } = this.#lines;
    const why = this.obstacle() ?? (unheard ? `it ${unheard.why}` : this.#fault);
    const message = `the app's server was not ready within deployment_initialization_timeout (${initSeconds} s): ${why}`;
    return { message, traceback: this.#lines.above(message) };
  }

  hand(call: Call, now: number): void {
    call.holder = this;
    this.hold(call, this.#nextId++, now);
    if (!call.http) {
      // A run that was accepted when the app still had functions.
      setImmediate(() => this.#finish(call, { kind: "no_function" }));
      return;
    }
    const exchange = new HttpCall(call, call.http, this.#connections, this.#callEvents, this.clock);
    call.exchange = exchange;
    exchange.start();
  }

  /** Slots hand nothing ahead to a server. */
  withdraw(): void {}

  /** Chunks are a function's. */
  grant(): void {}

  /** Closes the connection that carries it: HTTP has no other way to cancel. */
  cancel(call: Call): void {
    if (!this.calls.holds(call)) return;
    call.exchange?.cancel();
    // The canceller reports the outcome first.
    setImmediate(() => this.#finish(call, { kind: "cancelled" }));
  }

  checkHealth(): void {
    this.#connections.sweep();
    this.#rounds += 1;
    if (this.#rounds % CHECK_ROUNDS !== 0 || this.#isChecking || this.state !== "ready") return;
    this.#isChecking = true;
    this.#check()
      .catch((error: unknown) => this.#events.onError(error))
      .finally(() => (this.#isChecking = false));
  }

  async usage(): Promise<Usage | null> {
    return (await this.process?.usage()) ?? null;
  }

  protected drain(withinSeconds: number): void {
    this.#connections.retire();
    const talkSeconds = Math.max(0, withinSeconds - FAREWELL_SECONDS);
    this.#farewell = this.clock.after(talkSeconds * 1000, () => this.#retireCalls());
    if (this.calls.size === 0) this.#askToEnd();
  }

  override kill(): void {
    this.#isKilled = true;
    this.#retireCalls();
    super.kill();
  }

  readonly #callEvents = {
    onOutcome: (call: Call, outcome: Outcome): void => this.#finish(call, outcome),
    onCut: (call: Call, message: string): void => void this.#explain(call, message),
    onUnsent: (call: Call): void => this.#giveBack(call),
  };

  #retireCalls(): void {
    for (const { exchange } of this.calls.values()) exchange?.retire();
  }

  #askToEnd(): void {
    if (this.#isAsked) return;
    this.#isAsked = true;
    this.setDeadline(END_SECONDS, () => this.kill());
    this.process?.askToEnd();
  }

  protected override release(call: Call): void {
    call.exchange = null;
    super.release(call);
    if (this.calls.size > 0) return;
    this.#lastEnded.notify();
    if (this.state === "draining") this.#askToEnd();
  }

  #finish(call: Call, outcome: Outcome): void {
    if (!this.calls.holds(call)) return;
    this.release(call);
    this.#events.onOutcome(call, outcome);
  }

  /** Its answer was cut off: because the process ended, which is reported a moment later, or because of the server. */
  async #explain(call: Call, message: string): Promise<void> {
    const exited = this.process?.exited;
    if (exited && (await withTimeout(LAST_WORDS_MS, exited, this.clock))) return;
    this.#finish(call, { kind: "broken", message, runMs: this.clock.monotonic() - call.handedAt });
  }

  /** It accepts no connections: calls wait until it does, go to another replica, or it is found dead. */
  #giveBack(call: Call): void {
    if (!this.calls.holds(call)) return;
    this.#setSilent(true);
    this.release(call);
    call.wireId = 0;
    this.#events.onWithdrawn(call);
  }

  #setSilent(isSilent: boolean): void {
    if (this.isSilent === isSilent || this.state !== "ready") return;
    this.isSilent = isSilent;
    this.#events.onSilence(isSilent);
  }

  async #awaitReady(): Promise<void> {
    let waitMs = FIRST_LOOK_MS;
    let taken = 0;
    while (this.state === "starting") {
      const place = await this.#place();
      taken = place.kind === "taken" ? taken + 1 : 0;
      const fault = await checkStart(place, this.#checks.readycheckEndpoint, this.clock);
      if (fault === null && place.kind === "listening") return this.#becomeReady(place);
      // A single time may be a moment in which its own process was not visible.
      if (taken > 1 && fault !== null) {
        this.initFailure = { message: `The app cannot start: ${fault}.`, traceback: fault };
        this.kill();
        return;
      }
      if (fault !== null) this.#fault = fault;
      await pause(this.clock, waitMs);
      waitMs = Math.min(LAST_LOOK_MS, waitMs * 1.5);
    }
  }

  #becomeReady(place: Extract<ServerPlace, { kind: "listening" }>): void {
    if (!this.move("ready")) return;
    this.#connections.know(place);
    if (place.isFixed) {
      this.#events.onSingle();
      this.#say(`the server listens on port ${place.port} whatever PORT says: it runs as one replica`);
    }
    if (place.isOpen)
      this.#say(
        `the server listens on every address of this host: port ${place.port} can be reached past the service, without a token`,
      );
    this.#events.onReady([]);
  }

  /** Adds a line of the service to the app's log. */
  #say(text: string): void {
    this.#events.onLog({ stream: "stderr", runId: null, text: `[millrace] ${text}` });
  }

  async #check(): Promise<void> {
    const { healthcheckEndpoint, readycheckEndpoint } = this.#checks;
    const place = await this.#place();
    const fault = await checkServer(place, healthcheckEndpoint, this.clock);
    this.#failedChecks = fault === null ? 0 : this.#failedChecks + 1;
    if (fault !== null && this.#failedChecks >= MAX_FAILED_CHECKS)
      return this.giveUp(`its health check failed ${MAX_FAILED_CHECKS} times in a row: ${fault}`);
    if (place.kind === "listening") this.#connections.know(place);
    const isSame = readycheckEndpoint === healthcheckEndpoint;
    const unready = isSame ? fault : await checkServer(place, readycheckEndpoint, this.clock);
    this.#setSilent(unready !== null);
  }

  async #place(): Promise<ServerPlace> {
    return (await this.process?.place()) ?? { kind: "nowhere" };
  }

  protected override retreat(): void {
    if (this.state === "ready") this.#connections.retire();
    super.retreat();
  }

  /** Its last answers may still be unread. */
  protected async lastWords(): Promise<void> {
    if (this.calls.size > 0) await withTimeout(LAST_WORDS_MS, this.#lastEnded.wait(), this.clock);
  }

  protected leave(exit: Exit): void {
    const wasReady = this.readyAt > 0;
    this.move("leave");
    this.#farewell?.cancel();
    const lost = [...this.calls.values()];
    for (const { exchange } of lost) exchange?.destroy();
    this.#connections.close();
    this.calls.clear();
    this.busy = 0;
    const initFailure = exit.initFailure ?? this.initFailure ?? (wasReady ? null : this.#earlyEnd(exit));
    const { silence } = this;
    const { detail, isOutOfMemory, isOutOfGpuMemory } = exit;
    const cause = { ...(isOutOfMemory && { isOutOfMemory }), ...(isOutOfGpuMemory && { isOutOfGpuMemory }) };
    const told = silence === null ? { detail, ...cause } : { detail: silence, silence };
    this.#events.onGone({ ...told, initFailure }, lost, []);
  }

  /** It ended before it was ready: its last output says why. If the service killed it, it has not failed. */
  #earlyEnd({ detail }: Exit): InitFailure | null {
    if (this.isCondemned || this.#isKilled) return null;
    const message = `The app's server ended before it was ready (${detail})${this.#lines.lastWords()}`;
    // The port that it could not listen on, unless it is the one for its calls.
    const portInUse = this.#lines.unheard?.port ?? null;
    return { message, traceback: this.#lines.above(message), ...(portInUse !== null && { portInUse }) };
  }
}

const MAX_LINES = 30;
const MAX_CHARS = 500;

/** How the agent reports that a port was in use (`python/millrace_walls/server_port.py`). */
const CANNOT_LISTEN = /^\[millrace\] (cannot listen on (?:TCP port (\d{1,5})|PORT).*)$/;

/** The last lines that a process printed. */
class LastLines {
  readonly #lines: string[] = [];
  /** Why it could not listen on a port, and which one; null if unknown. */
  unheard: { readonly why: string; readonly port: number | null } | null = null;

  add(text: string): void {
    if (text.trim() === "") return;
    const [, why, port] = CANNOT_LISTEN.exec(text.slice(0, MAX_CHARS)) ?? [];
    if (why !== undefined) this.unheard = { why, port: port === undefined ? null : Number(port) };
    this.#lines.push(text.slice(0, MAX_CHARS));
    if (this.#lines.length > MAX_LINES) this.#lines.shift();
  }

  /** The last line and why it could not listen, to complete a sentence. */
  lastWords(): string {
    const last = this.#lines.at(-1);
    const why = this.unheard?.why;
    if (why === undefined) return last === undefined ? "." : `: ${last}`;
    return last === undefined || last.endsWith(why) ? `: it ${why}.` : `: ${last}. It ${why}.`;
  }

  /** All lines, with that message below. */
  above(message: string): string {
    return [...this.#lines, message].join("\n");
  }
}

/** Starts the replicas of an app with its own server; each is reached on a port. */
export function serverReplicas(
  { deployment }: AppConfig,
  checks: CustomRuntimeConfig,
  { seats, clock }: { readonly seats: Pick<Seats, "serve" | "close">; readonly clock: Clock },
): ReplicaSource<Call, ServerReplica> {
  return {
    // Its port may be hard-coded.
    mayBeSingle: true,
    open: (id, events) => {
      const lines = new LastLines();
      const replica: ServerReplica = new ServerReplica(id, clock, events, checks, lines);
      const output = {
        onLog: (line: PrintedLine) => {
          // They only explain a failed start.
          if (replica.readyAt === 0) lines.add(line.text);
          events.onLog(line);
        },
        onError: (error: unknown) => events.onError(error),
      };
      const started = seats.serve(output, id);
      void started.leaving?.then(() => events.onLeaving());
      replica.bindTo(started, deployment.deploymentInitializationTimeoutSeconds);
      return replica;
    },
    close: () => seats.close(),
  };
}
