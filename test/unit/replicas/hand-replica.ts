import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { onTestFinished } from "vitest";
import { Condition } from "../../../src/kit/concurrency.ts";
import type { Call } from "../../../src/replicas/call.ts";
import type { Exit, ReplicaStart, Started, Usage, Vitals } from "../../../src/engines/engine.ts";
import { FRAME, FrameReader, HEAD_BYTES } from "../../../src/replicas/frames.ts";
import { type ConnectionKind, Home } from "../../../src/engines/home.ts";
import type { Seats } from "../../../src/replicas/seats.ts";
import { until } from "../../support/until.ts";

type FrameName = keyof typeof FRAME;

const NAMES = new Map(Object.entries(FRAME).map(([name, type]) => [type as number, name as FrameName]));
const RUN = {
  name: "run",
  parameters: [],
  is_async: false,
  is_generator: false,
  wants_run_id: false,
  doc: null,
  returns: {},
};

/** A replica's process as a test plays it: it calls home by real sockets, and says there what the test wants. */
export class HandReplica implements Started {
  readonly exited: Promise<Exit>;
  readonly leaving: Promise<void>;
  /** Its place is about to end. */
  readonly leave: () => void;
  /** Resolves when it has its GPU; absent if it asks for none. */
  readonly granted?: Promise<void>;
  /** How often it was to be ended at once. */
  kills = 0;
  /** It answers no PING. */
  isDumb = false;
  /** How it looks from outside. */
  look: Vitals | null = null;
  /** What it uses. */
  uses: Usage | null = null;
  /** How often somebody wanted to know that. */
  usageLooks = 0;
  obstacleLooks = 0;
  /** What it was told: the frame's name and the call's id on the wire. */
  readonly told: `${FrameName} ${number}`[] = [];
  readonly #address: string;
  readonly #ticket: string;
  readonly #news = new Condition();
  readonly #sockets = new Map<ConnectionKind, Socket>();
  readonly #exit: (exit: Exit) => void;

  constructor(address: string, ticket: string, granted?: Promise<void>) {
    if (granted) this.granted = granted;
    this.#address = address;
    this.#ticket = ticket;
    const { promise, resolve } = Promise.withResolvers<Exit>();
    this.exited = promise;
    this.#exit = resolve;
    const leaving = Promise.withResolvers<void>();
    this.leaving = leaving.promise;
    this.leave = leaving.resolve;
  }

  /** It begins to import the app. Its connection tells at once when it ends. */
  async callHome(): Promise<void> {
    await this.#connect("wire");
  }

  /** It has imported the app, whose `setup()` took that long: from now on it takes calls. */
  async hello(setupMs: number | null = null): Promise<void> {
    if (!this.#sockets.has("wire")) await this.#connect("wire");
    await this.#connect("control");
    const hello = { pid: 1, python: "3.12.0", functions: [RUN], setup_ms: setupMs };
    this.#say("HELLO", 0, JSON.stringify(hello));
  }

  /** Its import raises, and it ends. */
  async failToImport(message: string): Promise<void> {
    await this.callHome();
    this.#say("INIT_FAILED", 0, JSON.stringify({ message, traceback: message }));
    this.exit("exit code 1");
  }

  /** A call's function has returned, after so many milliseconds of its own measure. */
  returns({ wireId }: Call, runMs = 1): void {
    const payload = Buffer.alloc(12, "[]");
    payload.writeDoubleLE(runMs, 0);
    payload.writeUInt16LE(0, 8);
    this.#say("RESULT", wireId, payload);
  }

  /** The code of a cancelled call has stopped. */
  stopped({ wireId }: Call): void {
    this.#say("CANCELLED", wireId);
  }

  /** Gives a call back that it was asked for. */
  givesBack({ wireId }: Call): void {
    this.#say("WITHDRAWN", wireId);
  }

  /** The process ends by itself. */
  exit(detail = "exit code 0"): void {
    for (const socket of this.#sockets.values()) socket.destroySoon();
    this.#exit({ detail, initFailure: null });
  }

  /** What an engine does when it is to end the process. */
  kill(): void {
    this.kills += 1;
    this.exit("killed by SIGKILL");
  }

  vitals(): Vitals | null {
    return this.look;
  }

  obstacle(): string | null {
    this.obstacleLooks += 1;
    return this.granted ? "H100 is in use" : null;
  }

  async usage(): Promise<Usage | null> {
    this.usageLooks += 1;
    return this.uses;
  }

  /** Says that it lives. */
  pong(): void {
    this.#say("PONG", 0);
  }

  /** Waits until it was told that, of a call that it holds by then. */
  async hears(frame: FrameName, call?: Call): Promise<void> {
    const isTold = (): boolean => {
      const wireId = call?.wireId ?? 0;
      return (!call || wireId > 0) && this.told.includes(`${frame} ${wireId}`);
    };
    await until(`the replica hears ${frame}`, isTold, this.#news);
  }

  async #connect(kind: "wire" | "control"): Promise<void> {
    // The service closes its half when it wants no more calls; results go on.
    const socket = connect({ path: this.#address, allowHalfOpen: true });
    await once(socket, "connect");
    socket.on("error", () => {}); // The service has let go of it.
    const reader = new FrameReader({
      admit: () => {},
      onFrame: (type, callId) => {
        this.told.push(`${NAMES.get(type) ?? "CALL"} ${callId}`);
        if (type === FRAME.PING && !this.isDumb) this.pong();
        this.#news.notify();
      },
    });
    socket.on("data", (data: Buffer) => reader.push(data));
    socket.write(`millrace 1 ${kind} ${this.#ticket}\n`);
    this.#sockets.set(kind, socket);
  }

  #say(frame: FrameName, callId: number, payload: Buffer | string = ""): void {
    const body = Buffer.from(payload);
    const head = Buffer.alloc(HEAD_BYTES);
    head.writeUInt32LE(body.length, 0);
    head.writeUInt32LE(callId, 4);
    head[8] = FRAME[frame];
    const socket = this.#sockets.get(frame === "WITHDRAWN" || frame === "PONG" ? "control" : "wire");
    if (!socket) throw new Error("it has not called home");
    socket.write(Buffer.concat([head, body]));
  }
}

/** Starts replicas that the test plays. */
export class HandSeats implements Pick<Seats, "start" | "serve" | "close"> {
  /** All that were asked for, in order. */
  readonly started: HandReplica[] = [];
  /** If set, replicas that are started wait until it resolves. */
  gpu: Promise<void> | undefined;
  readonly #home: Home;

  constructor(home: Home) {
    this.#home = home;
  }

  start({ ticket }: ReplicaStart): Started {
    const replica = new HandReplica(this.#home.address, ticket, this.gpu);
    this.started.push(replica);
    return replica;
  }

  serve(): never {
    throw new Error("the replicas played here are functions'");
  }

  /** One of those that were asked for. */
  replica(place: number): HandReplica {
    const replica = this.started.at(place);
    if (!replica) throw new Error(`no replica ${place} was started`);
    return replica;
  }

  async close(): Promise<void> {
    for (const replica of this.started) replica.exit();
  }
}

/** A home on a real socket for one test; whoever is done with it closes it first, then what was opened here. */
export async function handHome(end: () => Promise<void>): Promise<Home> {
  const directory = mkdtempSync(path.join(tmpdir(), "millrace-home-"));
  const home = await Home.open(directory);
  onTestFinished(async () => {
    await end();
    await home.close();
    rmSync(directory, { recursive: true, force: true });
  });
  return home;
}
