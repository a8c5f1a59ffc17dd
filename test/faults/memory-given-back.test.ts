import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { expect } from "vitest";
import { memoryBytes } from "../support/process-tree.ts";
import { serveApps, type ServedApps } from "../support/serve-apps.ts";
import { until } from "../support/until.ts";
import { verifies } from "../verifies.ts";

const MAIN = `
import asyncio

async def run(n):
    return n

async def big():
    return "x" * 1000000

async def stream():
    while True:
        yield "x" * 262144
        await asyncio.sleep(0)
`;
const TOML = "[scaling]\nmin_replicas = 1\nmax_replicas = 1\nreplica_concurrency = 400\n";

const IS_FULL = process.env["MILLRACE_FAULTS"] === "full";
const MB = 1024 * 1024;
const READERS = 300;
const CALLS = 40_000;
const CALLERS = 32;
/** What so many readers make the service hold at least: else it is no test of giving back. */
const GROWN_MB = 200;
const KEPT_MB = 150;

/** A caller who asks and reads nothing. */
async function deafReader({ url, token }: ServedApps, functionName: string): Promise<Socket> {
  const { hostname, port, pathname } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.on("error", () => {});
  socket.pause();
  await once(socket, "connect");
  socket.write(
    `POST ${pathname}/app/${functionName} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\nContent-Length: 0\r\n\r\n`,
  );
  return socket;
}

verifies(
  "memory.given-back",
  `after ${CALLS} calls and ${READERS} readers who read nothing and leave, the service holds ${KEPT_MB} MB again`,
  async ({ skip }) => {
    // A figure of a whole process, on a machine that does nothing else.
    if (!IS_FULL) skip("only MILLRACE_FAULTS=full measures the memory of a service");
    const served = await serveApps({ app: { main: MAIN, toml: TOML } });
    const { pid } = served.command;
    const heldMb = (): number => Math.round(memoryBytes(pid) / MB);
    const left = Array.from({ length: CALLS }).keys();
    const caller = async (): Promise<void> => {
      for (const n of left) expect((await served.call("app", "run", { n })).json.result).toBe(n);
    };
    await Promise.all(Array.from({ length: CALLERS }, caller));
    for (const functionName of ["stream", "big"]) {
      const readers = await Promise.all(
        Array.from({ length: READERS }, () => deafReader(served, functionName)),
      );
      await until("the readers have filled its memory", () => heldMb() > GROWN_MB);
      process.stderr.write(`\n  ${READERS} readers of ${functionName}: ${heldMb()} MB\n`);
      for (const reader of readers) reader.resetAndDestroy();
    }
    await until(`it holds at most ${KEPT_MB} MB again`, () => heldMb() <= KEPT_MB);
    process.stderr.write(`  after they left: ${heldMb()} MB\n`);
  },
);
