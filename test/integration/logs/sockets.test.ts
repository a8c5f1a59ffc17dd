import { once } from "node:events";
import { connect } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { WebSocket } from "ws";
import { maskToken } from "../../../src/management/api/sockets.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { type LogSite, logSite, Tail } from "./site.ts";

const MAIN = `
def say(words):
    for word in words:
        print(word)
`;

const site = logSite({ app: { main: MAIN }, other: { main: MAIN } }, { maxOfProject: 12 });

async function say(words: readonly string[], app = "app"): Promise<string> {
  const { json } = await site().call(app, { words }, { functionName: "say" });
  return json.run_id as string;
}

/** The status that an upgrade is refused with, and the body. */
async function refusal(
  url: string,
  headers = {},
): Promise<{ status: number; json: Record<string, unknown> }> {
  const socket = new WebSocket(url, { headers });
  socket.on("error", () => {});
  const [, response] = await once(socket, "unexpected-response");
  let text = "";
  for await (const chunk of response) text += chunk;
  return { status: response.statusCode, json: JSON.parse(text) as Record<string, unknown> };
}

verifies("logs.websocket", "a tail gives one JSON object a frame, and replays from after", async () => {
  const appID = site().appId("app");
  const runId = await say(["one", "two", "three"]);
  await until("they are in the log", async () => (await site().lines("app")).length >= 3);
  const [first, second] = await site().lines("app");
  const tails = [
    await site().tail({ appID, after: first!.timestamp }),
    await site().tail({ appID, after: first!.logId }),
  ];
  const live = await site().tail({ appID, withStream: "true" });
  await say(["elsewhere"], "other");
  await say(["four"]);
  for (const tail of tails) {
    await until("all came", () => tail.frames.length >= 3);
    expect(tail.logs).toEqual(["two", "three", "four"]);
    expect(tail.frames[0]).toEqual({
      app_id: appID,
      run_id: runId,
      timestamp: second!.timestamp,
      container_name: second!.containerId,
      log: "two",
    });
    await tail.close();
  }
  await until("the new line came", () => live.frames.length >= 1);
  expect(live.logs).toEqual(["four"]);
  expect(live.frames[0]).toMatchObject({ stream: "stdout" });
  await live.close();
});

test("a tail of a run begins at its first line, one of a container follows that alone", async () => {
  const appID = site().appId("app");
  const runID = await say(["mine", "mine too"]);
  await say(["not mine"]);
  const tail = await site().tail({ appID, runID });
  await until("the run's lines came", () => tail.frames.length >= 2);
  expect(tail.logs).toEqual(["mine", "mine too"]);
  const containerID = tail.frames[0]!.container_name;
  const [one, none] = [
    await site().tail({ appID, containerID, after: "1970-01-01T00:00:00Z" }),
    await site().tail({ appID, containerID: "r-none", after: "1970-01-01T00:00:00Z" }),
  ];
  await until("its lines came", () => one.logs.includes("mine too"));
  expect(none.frames).toEqual([]);
  await Promise.all([tail.close(), one.close(), none.close()]);
});

verifies("logs.websocket.times", "every frame has a time of its own, in nanoseconds", async () => {
  const tail = await site().tail({ appID: site().appId("app") });
  const words = Array.from({ length: 500 }, (_, i) => `word ${i}`);
  await say(words);
  await until("all came", () => tail.frames.length >= 500);
  expect(tail.logs).toEqual(words);
  const times = tail.frames.map(({ timestamp }) => timestamp);
  expect(times.every((time) => /\.\d{9}Z$/.test(time))).toBe(true);
  expect(times).toEqual([...new Set(times)].toSorted());
  await tail.close();
});

verifies("logs.websocket.pings", "pings are answered", async () => {
  const tail = await site().tail({ appID: site().appId("app") });
  tail.socket.ping("are you there?");
  const [data] = await once(tail.socket, "pong");
  expect(String(data)).toBe("are you there?");
  await tail.close();
});

verifies("logs.websocket.query-token", "a token in the query opens a tail, and nothing else", async () => {
  const { projectId, token } = site().service.owner;
  const appID = site().appId("app");
  expect((await refusal(site().socketUrl({ appID, token: "" }))).status).toBe(401);
  const response = await fetch(
    `${site().baseUrl}/v2/projects/${projectId}/apps/${appID}/logs?token=${encodeURIComponent(token)}`,
  );
  expect(response.status).toBe(401);
  // A client that can send headers may do so.
  const url = `${site().baseUrl.replace("http", "ws")}/ws-logs?projectID=${projectId}&appID=${appID}`;
  const tail = new Tail(new WebSocket(url, { headers: { authorization: `Bearer ${token}` } }));
  await tail.opened;
  await tail.close();
});

test("who may not, and what is asked wrongly, is told so before the upgrade", async () => {
  const { tokens, owner } = site().service;
  const appID = site().appId("app");
  const { token: run } = await tokens.issue({
    projectId: owner.projectId,
    name: "caller",
    role: "run",
    expiresAt: Date.now() + 60_000,
  });
  const cases: [Record<string, string>, number][] = [
    [{ appID, token: "nonsense" }, 401],
    [{ appID, token: run }, 403],
    [{ appID, projectID: "p-other" }, 403],
    [{ appID: site().appId("none") }, 404],
    [{ appID: "" }, 404],
    [{ appID, after: "yesterday" }, 400],
    [{ appID, runID: "x" }, 400],
    [{ appID, containerID: "\0" }, 400],
  ];
  for (const [query, status] of cases) {
    const answer = await refusal(site().socketUrl(query));
    expect([query, answer.status]).toEqual([query, status]);
    expect(Object.keys(answer.json)).toEqual(
      expect.arrayContaining(["message", "code", "request_id", "error"]),
    );
  }
});

test("a request that merely offers another protocol is answered as if it did not", async () => {
  const { port } = new URL(site().baseUrl);
  const socket = connect(Number(port), "127.0.0.1");
  socket.write("GET /none HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n");
  const [data] = await once(socket, "data");
  expect(String(data)).toMatch(/^HTTP\/1\.1 404 [^]*x-request-id: [^]*"code":"not_found"/);
  socket.destroy();
});

verifies("logs.websocket.masked", "a token in the query is masked in our own logs", async () => {
  const { token } = site().service.owner;
  site().authFault = new Error("a fault of ours");
  try {
    const answer = await refusal(site().socketUrl({ appID: site().appId("app") }));
    expect([answer.status, answer.json["code"]]).toEqual([500, "internal"]);
  } finally {
    site().authFault = null;
  }
  const words = site().words.join("");
  expect(words).toContain("a fault of ours");
  expect(words).toContain("token=[masked]");
  expect(words).not.toContain(token);
  expect(maskToken("/ws-logs?a=1&TOKEN=secret%20x&b=2&token=more#token=y")).toBe(
    "/ws-logs?a=1&TOKEN=***&b=2&token=***#token=y",
  );
});

verifies(
  "revoked.sockets",
  "the sockets of a token that is revoked are closed, answered or not",
  async () => {
    const { tokens, owner } = site().service;
    const account = { projectId: owner.projectId, name: "gone", role: "deploy" as const };
    const { accountId, token } = await tokens.issue({ ...account, expiresAt: Date.now() + 60_000 });
    const tail = await site().tail({ appID: site().appId("app"), token });
    const silent = await site().tail({ appID: site().appId("app"), token });
    silent.socket.pause();
    await tokens.revoke(owner.projectId, accountId);
    const { clock, sockets } = site();
    clock.hold();
    onTestFinished(() => clock.release());
    clock.advance(1_000);
    expect(await tail.closed).toEqual({ code: 1008, reason: "unauthorized" });
    await until("the other has not answered", () => sockets.openCount === 1);
    clock.advance(2_000);
    await until("it is cut off", () => sockets.openCount === 0);
    silent.socket.terminate();
  },
);

test("a reader that takes nothing is sent little, and after a minute dropped with a reason", async () => {
  const before = new Set(site().connections);
  const tail = await site().tail({ appID: site().appId("app") });
  const [connection] = [...site().connections].filter((socket) => !before.has(socket));
  tail.socket.pause();
  const line = "x".repeat(60_000);
  // More than the sockets' buffers take, and than is sent at a time.
  flood(site(), line, 300);
  const kept = (): number => connection?.writableLength ?? 0;
  await until("it is given no more", () => kept() > 0);
  // All lines are stored by then: whoever meant to send more has had the time.
  await site().lines("app");
  expect(kept()).toBeLessThan((300 * line.length) / 2);
  site().clock.skip(59_000);
  expect(site().sockets.openCount).toBe(1);
  site().clock.skip(1_000);
  await until("it is dropped", () => {
    // The reason waits behind what was not read; after two seconds it is broken off.
    site().clock.skip(2_000);
    return site().sockets.openCount === 0;
  });
  tail.socket.resume();
  const { code } = await tail.closed;
  expect([1006, 1013]).toContain(code);
});

test("a frame from a reader is ignored, an endless one is refused", async () => {
  const tail = await site().tail({ appID: site().appId("app") });
  tail.socket.send("hello");
  await say(["still here"]);
  await until("the line came", () => tail.logs.includes("still here"));
  tail.socket.send("x".repeat(100_000));
  expect((await tail.closed).code).toBe(1009);
});

verifies(
  "logs.sockets.share",
  "a project has its share of sockets, and is told when it wants more",
  async () => {
    const appID = site().appId("app");
    const tails = await Promise.all(Array.from({ length: 12 }, () => site().tail({ appID })));
    const answer = await refusal(site().socketUrl({ appID }));
    expect([answer.status, answer.json["code"]]).toEqual([429, "too_many_requests"]);
    await tails.pop()!.close();
    await until("a place is free", () => site().sockets.openCount === 11);
    const again = await site().tail({ appID });
    await Promise.all([again, ...tails].map((tail) => tail.close()));
  },
);

test("a tail whose client vanishes without a word is forgotten", async () => {
  const tail = await site().tail({ appID: site().appId("app") });
  tail.socket.terminate();
  await tail.closed;
  await until("nothing is open", () => site().sockets.openCount === 0);
});

// The last: it closes them for good.
test("a listener that closes tells every tail to come back", async () => {
  const tails = await Promise.all([1, 2, 3].map(() => site().tail({ appID: site().appId("app") })));
  await site().sockets.close();
  for (const tail of tails) expect((await tail.closed).code).toBe(1012);
});

/** Prints without a run: Python would be slowed by nothing, and the test by Python. */
function flood({ book, service, apps }: LogSite, text: string, count: number): void {
  const appNumber = apps.get("app")?.app.number ?? 0;
  const where = { projectId: service.owner.projectId, appName: "app", appNumber, stream: "stdout" as const };
  for (let i = 0; i < count; i++) book.add({ ...where, replicaId: `r-${i % 10}`, runId: null, text });
}
