import { runMsOf } from "./proc.ts";
import { progress } from "./progress.ts";
import { SERVER_SIDES, SIDE_NAMES, startSide } from "./server-subjects.ts";
import type { ServerRunning, ServerSide } from "./server-subjects.ts";
import { type SocketClient, startSocketClient } from "./socket-client.ts";
import { quietEndOf } from "./stream-client.ts";
import type { Part } from "./stream-parts.ts";
import { measureStream, type PartResult } from "./stream.ts";
import { Skipped } from "./subject.ts";
import { type Direction, DIRECTIONS, transfer, type Transfer } from "./transfer.ts";
import { turnOrder } from "./turn-order.ts";

/** Frames echoed; CPU time is that of the process that callers talk to. */
type Echoes = { readonly framesPerSecond: number; readonly cpuUs: number };

/** What one idle WebSocket costs that process: by what is resident, and by what is in use after a collection. */
type IdleSocket = { readonly residentBytes: number; readonly usedBytes: number };

type BySide<T> = Readonly<Record<ServerSide, readonly T[]>>;

/** What passes through a server app beside calls, round by round. */
export type TrafficFigures = {
  readonly rounds: number;
  readonly transfers: Readonly<Record<Direction, BySide<Transfer>>>;
  readonly echoes: BySide<Echoes>;
  readonly streams: PartResult | null;
  readonly idle: BySide<IdleSocket>;
  readonly problem: string | null;
};

/** 100 MB. */
const PIECES = 1_600;
const ECHO_SOCKETS = 32;
const STREAMS = 1_000;
const IDLE_SOCKETS = 5_000;
const WARM_UP_SOCKETS = 250;
/** A replica takes a thousand at most. */
const IDLE_SIZE = { replicas: IDLE_SOCKETS / 1_000, concurrency: 1_000 };
const STREAM_ROUNDS = 3;

/**
 * Measures large bodies and frames, with fresh servers in each round, as two of the same kind differ for as long as they
 * live; then many streams, and many idle WebSockets.
 */
export async function measureTraffic(rounds: number, measureMs: number): Promise<TrafficFigures> {
  const empty = <T>(): Record<ServerSide, T[]> => ({ fastapi: [], passthrough: [], millrace: [] });
  const transfers = { upload: empty<Transfer>(), download: empty<Transfer>() };
  const echoes = empty<Echoes>();
  const idle = empty<IdleSocket>();
  let streams: PartResult | null = null;
  let problem: string | null = null;
  const client = startSocketClient();
  try {
    for (let round = 0; round < rounds; round++) {
      const servers = await startAll("frames");
      for (const [side, server] of turnOrder(servers, round)) {
        progress(`bodies and frames, round ${round + 1}/${rounds}: ${SIDE_NAMES[side]}`);
        for (const direction of DIRECTIONS) {
          // The first one is no measure of speed; but memory grows most at the first.
          const { growthBytes } = await transfer(server, direction, PIECES);
          await quietEndOf(server);
          transfers[direction][side].push({ ...(await transfer(server, direction, PIECES)), growthBytes });
        }
        echoes[side].push(await measureEchoes(server, client, measureMs));
      }
      for (const [, server] of servers) await server.stop();
    }
    for (const side of ["passthrough", "millrace"] as const) idle[side].push(await measureIdle(side, client));
    [streams = null] = await measureStream([STREAM_PART], {
      rounds: Math.min(rounds, STREAM_ROUNDS),
      measureMs: 2_000,
      profileDir: undefined,
    });
  } catch (error) {
    problem = error instanceof Skipped ? `skipped: ${error.message}` : (error as Error).message;
  }
  await client.stop();
  return { rounds, transfers, echoes, streams, idle, problem };
}

async function startAll(path: string): Promise<[ServerSide, ServerRunning][]> {
  const servers: [ServerSide, ServerRunning][] = [];
  for (const side of SERVER_SIDES) {
    progress(`starting ${SIDE_NAMES[side]}`);
    servers.push([side, await startSide(side, path)]);
  }
  return servers;
}

async function measureEchoes(
  server: ServerRunning,
  client: SocketClient,
  measureMs: number,
): Promise<Echoes> {
  await client.echo(server, ECHO_SOCKETS, measureMs / 2);
  await quietEndOf(server);
  const cpuBefore = runMsOf(server.pid);
  const { perSecond, frames } = await client.echo(server, ECHO_SOCKETS, measureMs);
  return { framesPerSecond: perSecond, cpuUs: ((runMsOf(server.pid) - cpuBefore) * 1000) / frames };
}

async function measureIdle(side: ServerSide, client: SocketClient): Promise<IdleSocket> {
  progress(`${IDLE_SOCKETS} idle WebSockets: ${SIDE_NAMES[side]}`);
  const server = await startSide(side, "frames", IDLE_SIZE);
  const held = async (): Promise<NodeJS.MemoryUsage> => {
    await quietEndOf(server);
    if (!server.memory) throw new Error(`${SIDE_NAMES[side]} does not tell its memory`);
    return await server.memory();
  };
  await client.open(server, WARM_UP_SOCKETS);
  await client.close(server);
  const before = await held();
  await client.open(server, IDLE_SOCKETS);
  const after = await held();
  await client.close(server);
  await server.stop();
  const used = ({ heapUsed, external }: NodeJS.MemoryUsage): number => heapUsed + external;
  return {
    residentBytes: (after.rss - before.rss) / IDLE_SOCKETS,
    usedBytes: (used(after) - used(before)) / IDLE_SOCKETS,
  };
}

const STREAM_PART: Part = {
  id: "delay",
  title: "1,000 event streams × 10 messages/s",
  subjects: SERVER_SIDES.map((side) => ({
    id: side,
    name: SIDE_NAMES[side],
    start: () => startSide(side, "ticks", { replicas: 1, concurrency: STREAMS }),
  })),
  streams: STREAMS,
  perSecond: 10,
  isGzip: false,
  rampMs: 5_000,
  isOnce: false,
};
