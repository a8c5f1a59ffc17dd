import { realpathSync, statSync } from "node:fs";
import type { Socket } from "node:net";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { z } from "zod";
import type { StorageFolders } from "../../host/storage/folders.ts";
import { startOf } from "../../host/interpreter.ts";
import { NO_NETWORK } from "../../host/walls/network.ts";
import { makeScratch, removeScratch } from "../../host/walls/scratch.ts";
import { type Timer, withTimeout } from "../../kit/clock.ts";
import { FairLane } from "../../kit/concurrency.ts";
import { AppError } from "../../model/errors.ts";
import type { Home } from "../home.ts";
import { type Agent, startAgent } from "../local/agent.ts";
import type { ProcessHost } from "../local/host.ts";

type HelperParts = Pick<ProcessHost, "python" | "dataDir" | "clock"> & {
  readonly folders: StorageFolders;
  readonly home: Pick<Home, "address" | "expect" | "forget">;
};

/** What a helper does; the fields are those of `python/millrace_storage/start.py`. */
export type StorageOrder = { readonly operation: string } & Readonly<Record<string, unknown>>;

/** A list of as many entries as there may be, each with a long name. */
const MAX_ANSWER_BYTES = 64 * 1024 * 1024;
/** Each is one process. */
const LIMITS = { total: 32, perKey: 8, waiting: 64, waitMs: 30_000 };
/** Helpers that are kept, each two processes. There is always an idle one among so many, since no more operations run. */
const MAX_HELPERS = LIMITS.total;
export const HELPER_IDLE_MS = 30_000;
/** How long an operation may take to begin, with the start of its helper. */
export const BEGIN_MS = 30_000;
const MAX_COMPLAINT_CHARS = 1_000;

const ANSWER = z.union([
  z.strictObject({ done: z.unknown() }),
  z.strictObject({ error: z.string().max(40) }),
  z.strictObject({ refused: z.string().max(200) }),
]);

/** What the caller has to be told about a path. */
export class RefusedPath extends Error {}

/**
 * Works on the storage of projects that have users of their own: each operation is a process of the project's user
 * behind the walls of its apps. The service itself touches nothing in there, so nothing that an app puts there makes
 * root follow a link, wait for a pipe or open a device. A project's operations are forks of one process, which is kept
 * for a while; it opens nothing in the storage, so that nothing of one operation reaches the next.
 */
export class StorageHelper {
  readonly #parts: HelperParts;
  readonly #lane: FairLane;
  readonly #helpers = new Map<string, ProjectHelper>();
  /** All that live, among them those that have been replaced and finish their operations. */
  readonly #living = new Set<ProjectHelper>();
  #isStopped = false;

  constructor(parts: HelperParts) {
    this.#parts = parts;
    this.#lane = new FairLane(LIMITS, parts.clock);
  }

  /** Carries out an operation, which may read the file `source`. Rejects with the file system's error, or `RefusedPath`. */
  async ask(projectId: string, order: StorageOrder, source: string | null = null): Promise<unknown> {
    const { socket, done } = await this.#begin(projectId, order, source);
    readToEnd(socket);
    return done;
  }

  /** The same for an operation that gives bytes, after its answer. `end` cancels it. */
  async stream(projectId: string, order: StorageOrder) {
    const { socket } = await this.#begin(projectId, order, null);
    const rest: Readable = socket;
    return { rest, end: () => void socket.destroy() };
  }

  /** Ends all helpers with their operations, whose leftovers a later operation removes. Refuses operations from then on. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    const living = [...this.#living];
    for (const helper of living) helper.end();
    await Promise.all(living.map(({ exited }) => exited));
  }

  async #begin(projectId: string, order: StorageOrder, source: string | null) {
    const leave = await this.#lane.enter(projectId);
    if (leave === null) throw new AppError("overloaded");
    let socket: Socket;
    try {
      // What has not begun has done nothing: a helper that was killed meanwhile is replaced once.
      socket =
        (await this.#helperOf(projectId).begin(order, source)) ??
        (await this.#helperOf(projectId).require(order, source));
    } catch (error) {
      leave();
      throw error;
    }
    socket.once("close", leave);
    // While there is a listener, Node keeps unread data when the process ends.
    socket.on("readable", keep);
    const answer = await answerOn(socket).catch((error: unknown) => {
      // It is not read any more, and would keep its place in the lane.
      socket.destroy();
      throw error;
    });
    if (answer === null) {
      socket.destroy();
      const what = `"${order.operation}" in the storage of ${projectId}`;
      throw new Error(`the process for ${what} ended without an answer`);
    }
    if ("done" in answer) return { socket, done: answer.done };
    readToEnd(socket);
    if ("refused" in answer) throw new RefusedPath(answer.refused);
    throw Object.assign(new Error(`storage of ${projectId}: ${answer.error}`), { code: answer.error });
  }

  #helperOf(projectId: string): ProjectHelper {
    if (this.#isStopped) throw new AppError("draining");
    const storage = this.#parts.folders.make(projectId);
    const found = this.#helpers.get(projectId);
    if (found?.isFor(storage)) return found;
    found?.endWhenIdle();
    if (this.#helpers.size >= MAX_HELPERS) [...this.#helpers.values()].find(({ isIdle }) => isIdle)?.end();
    const helper = new ProjectHelper(this.#parts, projectId, storage);
    this.#helpers.set(projectId, helper);
    this.#living.add(helper);
    void helper.exited.finally(() => {
      this.#living.delete(helper);
      if (this.#helpers.get(projectId) === helper) this.#helpers.delete(projectId);
    });
    return helper;
  }
}

/** One project's helper: an agent, and below it the process of the project's user that forks for each operation. */
class ProjectHelper {
  readonly exited: Promise<void>;
  readonly #parts: HelperParts;
  readonly #projectId: string;
  readonly #place: string;
  readonly #scratch: string;
  readonly #agent: Agent;
  readonly #complaint: Promise<string>;
  /** Where it takes its orders; null if it ended before it had connected. */
  readonly #orders: Promise<Socket | null>;
  /** Resolves, with nothing, when it has ended. */
  readonly #gone: Promise<null>;
  #idle: Timer | null = null;
  #running = 0;
  #isEnding = false;

  constructor(parts: HelperParts, projectId: string, storage: string) {
    const { dataDir, folders, home, clock } = parts;
    this.#parts = parts;
    this.#projectId = projectId;
    this.#place = placeOf(storage);
    const user = folders.userOf(projectId);
    this.#scratch = makeScratch(dataDir, user);
    const connected = Promise.withResolvers<Socket | null>();
    const ticket = home.expect((_, socket) => connected.resolve(socket));
    try {
      this.#agent = this.#start(user, ticket, storage);
    } catch (error) {
      home.forget(ticket);
      void removeScratch(this.#scratch);
      throw error;
    }
    this.#agent.stdout.resume();
    this.#complaint = text(this.#agent.stderr).catch(() => "");
    this.#orders = connected.promise;
    this.#gone = this.#agent.exited.then(
      () => null,
      () => null, // An operation that does not begin tells of it.
    );
    this.exited = this.#outlive(ticket, connected);
    this.#idle = clock.after(HELPER_IDLE_MS, () => this.end());
  }

  async #outlive(ticket: string, connected: PromiseWithResolvers<Socket | null>): Promise<void> {
    await this.#gone;
    this.#isEnding = true;
    this.#idle?.cancel();
    this.#parts.home.forget(ticket);
    connected.resolve(null);
    await removeScratch(this.#scratch);
  }

  get isIdle(): boolean {
    return this.#running === 0 && !this.#isEnding;
  }

  /** Whether it can take an operation on that folder: it sees the folder that was there when it started. */
  isFor(storage: string): boolean {
    return !this.#isEnding && this.#place === placeOf(storage);
  }

  /** Begins an operation; null if the helper ended before it began, or did not begin it within `BEGIN_MS`. */
  async begin(order: StorageOrder, source: string | null): Promise<Socket | null> {
    const { home, clock } = this.#parts;
    this.#idle?.cancel();
    this.#running += 1;
    const begun = Promise.withResolvers<Socket>();
    const ticket = home.expect((_, socket) => begun.resolve(socket));
    let socket: Socket | null = null;
    const began = async (): Promise<Socket | null> => {
      const orders = await Promise.race([this.#orders, this.#gone]);
      // Told first: the process gets the file with its connection.
      if (source !== null) this.#agent.lend(ticket, source);
      orders?.write(`${JSON.stringify({ ...order, ticket })}\n`);
      return orders && (await Promise.race([begun.promise, this.#gone]));
    };
    try {
      // A process that is stopped does not connect, and does not end either.
      socket = await withTimeout(BEGIN_MS, began(), clock);
    } finally {
      home.forget(ticket);
      if (socket === null) {
        this.#leave();
        this.end();
      } else socket.once("close", () => this.#leave());
    }
    return socket;
  }

  async require(order: StorageOrder, source: string | null): Promise<Socket> {
    const socket = await this.begin(order, source);
    if (socket !== null) return socket;
    const complaint = (await this.#complaint).trim().slice(-MAX_COMPLAINT_CHARS) || "it said nothing";
    const helper = `the helper for the storage of ${this.#projectId}`;
    throw new Error(`${helper} did not begin "${order.operation}": ${complaint}`);
  }

  end(): void {
    this.#isEnding = true;
    this.#idle?.cancel();
    this.#agent.end();
  }

  endWhenIdle(): void {
    this.#isEnding = true;
    if (this.#running === 0) this.end();
  }

  #leave(): void {
    this.#running -= 1;
    if (this.#running > 0) return;
    if (this.#isEnding) this.end();
    else this.#idle = this.#parts.clock.after(HELPER_IDLE_MS, () => this.end());
  }

  #start(user: number | null, ticket: string, storage: string): Agent {
    const { python, dataDir, home, clock } = this.#parts;
    const scratch = this.#scratch;
    const reach = {
      folders: { bundle: scratch, environment: null, storage },
      scratch,
      python: { interpreter: null, names: null },
      reads: [],
      writes: [],
      network: NO_NETWORK,
      unixSockets: false,
      memoryBytes: null,
    };
    const plan = {
      program: python,
      args: startOf("millrace_storage.start"),
      cwd: scratch,
      env: {},
      order: JSON.stringify({ ticket, root: realpathSync(storage) }),
      home: home.address,
      walls: { host: { level: "uid", dataDir, user, reads: [] } as const, reach },
      watched: null,
    };
    return startAgent(python, plan, clock);
  }
}

/** The answer of an operation; null if its process ended first. */
async function answerOn(socket: Socket): Promise<z.output<typeof ANSWER> | null> {
  const line = await readLine(socket, MAX_ANSWER_BYTES);
  return line === null ? null : ANSWER.parse(JSON.parse(line));
}

const keep = (): void => {};

function readToEnd(socket: Socket): void {
  socket.off("readable", keep);
  socket.resume();
}

/** Tells a folder from another of the same path. */
function placeOf(storage: string): string {
  const { dev, ino } = statSync(storage);
  return `${dev}:${ino}`;
}

const NEWLINE = 10;

/** The next line of a stream, without its end; what comes after it stays there. Null if the stream ends before that. */
export async function readLine(stream: Readable, maxBytes: number): Promise<string | null> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for (;;) {
    const piece = await readUpTo(stream, (chunk) => chunk.indexOf(NEWLINE) + 1 || chunk.length);
    if (piece === null) return null;
    bytes += piece.length;
    if (bytes > maxBytes) throw new Error(`a line of more than ${maxBytes} bytes`);
    pieces.push(piece);
    if (piece.at(-1) === NEWLINE) return Buffer.concat(pieces).toString("utf8", 0, bytes - 1);
  }
}

/** So many bytes of a stream, in pieces as they come. Throws if it ends before that. */
export async function* readBytes(stream: Readable, count: number): AsyncGenerator<Buffer> {
  for (let left = count; left > 0;) {
    const piece = await readUpTo(stream, () => left);
    if (piece === null) throw new Error("it ended in the middle of a file");
    left -= piece.length;
    yield piece;
  }
}

/** What has come, as much as is wanted of it; null at the end. */
async function readUpTo(stream: Readable, wanted: (chunk: Buffer) => number): Promise<Buffer | null> {
  for (;;) {
    const chunk = stream.read() as Buffer | null;
    if (chunk !== null) {
      const size = wanted(chunk);
      // At once: a stream that was read to its end, for a moment, is over.
      if (size < chunk.length) stream.unshift(chunk.subarray(size));
      return chunk.subarray(0, size);
    }
    if (stream.readableEnded || stream.destroyed) return null;
    await nextEvent(stream);
  }
}

async function nextEvent(stream: Readable): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const events = ["readable", "end", "close", "error"] as const;
  for (const name of events) stream.on(name, resolve);
  await promise;
  for (const name of events) stream.off(name, resolve);
}
