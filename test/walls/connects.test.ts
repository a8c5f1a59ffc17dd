import { WALL_LEVELS, type WallLevel } from "../../src/host/walls/walls.ts";
import { expect } from "vitest";
import type { Settings } from "../../src/config/setting-keys.ts";
import { SERVER_PORTS } from "../../src/host/walls/network.ts";
import { type TestService, testService } from "../support/service.ts";
import { NETWORK_APP, datagramStandIn, standIn } from "../support/walls/stand-ins.ts";
import { requireJudged } from "../support/walls/walled.ts";
import { verifies } from "../verifies.ts";

const METADATA = "127.0.0.66";
const PRIVATE = "127.0.0.77";
const ALLOWED = "127.0.0.88";
const HOST = "127.0.0.1";
const SECRET = "secret";

/** Every way that leads to a TCP connection. */
const WAYS = [
  "plain",
  "timeout",
  "nonblocking",
  "mapped",
  "unspecified first",
  "fast open",
  "fast open by message",
  "fast open later",
  "child",
  "thread",
  "program",
  "passed socket",
  "event loop",
  "changing descriptor",
  "changing address",
  "behind a unix socket",
  "other protocol",
];
/** Those that a permitted connection succeeds by. */
const ORDINARY = ["plain", "timeout", "nonblocking", "mapped", "child", "thread", "program", "event loop"];
const DATAGRAMS = ["datagram", "datagram by message", "ping"];
/** Enough to see that an address is judged at all. */
const PLAIN = ["plain", "mapped", "child"];
/** Its servers live as long as the replica that runs them. */
const STAYS = "[scaling]\nmin_replicas = 1\nmax_replicas = 1\n";
const EGRESS = `${STAYS}[deployment]\nnetwork = "egress"\n`;

async function started(level: WallLevel, changed: Partial<Settings> = {}): Promise<TestService> {
  const apps = {
    hostile: { ...NETWORK_APP, toml: STAYS },
    neighbour: { ...NETWORK_APP, toml: STAYS },
    outward: { ...NETWORK_APP, toml: EGRESS },
  };
  const settings = { isolation: level, networkDeny: [`${METADATA}/32`], egressAllow: [`${ALLOWED}/32`] };
  return await testService(apps, { ...settings, ...changed });
}

async function result(service: TestService, app: string, functionName: string, body: object) {
  const { status, json } = await service.call(app, body, { functionName });
  expect([functionName, status, json.message]).toEqual([functionName, 200, undefined]);
  return json.result;
}

/** What came of each way to an address. */
async function tried(
  service: TestService,
  app: string,
  [host, port]: readonly [string, number],
  ways: readonly string[],
) {
  return (await result(service, app, "all_ways", { host, port, ways })) as Record<string, string>;
}

const portOf = (url: string): number => Number(new URL(url).port);
const reached = (ends: Record<string, string>, said: string): string[] =>
  Object.keys(ends).filter((way) => ends[way]?.includes(said));

/** What came of taking ports: those of servers and those that need a privilege are refused, others are not. */
async function requirePorts(service: TestService): Promise<void> {
  const { first, last } = SERVER_PORTS;
  const take = async (host: string, port: number, kind = "stream"): Promise<string> =>
    await result(service, "hostile", "take", { host, port, kind });
  for (const host of [HOST, "0.0.0.0", "::1", "::"])
    for (const port of [first, last, 80])
      expect([host, port, await take(host, port)]).toEqual([host, port, "EACCES"]);
  const others = [await take(HOST, 0), await take("::", 0), await take(HOST, last, "datagram")];
  expect(others).toEqual(["taken", "taken", "taken"]);
  expect(await take("192.0.2.1", 0)).toBe("EADDRNOTAVAIL");
}

for (const level of WALL_LEVELS) {
  verifies(
    ["walls.connects", "walls.ports"],
    `on ${level} no call leads to the management API, to metadata or to another app's port, or takes one of servers`,
    async (context) => {
      await requireJudged(level, context);
      const service = await started(level);
      await requirePorts(service);
      const management = portOf(service.service.baseUrl);
      const metadata = await standIn(METADATA, SECRET);
      const server = { said: SECRET, host: HOST };
      const neighbour: number = await result(service, "neighbour", "serve", server);
      const everywhere: number = await result(service, "neighbour", "serve", { ...server, host: "0.0.0.0" });
      for (const [target, ways] of [
        [[HOST, management], WAYS],
        [["0.0.0.0", management], PLAIN],
        [[METADATA, metadata], WAYS],
        [[HOST, neighbour], PLAIN],
        [["0.0.0.0", neighbour], PLAIN],
        [["127.0.0.99", everywhere], PLAIN],
      ] as const) {
        const ends = await tried(service, "hostile", target, ways);
        expect([
          target,
          Object.values(ends).filter((end) => !/^(E[A-Z]+|PermissionError.*)$/.test(end)),
        ]).toEqual([target, []]);
        expect([target, ends["plain"], ends["mapped"], ends["child"]]).toEqual([
          target,
          "EACCES",
          "EACCES",
          "EACCES",
        ]);
      }
      // Without a wall in between, the same ways lead there.
      const free = await tried(service, "hostile", [HOST, await standIn(HOST, SECRET)], ORDINARY);
      expect(reached(free, SECRET)).toEqual(ORDINARY);
      // It is one process still, whoever was refused.
      expect(service.ready("hostile")).toBe(1);
    },
  );

  verifies("walls.egress", `on ${level} egress leads to no private address, by no call`, async (context) => {
    await requireJudged(level, context);
    const service = await started(level);
    const inside = await standIn(PRIVATE, SECRET);
    await datagramStandIn(PRIVATE, inside, SECRET);
    for (const host of [PRIVATE, HOST, "0.0.0.0"]) {
      const ends = await tried(service, "outward", [host, inside], [...WAYS, ...DATAGRAMS]);
      expect([host, reached(ends, SECRET), reached(ends, "connected")]).toEqual([host, [], []]);
      expect([ends["plain"], ends["datagram"], ends["datagram by message"]]).toEqual([
        "EACCES",
        "EPERM",
        "EPERM",
      ]);
    }
    // What the setting allows, and the app itself, are within reach.
    const allowed = await tried(service, "outward", [ALLOWED, await standIn(ALLOWED, SECRET)], ORDINARY);
    expect(reached(allowed, SECRET)).toEqual(ORDINARY);
    const own: number = await result(service, "outward", "serve", { said: "mine" });
    expect(reached(await tried(service, "outward", [HOST, own], ORDINARY), "mine")).toEqual(ORDINARY);
    // Others are not asked for the same.
    const other = await tried(service, "hostile", [PRIVATE, inside], ["plain", "datagram"]);
    expect(other).toEqual({ plain: SECRET, datagram: SECRET });
  });

  verifies("walls.connects.ordinary", `on ${level} permitted connections work as ever`, async (context) => {
    await requireJudged(level, context);
    const service = await started(level);
    const target = { host: HOST, port: await standIn(HOST, "hello") };
    const many = Array.from({ length: 100 }, () => "hello");
    expect(await result(service, "hostile", "at_once", { ...target, count: 100 })).toEqual(many);
    expect(await result(service, "hostile", "in_loop", { ...target, count: 100 })).toEqual(many);
    const own: number = await result(service, "hostile", "serve", { said: "mine" });
    expect(reached(await tried(service, "hostile", [HOST, own], ORDINARY), "mine")).toEqual(ORDINARY);
    const six: number = await result(service, "hostile", "serve", { said: "mine", host: "::1" });
    expect(await tried(service, "hostile", ["::1", six], ["plain"])).toEqual({ plain: "mine" });
    // The other listener is for everybody.
    const url = `${service.service.apiUrl}/`;
    const { status, json } = await service.call("hostile", { url }, { functionName: "fetch" });
    expect([status, json.message]).toEqual([500, expect.stringContaining("HTTP Error 404")]);
    expect(await result(service, "hostile", "names", {})).toContain(HOST);
    expect(await result(service, "hostile", "unanswered", target)).toEqual({
      beside: ["hello", "hello", "hello"],
      killed: 9,
      limited: "EINPROGRESS",
      timeout: "TimeoutError",
      interrupted: true,
      late: ["late"],
    });
    if (level === "userns") expect(await result(service, "hostile", "unix_sockets", {})).toBe("heard");
    const micros = await result(service, "hostile", "cost", { ...target, count: 100 });
    process.stderr.write(`\n  on ${level} a connection within this machine takes ${micros.toFixed(0)} µs\n`);
  });
}
