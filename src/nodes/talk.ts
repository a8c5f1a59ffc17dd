import { z } from "zod";
import type { Clock } from "../kit/clock.ts";
import { AppError } from "../model/errors.ts";
import type { LiveStatus } from "../model/app.ts";
import type { ServiceNode } from "../model/node.ts";
import type { RunKey } from "../model/run.ts";
import type { HandoverPeer, Owners } from "./owners.ts";
import { NODE_GPUS, type NodeGpus } from "../shapes/hardware.ts";
import type { Infer, Shape } from "../shapes/shape.ts";
import type { Peer, Peers } from "./peers.ts";
import type { Connection, ConnectionUser } from "../kit/http/connection.ts";
import { BadResponse } from "../kit/http/fields.ts";
import { ResponseParser } from "../kit/http/response-parser.ts";
import { KeptBody } from "../kit/bytes.ts";
import { ownHead } from "./forward/hop-head.ts";

const PATHS = {
  hello: "/nodes/hello",
  prepare: "/nodes/prepare",
  adopt: "/nodes/adopt",
  // Named as in the previous release, whose nodes ask for it during an upgrade.
  liveStatuses: "/nodes/glances",
  gpus: "/nodes/gpus",
  holdsRun: "/nodes/holds-run",
  dropped: "/nodes/dropped",
} as const;

/** An app that takes longer to get ready is moved later, or before it is ready if its node stops. */
const PREPARE_MS = 30_000;
const HELLO_MS = 5_000;
/** For a heartbeat, and for the call back during a hello, which has to end before `HELLO_MS`. */
const HEARTBEAT_MS = 1_900;
const STATUS_MS = 1_500;
const HOLDS_RUN_MS = 1_500;
const MAX_STATUSES = 100_000;

const COUNT = z.int().min(0).max(1_000_000_000);
/** The range of the database column. */
const APP_NUMBER = z.int32().min(1);
/** With an address, the receiver calls that address back to verify it. */
const HELLO = z.object({ url: z.url({ protocol: /^https$/ }).max(2_048) }).nullable();
const PREPARE = z.object({ appNumber: APP_NUMBER, replicas: z.int().min(0).max(100_000) });
const ADOPT = z.object({ appNumber: APP_NUMBER });
const STATUS_REQUEST = z.object({ projectId: z.string().max(64) });
const GPUS_REQUEST = z.object({ withHistory: z.boolean() });
const RUN = z.object({ appNumber: APP_NUMBER, id: z.uuid() });
const HOLDS = z.boolean();
const DROPPED = z.object({ requestId: z.string().min(1).max(128) });
const STATUSES = z
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
  .max(MAX_STATUSES);

/** What this node does for others. */
export type Answering = {
  readonly owners: Pick<Owners, "lookAfter">;
  /** Starts replicas of an app that is about to move here. */
  readonly warm: (appNumber: number, replicas: number) => Promise<void>;
  readonly liveStatuses: (projectId: string) => readonly LiveStatus[];
  readonly gpus: (withHistory: boolean) => NodeGpus;
  /** Whether a run is in progress here; one that has ended here is stored when it resolves. */
  readonly holdsRun: (run: RunKey) => Promise<boolean>;
  /** That node has closed the answer to a request that this node forwarded to it. */
  readonly onDropped: (nodeId: string, requestId: string) => void;
  /** Rejects if the node cannot be reached from here. */
  readonly heartbeat: (node: Peer) => Promise<void>;
};

/** Answers the messages of other nodes. */
export function answering({ owners, warm, liveStatuses, gpus, holdsRun, onDropped, heartbeat }: Answering) {
  return async (from: string, path: string, value: unknown): Promise<unknown> => {
    switch (path) {
      case PATHS.hello: {
        const asked = read(HELLO, value);
        if (!asked) return null;
        await heartbeat({ id: from, url: asked.url }).catch((error: unknown) => {
          throw new AppError("bad_request", { message: `cannot reach ${asked.url} from here` }, error);
        });
        return null;
      }
      case PATHS.prepare: {
        const { appNumber, replicas } = read(PREPARE, value);
        await warm(appNumber, replicas);
        return null;
      }
      case PATHS.adopt:
        await owners.lookAfter([read(ADOPT, value).appNumber]);
        return null;
      case PATHS.liveStatuses:
        return liveStatuses(read(STATUS_REQUEST, value).projectId);
      case PATHS.gpus:
        return gpus(read(GPUS_REQUEST, value).withHistory);
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

type TalkParts = { readonly peers: Peers; readonly clock: Clock };

/** The messages of this node to others. */
export class NodeTalk implements HandoverPeer {
  readonly #by: TalkParts;

  constructor(by: TalkParts) {
    this.#by = by;
  }

  /** Rejects if the node cannot be reached, or cannot reach this one. */
  async hello(node: Peer, self: Peer): Promise<void> {
    await ask(this.#by, node, PATHS.hello, { url: self.url }, { patienceMs: HELLO_MS });
  }

  /** Rejects if the node cannot be reached. Over a new connection, because an old one proves nothing. */
  async heartbeat(node: Peer): Promise<void> {
    await ask(this.#by, node, PATHS.hello, null, { patienceMs: HEARTBEAT_MS, isFresh: true });
  }

  async prepare(node: ServiceNode, appNumber: number, replicas: number): Promise<void> {
    await ask(this.#by, node, PATHS.prepare, { appNumber, replicas }, { patienceMs: PREPARE_MS });
  }

  async adopt(node: ServiceNode, appNumber: number): Promise<void> {
    await ask(this.#by, node, PATHS.adopt, { appNumber });
  }

  /** The status of a project's apps that are served there. */
  async liveStatuses(node: ServiceNode, projectId: string): Promise<readonly LiveStatus[]> {
    const patience = { patienceMs: STATUS_MS };
    return read(STATUSES, await ask(this.#by, node, PATHS.liveStatuses, { projectId }, patience));
  }

  /** The GPUs of its machine. */
  async gpus(node: Peer, withHistory: boolean): Promise<NodeGpus> {
    return read(NODE_GPUS, await ask(this.#by, node, PATHS.gpus, { withHistory }, { patienceMs: STATUS_MS }));
  }

  /** Whether a run is in progress there; one that has ended there is stored when it resolves. */
  async holdsRun(node: Peer, { appNumber, id }: RunKey): Promise<boolean> {
    const patience = { patienceMs: HOLDS_RUN_MS };
    return read(HOLDS, await ask(this.#by, node, PATHS.holdsRun, { appNumber, id }, patience));
  }

  /** Tells it that the answer to a request that it forwarded was closed here, which it may not notice. */
  async dropped(node: Peer, requestId: string): Promise<void> {
    await ask(this.#by, node, PATHS.dropped, { requestId });
  }
}

function read<S extends Shape>(schema: S, value: unknown): Infer<S> {
  const result = z.safeParse(schema, value);
  if (result.success) return result.data;
  throw new AppError("bad_request", { message: result.error.issues[0]?.message ?? "not as expected" });
}

const MAX_ANSWER_BYTES = 16 * 1024 * 1024;
const PATIENCE_MS = 5_000;

/** A node did not answer, or refused; the message says which node and why. */
export class PeerFailure extends Error {}

/** `isFresh`: over a connection of its own, which is closed afterwards. */
type Asking = { readonly patienceMs?: number; readonly isFresh?: boolean };

/** Posts a value to another node as JSON and resolves with its answer; throws `PeerFailure`. */
export async function ask(
  { peers, clock }: TalkParts,
  peer: Peer,
  path: string,
  value: unknown,
  { patienceMs = PATIENCE_MS, isFresh = false }: Asking = {},
): Promise<unknown> {
  const { promise, resolve, reject } = Promise.withResolvers<unknown>();
  const body = JSON.stringify(value);
  const kept = new KeptBody(MAX_ANSWER_BYTES);
  let connection: Connection | null = null;
  let status = 0;
  const fail = (why: string): void => {
    reject(new PeerFailure(`node ${peer.id}: ${why}`));
    if (!connection) return;
    connection.user = null;
    connection.socket.destroy();
    connection = null;
  };
  const parser = new ResponseParser("POST", {
    onContinue: () => {},
    onHead: (head) => void ({ status } = head),
    onBody: (bytes) => {
      kept.add(bytes);
      if (kept.isTooLarge) fail("its answer is too large");
    },
    onEnd: (_, isReusable) => {
      if (!connection) return;
      const text = kept.whole()?.toString() ?? "";
      if (status !== 200) return fail(`it answered ${status}: ${text.slice(0, 200)}`);
      // Heartbeats are sent for as long as a stream lasts; a kept connection for each would pile up.
      if (isReusable && !isFresh) peers.release(peer, connection);
      else connection.socket.destroy();
      connection = null;
      try {
        resolve(JSON.parse(text));
      } catch {
        fail("its answer is no JSON");
      }
    },
  });
  const user: ConnectionUser = {
    onOpen: () => connection?.socket.write(ownHead(path, Buffer.byteLength(body)) + body),
    onData: (data) => {
      try {
        parser.feed(data);
      } catch (error) {
        if (!(error instanceof BadResponse)) throw error;
        fail(error.message);
      }
    },
    onDrain: () => {},
    onLost: () => fail("the connection to it ended"),
  };
  const idle = isFresh ? null : peers.take(peer, user);
  connection = idle ?? peers.open(peer, user);
  const late = clock.after(patienceMs, () => fail("it did not answer in time"));
  if (idle) user.onOpen();
  return await promise.finally(() => late.cancel());
}
