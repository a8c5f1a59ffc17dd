import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import { appId } from "../../../src/model/names.ts";
import { account, callAccount, type Issued, userToken } from "../../support/call-tokens.ts";
import { HandClock } from "../../support/clocks.ts";
import { RawConnection } from "../../support/raw-http.ts";
import { WITHOUT_WALLS, testService } from "../../support/service.ts";
import { sharedService } from "../../support/shared-service.ts";
import { serverApp } from "../../support/servers/server-app.ts";
import { socketApp } from "../../support/servers/socket-app.ts";
import { frame } from "../../support/socket-frames.ts";
import { openStream, type StreamReader } from "../../support/stream-reader.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { bundleFile } from "../async/site.ts";

const MAIN = `
import os
import time

def run(text=""):
    with open("ran", "a") as ran:
        ran.write(text + "\\n")
    return text

def forever():
    while True:
        yield "on"
        time.sleep(0.01)

def full():
    while True:
        yield "x" * 100_000

def two(name):
    yield "one"
    while not os.path.exists("go-" + name):
        time.sleep(0.01)
    yield "two"

def hold(name):
    while not os.path.exists("go-" + name):
        time.sleep(0.01)
    return "kept"
`;

const WIDE = "[scaling]\nmax_replicas = 1\nreplica_concurrency = 64\n";
const site = sharedService(
  {
    app: { main: MAIN, toml: WIDE },
    talk: socketApp(WIDE),
    web: serverApp({ toml: WIDE }),
  },
  WITHOUT_WALLS,
);

type End = (issued: Issued) => Promise<unknown>;

/** What takes a token its right to everything. */
const revoke: End = async ({ accountId }) => {
  const { tokens, owner } = site().service;
  await tokens.revoke(owner.projectId, accountId);
};

const APPS = ["app", "talk", "web"];

/** Every way to lose the right, and the error that tells of it. */
const ENDINGS: Record<string, { readonly code: string; readonly end: End }> = {
  "is revoked": { code: "unauthorized", end: revoke },
  expires: {
    code: "unauthorized",
    end: async ({ accountId }) => {
      const { tokens, owner } = site().service;
      await tokens.update(owner.projectId, accountId, { expiresAt: Date.now() });
    },
  },
  "is replaced": {
    code: "unauthorized",
    end: async ({ accountId }) => {
      const { tokens, owner } = site().service;
      await tokens.rotate(owner.projectId, accountId, { expiresAt: null, overlapMs: 0 });
    },
  },
  "may call other apps": {
    code: "forbidden",
    end: async ({ accountId }) => {
      const { tokens, owner } = site().service;
      const limits = { apps: ["else"], functions: null, origins: null, callsPerMinute: null };
      await tokens.update(owner.projectId, accountId, { callLimits: JSON.stringify(limits) });
    },
  },
};

/** The last message of a stream: the error that it was cut off with. */
async function refusal(reader: StreamReader): Promise<{ code: string; requestId: string }> {
  await reader.ended();
  const last = reader.messages.at(-1);
  expect([last?.event, reader.isWhole]).toEqual(["error", false]);
  const { code, request_id: requestId } = JSON.parse(last?.data ?? "") as Record<string, string>;
  await until("the connection is closed", () => reader.isClosed);
  return { code: code ?? "", requestId: requestId ?? "" };
}

const events = (runId: string, token: string): StreamReader =>
  openStream(site(), "app", {}, { functionName: `runs/${runId}/events`, method: "GET", token });

async function socket(token: string, target = "echo"): Promise<WebSocket> {
  const url = site().url("talk", target).replace("http", "ws");
  const client = new WebSocket(url, { headers: { authorization: `Bearer ${token}` } });
  await once(client, "open");
  return client;
}

async function closed(client: WebSocket): Promise<number> {
  const [code] = (await once(client, "close")) as [number];
  return code;
}

const stateOf = async (runId: string): Promise<string> =>
  (await site().ofRun("app", runId)).json.status as string;

/** What a token has opened. */
type Opened = {
  readonly live: StreamReader;
  readonly packed: StreamReader;
  readonly reader: StreamReader;
  readonly over: Promise<number>;
  readonly cut: Promise<boolean>;
};

describe.each(Object.entries(ENDINGS))("a token that %s", (_, { code, end }) => {
  verifies(
    ["revoked.streams", "revoked.sockets"],
    "loses its streams, its readers of events, its WebSockets and its responses without a length",
    async () => {
      const issued = await callAccount(site(), { apps: APPS });
      const ada = await userToken(site(), issued, "ada");
      const opened: Opened[] = [];
      for (const token of [issued.token, ada]) {
        const live = openStream(site(), "app", {}, { functionName: "forever", token });
        const packed = openStream(
          site(),
          "app",
          {},
          {
            functionName: "forever",
            token,
            headers: { "accept-encoding": "gzip", "x-disconnect": "continue" },
          },
        );
        await Promise.all([live.hasMessages(1), packed.hasMessages(1)]);
        const reader = events(live.runId, token);
        await reader.hasMessages(1);
        const client = await socket(token);
        const response = await fetch(site().url("web", "forever"), {
          headers: { authorization: `Bearer ${token}` },
        });
        const body = response.body!.getReader();
        await body.read();
        const over = closed(client);
        const drained = (async () => {
          while (!(await body.read()).done);
        })();
        const cut = drained.then(
          () => false,
          () => true,
        );
        opened.push({ live, packed, reader, over, cut });
      }
      await end(issued);
      for (const { live, packed, reader, over, cut } of opened) {
        expect(await refusal(live)).toEqual({ code, requestId: live.runId });
        expect(await refusal(packed)).toEqual({ code, requestId: packed.runId });
        expect(await refusal(reader)).toEqual({ code, requestId: reader.runId });
        expect(await over).toBe(1008);
        expect(await cut).toBe(true);
        // As if the caller had left: it stops, or goes on as asked.
        await until("its run is cancelled", async () => (await stateOf(live.runId)) === "cancelled");
        expect(await stateOf(packed.runId)).toBe("running");
        await site().ofRun("app", packed.runId, "cancel", { method: "POST" });
      }
    },
  );
});

verifies("revoked.streams", "a run that ends while its stream is cut off adds nothing to it", async () => {
  const clock = new HandClock();
  const on = await testService({ app: { main: MAIN, toml: WIDE } }, WITHOUT_WALLS, { clock });
  const { tokens, owner } = on.service;
  const { projectId } = owner;
  const expiresAt = clock.now() + 3_600_000;
  const { token, accountId } = await tokens.issue({ projectId, name: "x", role: "run", expiresAt });
  const streams = [{}, { "accept-encoding": "gzip" }].map((headers) =>
    openStream(on, "app", { name: "end" }, { functionName: "two", token, headers }),
  );
  for (const live of streams) await live.hasMessages(1);
  await tokens.revoke(projectId, accountId);
  clock.advance(500);
  for (const live of streams) await live.hasMessages(2);
  // By the clock, which stands still, they have not been closed yet.
  writeFileSync(bundleFile(on, "app", "go-end"), "");
  for (const { runId } of streams)
    await until("it has ended", async () => (await on.ofRun("app", runId)).json.status === "success");
  clock.advance(1_000);
  for (const live of streams) {
    expect((await refusal(live)).code).toBe("unauthorized");
    expect(live.data.slice(0, -1)).toEqual(["one"]);
  }
});

verifies("revoked.streams", "a reader that takes nothing is cut off all the same", async () => {
  const issued = await account(site(), "run");
  const reader = openStream(site(), "app", {}, { functionName: "full", token: issued.token });
  await reader.hasMessages(1);
  reader.socket.pause();
  const { runId } = reader;
  await revoke(issued);
  // Nobody but the service ends it: the reader does nothing more.
  await until("its run has ended", async () => (await stateOf(runId)) === "cancelled");
  reader.leave();
});

verifies(
  "revoked.sockets",
  "a WebSocket in the middle of a frame that never ends, and one that says nothing, are cut off",
  async () => {
    const issued = await account(site(), "run");
    const { hostname, port } = new URL(site().service.apiUrl);
    const key = "dGhlIHNhbXBsZSBub25jZQ==";
    const open = async (): Promise<RawConnection> => {
      const connection = await RawConnection.open(`http://${hostname}:${port}`);
      const { pathname } = new URL(site().url("talk", "echo"));
      connection.send(
        `GET ${pathname} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${issued.token}\r\nconnection: upgrade\r\n` +
          `upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: ${key}\r\n\r\n`,
      );
      expect((await connection.answer()).status).toBe(101);
      return connection;
    };
    const [endless, silent] = [await open(), await open()];
    endless.send(frame({ lengthBytes: 8, length: 2n ** 40n, payload: Buffer.alloc(1_000) }));
    await revoke(issued);
    await Promise.all([endless.closed(), silent.closed()]);
  },
);

verifies("revoked.sockets", "a log socket is closed", async () => {
  const { projectId } = site().service.owner;
  const issued = await account(site(), "deploy");
  const query = new URLSearchParams({
    projectID: projectId,
    appID: appId(projectId, "app"),
    token: issued.token,
  });
  const tail = new WebSocket(`${site().service.baseUrl.replace("http", "ws")}/ws-logs?${query.toString()}`);
  await once(tail, "open");
  const over = closed(tail);
  await revoke(issued);
  expect(await over).toBe(1008);
});

verifies(
  "revoked.waiting",
  "who waits for a result learns nothing of it once the token is revoked, and a slow body starts nothing",
  async () => {
    const issued = await callAccount(site(), { apps: APPS });
    const { token } = issued;
    const submitted = await site().call(
      "app",
      { name: "late" },
      { token, functionName: "hold", suffix: "?async=true" },
    );
    const runId = submitted.json.run_id as string;
    const waiting = site().ofRun("app", runId, "result", { token, headers: { prefer: "wait=600" } });
    const slow = await Promise.all(
      [site().url("app"), site().url("app", "run?async=true"), site().url("web", "echo")].map(async (url) => {
        const { pathname, search, origin } = new URL(url);
        const connection = await RawConnection.open(origin);
        connection.send(
          `POST ${pathname}${search} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\n` +
            `content-type: application/json\r\ncontent-length: 16\r\n\r\n{"text":`,
        );
        return connection;
      }),
    );
    // Another call on another connection: by then those have been admitted.
    expect((await site().call("app", {}, { token })).status).toBe(200);
    await until("somebody waits", async () => (await stateOf(runId)) === "running");
    await revoke(issued);
    for (const connection of slow) {
      connection.send('"later"}');
      expect((await connection.answer()).status).toBe(401);
      connection.socket.destroy();
    }
    // Neither for the run's end nor for the time that it would have waited.
    expect((await waiting).status).toBe(401);
    writeFileSync(bundleFile(site(), "app", "go-late"), "");
    await until("its run has ended", async () => (await stateOf(runId)) === "success");
    expect((await site().ofRun("app", runId)).json.result).toBe("kept");
    const { json } = await runsOf("app");
    expect(json.items.filter((run: { statusCode: number }) => run.statusCode === 401)).toEqual([]);
  },
);

async function runsOf(app: string) {
  const { baseUrl, owner } = site().service;
  const url = `${baseUrl}/v2/projects/${owner.projectId}/apps/${appId(owner.projectId, app)}/runs`;
  const response = await fetch(url, { headers: { authorization: `Bearer ${owner.token}` } });
  return { json: (await response.json()) as { items: { statusCode: number }[] } };
}

verifies("revoked.only", "a stream goes on while its account is renamed, renewed and used", async () => {
  const { tokens, owner } = site().service;
  const issued = await callAccount(site(), { apps: APPS });
  const live = openStream(site(), "app", {}, { functionName: "forever", token: issued.token });
  await live.hasMessages(1);
  const client = await socket(issued.token);
  await tokens.update(owner.projectId, issued.accountId, { name: "renamed" });
  await tokens.rotate(owner.projectId, issued.accountId, { expiresAt: null, overlapMs: 60_000 });
  // By the time another token is refused, this one has been looked at, too.
  const other = await callAccount(site(), { apps: APPS });
  const gone = openStream(site(), "app", {}, { functionName: "forever", token: other.token });
  await gone.hasMessages(1);
  await revoke(other);
  await refusal(gone);
  expect(live.isClosed).toBe(false);
  client.send("still here");
  const [data] = (await once(client, "message")) as [Buffer];
  expect(data.toString()).toBe("still here");
  client.close();
  live.leave();
});

test("a public app's stream is nobody's: no token's end ends it", async () => {
  const app = await site().own({ main: MAIN, toml: "[deployment]\ndisable_auth = true\n" });
  const issued = await callAccount(site(), { apps: [app, "app"] });
  const open = openStream(site(), app, {}, { functionName: "forever", token: issued.token });
  const bound = openStream(site(), "app", {}, { functionName: "forever", token: issued.token });
  await Promise.all([open.hasMessages(1), bound.hasMessages(1)]);
  await revoke(issued);
  await refusal(bound);
  const before = open.messages.length;
  await open.hasMessages(before + 5);
  open.leave();
});
