import { z } from "zod";
import type { Clock, Timer } from "../kit/clock.ts";
import { AppError } from "../model/errors.ts";
import type { Glance } from "../model/glance.ts";
import type { ServiceNode } from "../model/node.ts";
import type { RunKey } from "../model/run.ts";
import type { HandoverPeer } from "./handovers.ts";
import type { Owners } from "./owners.ts";
import type { Peer, Peers } from "./peers.ts";
import type { Connection, ConnectionUser } from "../kit/http/connection.ts";
import { BadResponse } from "../kit/http/fields.ts";
import { ResponseParser } from "../kit/http/response-parser.ts";
import type { ResponseEvents, ResponseHead } from "../kit/http/response-parser.ts";
import { KeptBody } from "../kit/bytes.ts";
import { ownHead } from "./forward/hop-head.ts";

const PATHS = {
  hello: "/nodes/hello",
  prepare: "/nodes/prepare",
  adopt: "/nodes/adopt",
  glances: "/nodes/glances",
  holdsRun: "/nodes/holds-run",
  dropped: "/nodes/dropped",
} as const;

/** An app that takes longer to get ready moves without being so, or later. */
const PREPARE_MS = 30_000;
const HELLO_MS = 5_000;
/** Of the hello that comes back, while the first one is waited for, and of a greeting. */
const GREET_MS = 1_900;
const GLANCE_MS = 1_500;
const HOLDS_RUN_MS = 1_500;
const MAX_GLANCES = 100_000;

const COUNT = z.int().min(0).max(1_000_000_000);
/** No more fit into a row. */
const APP_NUMBER = z.int32().min(1);
/** With an address it asks to be greeted there: who reaches others may be told to them by a wrong one. */
const HELLO = z.object({ url: z.url({ protocol: /^https$/ }).max(2_048) }).nullable();
const PREPARE = z.object({ appNumber: APP_NUMBER, replicas: z.int().min(0).max(100_000) });
const ADOPT = z.object({ appNumber: APP_NUMBER });
const GLANCES = z.object({ projectId: z.string().max(64) });
const RUN = z.object({ appNumber: APP_NUMBER, id: z.uuid() });
const HOLDS = z.boolean();
const DROPPED = z.object({ requestId: z.string().min(1).max(128) });
const GLANCED = z
  .array(
    z.object({
      appNumber: APP_NUMBER,
      version: z.object({ number: COUNT, buildId: z.string().max(64) }),
      state: z.enum(["ready", "notready", "error", "cold"]),
      replicas: z.object({ starting: COUNT, ready: COUNT, draining: COUNT }),
      waiting: COUNT,
      running: COUNT,
      oldestWaitMs: z.number().min(0),
      coldStarts: COUNT,
    }),
  )
  .max(MAX_GLANCES);

/** What this node does when others ask. */
export type Answering = {
  readonly owners: Pick<Owners, "adopt">;
  /** Makes an app ready that is about to be served here. */
  readonly warm: (appNumber: number, replicas: number) => Promise<void>;
  readonly glances: (projectId: string) => readonly Glance[];
  /** Whether a run is in progress here; one that has ended here is stored when it resolves. */
  readonly holdsRun: (run: RunKey) => Promise<boolean>;
  /** That node has closed the connection of an answer to a request that this node passed on. */
  readonly onDropped: (nodeId: string, requestId: string) => void;
  /** Rejects when the node cannot be reached from here. */
  readonly greet: (node: Peer) => Promise<void>;
};

/** Answers what other nodes say to this one. */
export function answering({ owners, warm, glances, holdsRun, onDropped, greet }: Answering) {
  return async (from: string, path: string, value: unknown): Promise<unknown> => {
    switch (path) {
      case PATHS.hello: {
        const asked = read(HELLO, value);
        if (asked) await greetBack({ id: from, url: asked.url }, greet);
        return null;
      }
      case PATHS.prepare: {
        const { appNumber, replicas } = read(PREPARE, value);
        await warm(appNumber, replicas);
        return null;
      }
      case PATHS.adopt:
        await owners.adopt(read(ADOPT, value).appNumber);
        return null;
      case PATHS.glances:
        return glances(read(GLANCES, value).projectId);
      case PATHS.holdsRun:
        return await holdsRun(read(RUN, value));
      case PATHS.dropped:
        onDropped(from, read(DROPPED, value).requestId);
        return null;
      default:
        throw new AppError("not_found");
    }
  };
}

/** What this node says to others. */
export class NodeTalk implements HandoverPeer {
  readonly #by: { readonly peers: Peers; readonly clock: Clock };

  constructor(by: { readonly peers: Peers; readonly clock: Clock }) {
    this.#by = by;
  }

  /** Rejects when the node cannot be reached, or cannot reach this one. */
  async hello(node: Peer, self: Peer): Promise<void> {
    await ask(this.#by, node, PATHS.hello, { url: self.url }, { patienceMs: HELLO_MS });
  }

  /** Rejects when the node cannot be reached: a connection that was made before says nothing about that. */
  async greet(node: Peer): Promise<void> {
    await ask(this.#by, node, PATHS.hello, null, { patienceMs: GREET_MS, isFresh: true });
  }

  async prepare(node: ServiceNode, appNumber: number, replicas: number): Promise<void> {
    await ask(this.#by, node, PATHS.prepare, { appNumber, replicas }, { patienceMs: PREPARE_MS });
  }

  async adopt(node: ServiceNode, appNumber: number): Promise<void> {
    await ask(this.#by, node, PATHS.adopt, { appNumber });
  }

  /** How the apps of a project do that are served there. */
  async glances(node: ServiceNode, projectId: string): Promise<readonly Glance[]> {
    return read(GLANCED, await ask(this.#by, node, PATHS.glances, { projectId }, { patienceMs: GLANCE_MS }));
  }

  /** Whether a run is in progress there; one that has ended there is stored when it resolves. */
  async holdsRun(node: Peer, { appNumber, id }: RunKey): Promise<boolean> {
    const patience = { patienceMs: HOLDS_RUN_MS };
    return read(HOLDS, await ask(this.#by, node, PATHS.holdsRun, { appNumber, id }, patience));
  }

  /** The connection of an answer to a request that it passed on was closed here, whether or not it can see that. */
  async dropped(node: Peer, requestId: string): Promise<void> {
    await ask(this.#by, node, PATHS.dropped, { requestId });
  }
}

async function greetBack(node: Peer, greet: Answering["greet"]): Promise<void> {
  await greet(node).catch((error: unknown) => {
    throw new AppError("bad_request", { message: `cannot reach ${node.url} from here` }, error);
  });
}

function read<T>(schema: z.ZodType<T>, value: unknown): T {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  throw new AppError("bad_request", { message: result.error.issues[0]?.message ?? "not as expected" });
}

const MAX_ANSWER_BYTES = 16 * 1024 * 1024;
const PATIENCE_MS = 5_000;

/** A node did not answer, or refused: the message says which of it. */
export class PeerFailure extends Error {}

/** How to ask: for how long to wait, and whether on a connection that is made for it, and closed after it. */
type Asking = { readonly patienceMs?: number; readonly isFresh?: boolean };

/** Says something to another node, a path and a value as JSON, and gives its answer; throws `PeerFailure`. */
export async function ask(
  { peers, clock }: { readonly peers: Peers; readonly clock: Clock },
  peer: Peer,
  path: string,
  value: unknown,
  { patienceMs = PATIENCE_MS, isFresh = false }: Asking = {},
): Promise<unknown> {
  return await new Promise((resolve, reject) => {
    const text = JSON.stringify(value);
    const question = new Question(
      peers,
      peer,
      ownHead(path, Buffer.byteLength(text)) + text,
      resolve,
      reject,
    );
    question.start(clock, patienceMs, isFresh);
  });
}

class Question implements ConnectionUser, ResponseEvents {
  readonly #peers: Peers;
  readonly #peer: Peer;
  readonly #text: string;
  readonly #resolve: (answer: unknown) => void;
  readonly #reject: (error: PeerFailure) => void;
  readonly #parser = new ResponseParser("POST", this);
  readonly #kept = new KeptBody(MAX_ANSWER_BYTES);
  #connection: Connection | null = null;
  #late: Timer | null = null;
  #isFresh = false;
  #status = 0;

  constructor(
    peers: Peers,
    peer: Peer,
    text: string,
    resolve: (answer: unknown) => void,
    reject: (error: PeerFailure) => void,
  ) {
    this.#peers = peers;
    this.#peer = peer;
    this.#text = text;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  start(clock: Clock, patienceMs: number, isFresh: boolean): void {
    this.#late = clock.after(patienceMs, () => this.#fail("it did not answer in time"));
    this.#isFresh = isFresh;
    const idle = isFresh ? null : this.#peers.take(this.#peer, this);
    this.#connection = idle ?? this.#peers.open(this.#peer, this);
    if (idle) this.onOpen();
  }

  onOpen(): void {
    this.#connection?.socket.write(this.#text);
  }

  onData(data: Buffer): void {
    try {
      this.#parser.feed(data);
    } catch (error) {
      if (!(error instanceof BadResponse)) throw error;
      this.#fail(error.message);
    }
  }

  onDrain(): void {}

  onLost(): void {
    this.#fail("the connection to it ended");
  }

  onContinue(): void {}

  onHead({ status }: ResponseHead): void {
    this.#status = status;
  }

  onBody(bytes: Buffer): void {
    this.#kept.add(bytes);
    if (this.#kept.isTooLarge) this.#fail("its answer is too large");
  }

  onEnd(_: readonly string[], isReusable: boolean): void {
    const connection = this.#connection;
    if (!connection) return;
    const text = this.#kept.whole()?.toString() ?? "";
    if (this.#status !== 200) {
      this.#fail(`it answered ${this.#status}: ${text.slice(0, 200)}`);
      return;
    }
    this.#connection = null;
    this.#late?.cancel();
    // A node is greeted for as long as a stream lasts there: each greeting would leave a connection behind.
    if (isReusable && !this.#isFresh) this.#peers.release(this.#peer, connection);
    else connection.socket.destroy();
    try {
      this.#resolve(JSON.parse(text));
    } catch {
      this.#reject(new PeerFailure(`node ${this.#peer.id}: its answer is no JSON`));
    }
  }

  #fail(why: string): void {
    const connection = this.#connection;
    if (!connection) return;
    this.#connection = null;
    this.#late?.cancel();
    connection.user = null;
    connection.socket.destroy();
    this.#reject(new PeerFailure(`node ${this.#peer.id}: ${why}`));
  }
}
