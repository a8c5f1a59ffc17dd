import { writeFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, onTestFinished } from "vitest";
import { WebSocket } from "ws";
import type { Store } from "../../../src/store/store.ts";
import { SkippingClock } from "../../support/clocks.ts";
import { type RawAnswer, RawConnection, rawRequest } from "../../support/raw-http.ts";
import { type TestService, testService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { APPS, type Listener, LISTENERS, place } from "../../integration/listeners/both.ts";

const LIMITS = { maxConnections: 8, maxConnectionsPerAddress: 3 };
/** Some of the thousands of addresses that are this machine. */
const [HERE, THERE, ELSEWHERE] = ["127.0.0.2", "127.0.0.3", "127.0.0.4"];

/** A service on which requests to either listener can be held under way. */
class Site {
  readonly test: TestService;
  readonly clock: SkippingClock;
  /** Sign-ins that have begun. */
  readonly begun: () => number;
  readonly release: () => void;

  private constructor(parts: Pick<Site, "test" | "clock" | "begun" | "release">) {
    this.test = parts.test;
    this.clock = parts.clock;
    this.begun = parts.begun;
    this.release = parts.release;
  }

  static async open(flags: Record<string, unknown> = {}): Promise<Site> {
    const clock = new SkippingClock();
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    let begun = 0;
    // Not the hash: one is made at a time.
    const aroundStore = (store: Store): Store => ({
      ...store,
      people: {
        ...store.people,
        findBySignIn: async (signIn) => {
          begun += 1;
          await released;
          return await store.people.findBySignIn(signIn);
        },
      },
    });
    const test = await testService(APPS, { ...LIMITS, ...flags }, { clock, aroundStore });
    const { projectId } = test.service.owner;
    return new Site({
      test,
      clock,
      begun: () => begun,
      release: () => {
        release();
        writeFileSync(path.join(test.settings.dataDir, "storage", projectId, "enough"), "");
      },
    });
  }

  /** Requests from an address that are under way until `release`. */
  async hold(listener: Listener, count: number, from: string): Promise<RawConnection[]> {
    const held: RawConnection[] = [];
    for (let place = 0; place < count; place++) {
      const before = this.#underWay(listener);
      const connection = await RawConnection.open(listener.url(this.test), from);
      connection.send(listener.held(this.test));
      await until("it is under way", () => this.#underWay(listener) > before);
      held.push(connection);
    }
    return held;
  }

  #underWay({ name }: Listener): number {
    if (name === "the management API") return this.begun();
    const replicas = this.test.apps.get("open")?.pool.replicas ?? [];
    return [...replicas].reduce((sum, { calls }) => sum + calls.size, 0);
  }
}

/** Connections that say nothing. */
async function silent(url: string, count: number, from: string): Promise<RawConnection[]> {
  return await Promise.all(Array.from({ length: count }, () => RawConnection.open(url, from)));
}

type Asked = RawAnswer & { readonly isClosed: boolean };

async function ask(url: string, text: string, from: string): Promise<Asked> {
  await using connection = await RawConnection.open(url, from);
  connection.send(text);
  const answer = await connection.answer();
  if (answer.headers["connection"] === "close") await connection.closed();
  return { ...answer, isClosed: connection.isClosed };
}

function codeOf({ status, body, headers, isClosed }: Asked): unknown[] {
  return [status, (JSON.parse(body) as { code: string }).code, headers["retry-after"], isClosed];
}

for (const listener of LISTENERS) {
  describe(listener.name, () => {
    verifies(
      ["listener.per-address", "listener.room"],
      "an address full of silent connections keeps nobody out for long",
      async () => {
        const { test, clock } = await Site.open();
        const url = listener.url(test);
        const idle = await silent(url, 3, HERE);
        expect((await ask(url, listener.known(test), THERE)).status).toBe(200);
        clock.skip(1_000);
        expect((await ask(url, listener.known(test), HERE)).status).toBe(200);
        for (const connection of idle) {
          await connection.closed();
          expect(connection.answers).toMatchObject([{ status: 429, headers: { connection: "close" } }]);
        }
      },
    );

    verifies(
      ["listener.per-address", "listener.told", "listener.room"],
      "an address whose requests are all under way gets no more, and none of them is ended",
      async () => {
        const site = await Site.open();
        const { test, clock } = site;
        const url = listener.url(test);
        const held = await site.hold(listener, 3, HERE);
        clock.skip(1_000);
        const refused = await ask(url, listener.known(test), HERE);
        expect(codeOf(refused)).toEqual([429, "too_many_connections", "1", true]);
        expect((await ask(url, listener.known(test), THERE)).status).toBe(200);
        site.release();
        const statuses = await Promise.all(held.map(async (one) => (await one.answer()).status));
        expect(statuses).toEqual(Array(3).fill(listener.name === "the run endpoint" ? 200 : 401));
      },
    );

    verifies(
      ["limits.connections", "listener.told"],
      "a listener whose requests are all under way says that it is full",
      async () => {
        const site = await Site.open();
        const { test, clock } = site;
        const url = listener.url(test);
        const held: RawConnection[] = [];
        for (const from of [HERE, THERE, ELSEWHERE]) {
          held.push(...(await site.hold(listener, Math.min(3, 8 - held.length), from)));
        }
        clock.skip(1_000);
        const refused = await ask(url, listener.known(test), "127.0.0.5");
        expect(codeOf(refused)).toEqual([503, "overloaded", "1", true]);
        site.release();
        await Promise.all(held.map(async (one) => await one.answer()));
        // Now they are idle, and make room.
        clock.skip(1_000);
        expect((await ask(url, listener.known(test), "127.0.0.5")).status).toBe(200);
      },
    );

    verifies(
      "listener.room",
      "a listener full of silent connections serves whoever has something to ask",
      async () => {
        const { test, clock } = await Site.open();
        const url = listener.url(test);
        const idle = await Promise.all(["6", "7", "8"].map((last) => silent(url, 3, `127.0.0.${last}`)));
        // Whatever it is told: who came before it has been seen by now.
        await ask(url, listener.known(test), THERE);
        for (let count = 0; count < 20; count++) {
          // That the last one has gone may not have been seen yet.
          clock.skip(1_000);
          expect((await ask(url, listener.known(test), THERE)).status).toBe(200);
        }
        for (const connection of idle.flat()) await connection.closed();
      },
    );

    verifies(
      "listener.per-address",
      "connections that have shown a token do not count for their address",
      async () => {
        const { test } = await Site.open();
        const url = listener.url(test);
        const open: RawConnection[] = [];
        for (let count = 0; count < 5; count++) {
          const connection = await RawConnection.open(url, HERE);
          open.push(connection);
          connection.send(listener.known(test));
          expect(await connection.answer()).toMatchObject({ status: 200 });
        }
        expect(open.map(({ isClosed }) => isClosed)).toEqual(Array(5).fill(false));
        for (const { socket } of open) socket.destroy();
      },
    );

    verifies(
      "listener.trusted-proxies",
      "behind a trusted proxy the address it forwards counts",
      async () => {
        const { test } = await Site.open({ trustedProxies: "127.0.0.0/8", maxConnections: 100 });
        const url = listener.url(test);
        await silent(url, 20, HERE);
        expect((await ask(url, listener.open(test), HERE)).status).toBe(200);
        const as = (address: string): string => `X-Forwarded-For: 10.1.1.1, ${address}`;
        const half = ["Content-Length: 100", "Content-Type: application/json"];
        const held: RawConnection[] = [];
        for (let count = 0; count < 3; count++) {
          const connection = await RawConnection.open(url, HERE);
          held.push(connection);
          connection.send(halfOpen(listener.name, test, [as("192.0.2.1"), ...half]));
        }
        await until("the three are counted", async () => {
          return (await ask(url, listener.open(test, [as("192.0.2.1")]), HERE)).status === 429;
        });
        const refused = await ask(url, listener.open(test, [as("192.0.2.1")]), HERE);
        expect(codeOf(refused)).toEqual([429, "too_many_connections", "1", false]);
        expect((await ask(url, listener.open(test, [as("192.0.2.2")]), HERE)).status).toBe(200);
        for (const { socket } of held) socket.destroy();
        await until("there is room again", async () => {
          return (await ask(url, listener.open(test, [as("192.0.2.1")]), HERE)).status === 200;
        });
      },
    );
  });
}

/** A request that anybody may make, whose body does not come. */
function halfOpen(name: string, test: TestService, headers: readonly string[]): string {
  const path = name === "the run endpoint" ? place(test, "open") : "/v2/session";
  return rawRequest(`POST ${path} HTTP/1.1`, ["Host: x", ...headers], "{");
}

verifies(
  "listener.trusted-proxies",
  "runs and the audit log have the address that a trusted proxy forwards",
  async () => {
    const { test } = await Site.open({ trustedProxies: "127.0.0.0/8", maxConnections: 100 });
    const { apiUrl, baseUrl, owner, store } = test.service;
    const headers = { authorization: `Bearer ${owner.token}`, "x-forwarded-for": "198.51.100.7, 192.0.2.9" };
    await fetch(`${apiUrl}${place(test, "app")}`, { method: "POST", headers });
    await test.service.settle();
    const { runs } = await store.runs.pageOfApp({
      appNumber: test.apps.get("app")?.app.number ?? 0,
      limit: 1,
    });
    expect(runs[0]?.ip).toBe("192.0.2.9");
    const secrets = `${baseUrl}/v2/projects/${owner.projectId}/secrets`;
    const sent = { method: "PATCH", headers: { ...headers, "content-type": "application/json" }, body: "{}" };
    expect((await fetch(secrets, sent)).status).toBe(200);
    const audit = await (await fetch(`${baseUrl}/v2/projects/${owner.projectId}/audit`, { headers })).json();
    expect(audit).toMatchObject({ items: [{ ip: "192.0.2.9" }] });
  },
);

/** Asks for a log socket; resolves with 101, or what it was refused with. */
async function logSocket({ service }: TestService, from: string): Promise<number> {
  const { projectId, token } = service.owner;
  const address = `${service.baseUrl}/ws-logs?projectID=${projectId}&appID=${projectId}-app`;
  const headers = { authorization: `Bearer ${token}` };
  const socket = new WebSocket(address, { localAddress: from, headers });
  onTestFinished(() => socket.terminate());
  return await new Promise((resolve, reject) => {
    socket.once("open", () => resolve(101));
    socket.once("unexpected-response", (_, response) => resolve(response.statusCode ?? 0));
    socket.once("error", reject);
  });
}

verifies(
  ["listener.per-address", "listener.told"],
  "a log socket needs a place too, and has shown a token by the time it is open",
  async () => {
    const site = await Site.open({ maxConnections: 100 });
    for (let count = 0; count < 5; count++) expect(await logSocket(site.test, HERE)).toBe(101);
    const management = LISTENERS.find(({ name }) => name === "the management API")!;
    await site.hold(management, 3, HERE);
    expect(await logSocket(site.test, HERE)).toBe(429);
    expect(await logSocket(site.test, THERE)).toBe(101);
    site.release();
  },
);
