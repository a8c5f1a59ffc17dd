import { z } from "zod";
import type { Clock } from "../kit/clock.ts";
import { AppError } from "../model/errors.ts";
import type { Glance } from "../model/glance.ts";
import type { ServiceNode } from "../model/node.ts";
import type { RunKey } from "../model/run.ts";
import { ask } from "./ask.ts";
import type { Heir } from "./moves.ts";
import type { Owners } from "./owners.ts";
import type { Peer } from "./peers.ts";
import type { Peers } from "./peers.ts";

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
export class NodeTalk implements Heir {
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
