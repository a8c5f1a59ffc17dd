import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { text } from "node:stream/consumers";
import { connect } from "node:tls";
import { constants, zstdCompressSync, zstdDecompressSync } from "node:zlib";
import { expect, onTestFinished } from "vitest";
import { testDatabases } from "../../support/databases.ts";
import { remoteService } from "../../support/remote/remote-service.ts";
import type { SeatOrder } from "../../../src/engines/agent/seat-place.ts";
import { testService } from "../../support/service.ts";
import { findPythons } from "../../support/pythons.ts";
import { LocalPlace } from "../../support/remote/local-place.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { POLITE, answer, deployPolite } from "../../integration/moved/site.ts";

const databases = testDatabases();
const LEVEL = constants.ZSTD_c_compressionLevel;
const APP = { main: "import os\ndef run(x=1):\n    return x\n" };

/** What a service says to whoever shows that line. */
async function say({ addresses, authority }: SeatOrder, line: string): Promise<string> {
  const [host, port] = (addresses[0] ?? "").split(":");
  const socket = connect({
    host: host ?? "",
    port: Number(port),
    ca: authority,
    servername: "home.seats.millrace.internal",
  });
  await once(socket, "secureConnect");
  socket.write(`${line}\n`);
  return await text(socket).catch(() => "");
}

verifies("seats.packages", "packages are fetched, and fit the place that they come to", async () => {
  const { on, place } = await remoteService(databases, {});
  await deployPolite(on.service, on.directory);
  expect(await answer(on.service)).toEqual(POLITE);
  expect(place.seats).toHaveLength(1);
});

verifies("seats.pythons", "an agent runs on every Python that apps may have", async () => {
  const { on, place } = await remoteService(databases, {});
  const main = "import sys\ndef run():\n    return '%d.%d' % sys.version_info[:2]\n";
  for (const [index, { command, version }] of findPythons().entries()) {
    place.python = command;
    await on.deploy(`app-${index}`, { main });
    expect((await on.call(`app-${index}`)).json.result).toBe(version.split(".").slice(0, 2).join("."));
  }
});

verifies("seats.init-failure", "an import that fails is told as everywhere, and the seat ends", async () => {
  const main = "def run():\n    return 1\nraise ValueError('no such model')\n";
  const { on, place } = await remoteService(databases, { app: { main } });
  const { status, json } = await on.call("app");
  expect([status, json.message]).toEqual([503, expect.stringContaining("ValueError: no such model")]);
  for (const seat of place.seats) await seat.exited;
});

verifies(
  "seats.single",
  "a template that may not fork is one replica; the next has a seat of its own",
  async () => {
    const main = `
import os, threading, time
threading.Thread(target=lambda: time.sleep(3600), daemon=True).start()
def run(folder):
    open(os.path.join(folder, "in-%d" % os.getpid()), "w").close()
    while len([name for name in os.listdir(folder) if name.startswith("in-")]) < 2:
        time.sleep(0.005)
    return os.getpid()
`;
    const { on, place, folder } = await remoteService(databases, {
      app: { main, toml: "[scaling]\nmax_replicas = 2\n" },
    });
    const answers = await Promise.all([on.call("app", { folder }), on.call("app", { folder })]);
    expect(new Set(answers.map(({ json }) => json.result)).size).toBe(2);
    expect(place.seats).toHaveLength(2);
  },
);

verifies("seats.ticket", "a wrong ticket opens nothing; a right one opens once", async () => {
  const { on, place } = await remoteService(databases, { app: APP }, { graceMs: 1_000 });
  const before = place.change;
  place.change = (order) => {
    place.change = before;
    return { ...order, ticket: order.ticket.split("").toReversed().join("") };
  };
  expect((await on.call("app", { x: 3 })).json.result).toBe(3);
  const [wrong, right] = place.seats;
  expect((await wrong?.exited)?.detail).toBe("exit code 3");
  expect(place.words.join("")).toMatch(
    /no service answered at \S+:\d+ for 1 s; check that MILLRACE_SEAT_URL/,
  );
  if (!right) throw new Error("there is a second seat");
  expect(await say(right.order, `millrace 1 seat ${right.order.ticket}`)).toBe("");
  const made = "0".repeat(32);
  expect(await say(right.order, `millrace 1 blob ${right.order.seatId} ${made} ${"0".repeat(64)}`)).toBe("");
  expect(await say(right.order, `millrace 1 back ${right.order.seatId} ${made} 1`)).toBe('{"fenced":{}}\n');
  expect((await on.call("app", { x: 4 })).json.result).toBe(4);
});

verifies("seats.secret", "what an agent is given where it starts tells nothing of the app", async () => {
  const { on, place } = await remoteService(databases, { app: APP });
  await on.call("app");
  const [seat] = place.seats;
  expect(Object.keys(seat?.order ?? {}).toSorted()).toEqual([
    "addresses",
    "authority",
    "graceMs",
    "seatId",
    "ticket",
  ]);
  expect(await readFile(`/proc/${seat?.pid}/cmdline`, "latin1")).not.toContain(seat?.order.ticket);
});

verifies(
  "seats.verified",
  "a blob with other bytes is never unpacked: the start fails, and says so",
  async () => {
    const { on } = await remoteService(databases, {});
    const live = await on.deploy("app", APP);
    const hash = live.version.bundleBlob ?? "";
    const file = path.join(on.settings.dataDir, "blobs", "sha256", hash.slice(0, 2), hash);
    const bytes = await readFile(file);
    const longer = Buffer.concat([bytes, zstdCompressSync(Buffer.from("more"))]);
    const other = zstdCompressSync(zstdDecompressSync(bytes), { params: { [LEVEL]: 19 } });
    for (const damaged of [longer, other]) {
      await writeFile(file, damaged);
      const { status, json } = await on.call("app");
      expect([status, json.message]).toEqual([503, expect.stringContaining("it did not arrive whole")]);
    }
    await writeFile(file, bytes);
    await until("it starts", async () => (await on.call("app", { x: 8 })).json.result === 8);
  },
);

verifies("seats.postgres", "a service on SQLite has no seats elsewhere, and says what it needs", async () => {
  const place = new LocalPlace({ folder: tmpdir() });
  await expect(testService({}, {}, { seats: { place } })).rejects.toThrow("need Postgres");
});

verifies("seats.port", "a service whose port for seats is taken lets go of their place", async () => {
  const { databaseUrl } = await databases.fresh("postgres");
  const taken = createServer().listen(0, "127.0.0.1");
  onTestFinished(() => void taken.close());
  await once(taken, "listening");
  const seatUrl = `https://127.0.0.1:${(taken.address() as AddressInfo).port}`;
  let isClosed = false;
  const place = Object.assign(new LocalPlace({ folder: tmpdir() }), {
    close: async () => void (isClosed = true),
  });
  await expect(testService({}, { databaseUrl, seatUrl }, { seats: { place } })).rejects.toThrow("EADDRINUSE");
  expect(isClosed).toBe(true);
});
