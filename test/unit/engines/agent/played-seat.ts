import { createHash, randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { connect, type TLSSocket } from "node:tls";
import { onTestFinished } from "vitest";
import { PYTHON_ELSEWHERE } from "../../../../src/host/app-python.ts";
import { NO_END, makeAuthority, makeLeaf } from "../../../../src/kit/x509.ts";
import type { Exit, Workload } from "../../../../src/engines/engine.ts";
import { Home } from "../../../../src/engines/home.ts";
import type { PrintedLine } from "../../../../src/engines/log-lines.ts";
import type { StartedProcess } from "../../../../src/engines/local/spawn.ts";
import { type Blobs, SeatListener } from "../../../../src/engines/agent/seat-listener.ts";
import type { AdoptedSeat, SeatOrder, SeatPlace } from "../../../../src/engines/agent/seat-place.ts";
import type {
  ClaimedSeat,
  SeatRecords,
  SeatWish,
  Whereabouts,
} from "../../../../src/engines/agent/seat-records.ts";
import { spawnRemote } from "../../../../src/engines/agent/engine.ts";
import { HandClock } from "../../../support/clocks.ts";
import { until } from "../../../support/until.ts";

export const GRACE_MS = 30_000;
export const BUNDLE = createHash("sha256").update("bundle").digest("hex");
const NAME = "home.seats.millrace.internal";

const WORKLOAD: Workload = {
  version: {
    id: randomUUID(),
    appNumber: 7,
    bundleBlob: BUNDLE,
    environmentBlob: null,
    environmentTag: null,
  },
  projectId: "p-one",
  bundle: "bundles/one",
  environment: null,
  python: null,
  variables: { KEY: "value" },
  concurrency: 1,
  ignoreExtra: false,
  maxResultBytes: 1,
  maxChunkBytes: 1,
  mayFork: true,
  limits: { memoryBytes: null, cpus: null, cpuShare: 2 },
  network: true,
  containerRuntime: null,
  unixSockets: false,
  gpus: null,
  graceMs: 0,
  server: null,
};

/** Records of seats that a test looks into. */
class PlayedRecords implements SeatRecords {
  readonly known = new Map<string, Parameters<SeatRecords["add"]>[0]>();
  isBroken = false;
  async add(record: Parameters<SeatRecords["add"]>[0]): Promise<void> {
    if (this.isBroken) throw new Error("the database does not answer");
    this.known.set(record.id, record);
  }

  /** What claims give. */
  left: Promise<ClaimedSeat | null> = Promise.resolve(null);
  /** What is told of seats that are not here. */
  found: Whereabouts = { kind: "nowhere" };
  /** Seats that another service has taken over. */
  readonly taken = new Set<string>();
  readonly wishes: SeatWish[] = [];

  mark(content: string): Buffer {
    return createHash("sha256").update(content).digest();
  }

  async remove({ id }: { readonly id: string }): Promise<boolean> {
    if (this.isBroken) throw new Error("the database does not answer");
    this.known.delete(id);
    return !this.taken.has(id);
  }

  async claim(wish: SeatWish): Promise<ClaimedSeat | null> {
    this.wishes.push(wish);
    return await this.left;
  }

  async find(): Promise<Whereabouts> {
    if (this.isBroken) throw new Error("the database does not answer");
    return this.found;
  }
}

/** What an agent says and hears, played by a test. */
export class PlayedAgent {
  readonly socket: TLSSocket;
  /** Whole messages, without beats. */
  // oxlint-disable-next-line no-explicit-any
  readonly heard: any[] = [];
  beats = 0;
  isClosed = false;
  #rest = "";

  constructor(socket: TLSSocket) {
    this.socket = socket;
    socket.on("error", () => {});
    socket.on("close", () => (this.isClosed = true));
    socket.setEncoding("utf8").on("data", (text: string) => {
      const lines = (this.#rest + text).split("\n");
      this.#rest = lines.pop() ?? "";
      for (const line of lines.map((each) => JSON.parse(each) as object)) {
        if ("beat" in line) this.beats += 1;
        else this.heard.push(line);
      }
    });
  }

  say(...messages: readonly (object | string)[]): void {
    for (const message of messages)
      this.socket.write(typeof message === "string" ? message : `${JSON.stringify(message)}\n`);
  }

  async hears(count: number): Promise<void> {
    await until(`${count} messages`, () => this.heard.length >= count);
  }

  async closed(): Promise<void> {
    await until("it is closed", () => this.isClosed);
  }
}

export const HELLO = { hello: { python: "3.11.7", tag: "3.11 cpython-311-x86_64-linux-gnu glibc 2.36" } };

/**
 * A seat elsewhere whose place and agent a test plays, with real TLS and a clock that stands still. With `left`, its place
 * can go on with seats of others, and claims give that.
 */
export async function playedSeat(changes: Partial<Workload> = {}, left?: Promise<ClaimedSeat | null>) {
  const folder = mkdtempSync(path.join(tmpdir(), "seat-"));
  const clock = new HandClock();
  const home = await Home.open(folder, clock);
  const from = new Date(0);
  const authority = makeAuthority({ name: "Test", from, until: NO_END });
  const leaf = makeLeaf({ name: NAME, from, until: NO_END }, { name: "Test", ...authority });
  const records = new PlayedRecords();
  if (left) records.left = left;
  const errors: unknown[] = [];
  const blobs: Blobs = {
    // oxlint-disable-next-line require-yield
    open: () => [Buffer.from("no archive")].values() as unknown as AsyncIterable<Buffer>,
  };
  const listener = await SeatListener.listen({
    identity: { ...leaf, authority: authority.certificate },
    host: "127.0.0.1",
    port: 0,
    home,
    blobs,
    records,
    clock,
    onError: (error) => errors.push(error),
  });
  const agents: PlayedAgent[] = [];
  onTestFinished(async () => {
    for (const { socket } of agents) socket.destroy();
    await listener.close();
    await home.close();
    rmSync(folder, { recursive: true, force: true });
  });
  const placed = {
    orders: [] as SeatOrder[],
    adopted: [] as AdoptedSeat[],
    kills: 0,
    lets: 0,
    obstacle: null as string | null,
  };
  const { promise: placeEnded, resolve: endPlace } = Promise.withResolvers<Exit>();
  const inPlace = {
    placeName: "seat-1",
    exited: placeEnded,
    kill: () => (placed.kills += 1),
    letGo: () => (placed.lets += 1),
    obstacle: () => placed.obstacle,
  };
  const place: SeatPlace = {
    name: "there",
    begin: (order) => {
      placed.orders.push(order);
      return inPlace;
    },
    ...(left && {
      adopt: (adopted: AdoptedSeat) => {
        placed.adopted.push(adopted);
        return inPlace;
      },
    }),
  };
  const lines: PrintedLine[] = [];
  const ended: Exit[] = [];
  const start = {
    python: PYTHON_ELSEWHERE,
    workload: { ...WORKLOAD, ...changes },
    agentPython: "",
    folders: { bundle: "", environment: null, storage: "" },
    walls: null,
    limits: null,
    address: home.address,
    tickets: { replica: "0".repeat(32) },
  };
  const others: string[] = [];
  const addresses = () => [`127.0.0.1:${listener.port}`, ...others];
  const remote = { place, listener, addresses, graceMs: GRACE_MS, storage: "/persistent-storage" };
  const spawn = spawnRemote(remote);
  const process: StartedProcess = spawn(start, clock, {
    onLog: (line) => lines.push(line),
    onError: (error) => errors.push(error),
  });
  void process.exited.then((exit) => ended.push(exit));
  const call = async (line: string): Promise<PlayedAgent> => {
    const socket = connect({
      port: listener.port,
      host: "127.0.0.1",
      ca: authority.certificate,
      servername: NAME,
    });
    const agent = new PlayedAgent(socket);
    agents.push(agent);
    await once(socket, "secureConnect");
    agent.say(`${line}\n`);
    return agent;
  };
  const [order] = placed.orders;
  const seat = {
    clock,
    home,
    listener,
    remote,
    records,
    blobs,
    /** Where other nodes are. */
    others,
    errors,
    placed,
    endPlace,
    lines,
    ended,
    process,
    call,
    order: order as SeatOrder,
    /** The agent calls with its ticket, and is given its session. */
    sit: async (): Promise<PlayedAgent> => {
      const agent = await call(`millrace 1 seat ${order?.ticket}`);
      await agent.hears(1);
      return agent;
    },
  };
  return seat;
}
