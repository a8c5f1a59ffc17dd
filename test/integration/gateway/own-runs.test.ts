import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { beforeAll, describe, expect } from "vitest";
import { WebSocket } from "ws";
import { account, callAccount, type Issued, userToken } from "../../support/call-tokens.ts";
import { RawConnection } from "../../support/raw-http.ts";
import { type CallOptions, WITHOUT_WALLS } from "../../support/service.ts";
import { sharedService } from "../../support/shared-service.ts";
import { socketApp } from "../../support/servers/socket-app.ts";
import { openStream } from "../../support/stream-reader.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { bundleFile } from "../async/site.ts";

const MAIN = `
import os
import time

def run(text="", hold=False):
    while hold and not os.path.exists("go-" + text):
        time.sleep(0.01)
    return {"text": text}

def count(text=""):
    yield text
    while not os.path.exists("go-" + text):
        time.sleep(0.01)
        yield "still"
`;

const WIDE = "[scaling]\nmax_replicas = 1\nreplica_concurrency = 64\n";
const site = sharedService(
  { app: { main: MAIN, toml: WIDE }, talk: socketApp(WIDE) },
  { ...WITHOUT_WALLS, webhookAllow: "127.0.0.0/8" },
);

let page: Issued;
let otherPage: Issued;
/** The callers by name: one account and two of its users, another account and its user of the same name. */
let tokens: Record<"ada" | "grace" | "account" | "other account" | "other ada", string>;

beforeAll(async () => {
  page = await callAccount(site(), { apps: ["app", "talk"] });
  otherPage = await callAccount(site(), { apps: ["app", "talk"] });
  tokens = {
    ada: await userToken(site(), page, "ada"),
    grace: await userToken(site(), page, "grace"),
    account: page.token,
    "other account": otherPage.token,
    "other ada": await userToken(site(), otherPage, "ada"),
  };
});

type Caller = keyof typeof tokens;

/** What can be done with a run. The last ones change it. */
const VIEWS: readonly (readonly [action: string, options: CallOptions])[] = [
  ["", {}],
  ["input", {}],
  ["result", {}],
  ["result", { headers: { prefer: "wait=600" } }],
  ["events", {}],
  ["events", { headers: { "last-event-id": "1" } }],
  ["cancel", { method: "POST" }],
];

let count = 0;
/** A text that no other run has. */
const fresh = (): string => `t${(count += 1)}`;
const letGo = (text: string): void => writeFileSync(bundleFile(site(), "app", `go-${text}`), "");

type Started = {
  readonly id: string;
  readonly app: string;
  /** Has it come to its end. */
  readonly end: () => void | Promise<void>;
  readonly isLive: boolean;
};

/** Every way to have a run, by its caller. */
const MODES: Record<string, (token: string) => Promise<Started>> = {
  "a sync call": async (token) => {
    const { json } = await site().call("app", { text: fresh() }, { token });
    return { id: json.run_id, app: "app", end: () => {}, isLive: false };
  },
  "a sync call with a key": async (token) => {
    const headers = { "idempotency-key": fresh() };
    const { json } = await site().call("app", { text: fresh() }, { token, headers });
    return { id: json.run_id, app: "app", end: () => {}, isLive: false };
  },
  "a sync call with a webhook": async (token) => {
    const suffix = "?webhookEndpoint=http%3A%2F%2F127.0.0.1%3A9%2F";
    const { json } = await site().call("app", { text: fresh() }, { token, suffix });
    return { id: json.run_id, app: "app", end: () => {}, isLive: false };
  },
  "an async run": async (token) => await held(token, "?async=true"),
  "an async run with a key": async (token) =>
    await held(token, "?async=true", { "idempotency-key": fresh() }),
  "a sync call that became async": async (token) => await held(token, "", { prefer: "wait=0" }),
  "a stream": async (token) => await streaming(token, {}),
  "a stream that goes on alone": async (token) => await streaming(token, { "x-disconnect": "continue" }),
  "a call of a server": async (token) => {
    const { headers } = await site().call("talk", {}, { token, functionName: "port" });
    return { id: headers.get("x-request-id") ?? "", app: "talk", end: () => {}, isLive: false };
  },
  "an async call of a server": async (token) => {
    const { json } = await site().call("talk", {}, { token, functionName: "port", suffix: "?async=true" });
    return { id: json.run_id, app: "talk", end: () => {}, isLive: false };
  },
  "a WebSocket": async (token) => {
    const url = site().url("talk", "echo").replace("http", "ws");
    const socket = new WebSocket(url, { headers: { authorization: `Bearer ${token}` } });
    const upgraded = once(socket, "upgrade");
    await once(socket, "open");
    const [response] = (await upgraded) as [{ headers: Record<string, string> }];
    return {
      id: response.headers["x-request-id"] ?? "",
      app: "talk",
      end: async () => {
        socket.close();
        await once(socket, "close");
      },
      isLive: true,
    };
  },
};

async function held(token: string, suffix: string, headers: Record<string, string> = {}): Promise<Started> {
  const text = fresh();
  const { status, json } = await site().call("app", { text, hold: true }, { token, suffix, headers });
  expect(status).toBe(202);
  return { id: json.run_id, app: "app", end: () => letGo(text), isLive: true };
}

async function streaming(token: string, headers: Record<string, string>): Promise<Started> {
  const text = fresh();
  const stream = openStream(site(), "app", { text }, { functionName: "count", token, headers });
  await stream.hasMessages(2);
  return {
    id: stream.runId,
    app: "app",
    end: async () => {
      letGo(text);
      await stream.ended();
      stream.leave();
    },
    isLive: true,
  };
}

const ask = async (app: string, id: string, [action, options]: (typeof VIEWS)[number], token: string) =>
  await site().ofRun(app, id, action, { ...options, token });

describe.each(Object.keys(MODES))("%s", (mode) => {
  verifies(
    ["call.own-runs", "call.record"],
    "is its caller's alone on every route, while it runs and after, and a stronger token's as ever",
    async () => {
      const strangers = (Object.keys(tokens) as Caller[]).filter((name) => name !== "ada");
      const { id, app, end, isLive } = await MODES[mode]!(tokens.ada);
      expect(id).toMatch(/^[0-9a-f-]{36}$/);
      const nobody = await site().ofRun(app, "0197c3a0-7e1b-7abc-8def-0123456789ab", "", {
        token: tokens.ada,
      });
      const refuseStrangers = async (): Promise<void> => {
        for (const name of strangers) {
          const answers = await Promise.all(VIEWS.map((view) => ask(app, id, view, tokens[name])));
          const seen = answers.map(({ status, json }) => [status, json.code, json.message]);
          // As if there were no such run.
          expect([name, ...seen]).toEqual([
            name,
            ...VIEWS.map(() => [404, nobody.json.code, nobody.json.message]),
          ]);
        }
      };
      if (isLive) {
        await refuseStrangers();
        const { status, json } = await ask(app, id, VIEWS[0]!, tokens.ada);
        expect([status, ["queued", "running"].includes(json.status)]).toEqual([200, true]);
      }
      await end();
      await until("it has ended", async () => {
        const { json } = await ask(app, id, VIEWS[0]!, tokens.ada);
        return json.status === "success";
      });
      await refuseStrangers();
      // In the store, no longer on its way there.
      await site().service.settle();
      await refuseStrangers();
      const stronger = await account(site(), "run");
      for (const token of [tokens.ada, stronger.token, site().service.owner.token]) {
        const record = await ask(app, id, VIEWS[0]!, token);
        expect(record.json).toMatchObject({ id, accountId: page.accountId, user: "ada" });
        expect((await ask(app, id, ["cancel", { method: "POST" }], token)).status).toBe(409);
        expect([200, 410]).toContain((await ask(app, id, ["result", {}], token)).status);
        expect([200, 204]).toContain((await ask(app, id, ["events", {}], token)).status);
      }
    },
  );
});

verifies("call.own-runs", "its caller cancels it, and only its caller", async () => {
  for (const name of ["ada", "account"] as const) {
    const { id } = await held(tokens[name], "?async=true");
    for (const stranger of Object.keys(tokens) as Caller[]) {
      if (stranger === name) continue;
      expect(
        (await site().ofRun("app", id, "cancel", { method: "POST", token: tokens[stranger] })).status,
      ).toBe(404);
    }
    const answer = await site().ofRun("app", id, "cancel", { method: "POST", token: tokens[name] });
    expect(answer.status).toBe(202);
    const waited = { token: tokens[name], headers: { prefer: "wait=25" } };
    await site().ofRun("app", id, "result", waited);
    expect((await site().ofRun("app", id, "", { token: tokens[name] })).json.status).toBe("cancelled");
  }
});

verifies(
  "call.own-runs",
  "requests of several callers on one connection, sent before the first is answered, are each caller's own",
  async () => {
    const connection = await RawConnection.open(site().service.apiUrl);
    const names = ["ada", "grace", "other ada", "account"] as const;
    const { pathname } = new URL(site().url("app"));
    const head = (name: Caller, body: string): string =>
      `POST ${pathname} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${tokens[name]}\r\n` +
      `content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n`;
    const body = '{"text":"mine"}';
    connection.send(names.map((name) => head(name, body) + body).join(""));
    for (const [place, name] of names.entries()) {
      const { headers } = await connection.answer(place);
      const id = headers["x-request-id"] ?? "";
      for (const reader of names) {
        const { status } = await ask("app", id, VIEWS[0]!, tokens[reader]);
        expect([name, reader, status]).toEqual([name, reader, name === reader ? 200 : 404]);
      }
    }
    connection.socket.destroy();
  },
);

verifies("call.own-runs", "what a stronger token has run is not for a token of role call", async () => {
  const { json } = await site().call("app", { text: "mine" });
  for (const token of Object.values(tokens))
    for (const view of VIEWS) expect((await ask("app", json.run_id, view, token)).status).toBe(404);
  expect((await ask("app", json.run_id, VIEWS[0]!, site().service.owner.token)).json.user).toBeUndefined();
});

verifies(
  "call.own-keys",
  "one key stands for another run with every caller, and for one run with the caller it is of",
  async () => {
    const key = { "idempotency-key": "order-1" };
    const everyone = { ...tokens, owner: site().service.owner.token };
    const first = new Map<string, string>();
    for (const [name, token] of Object.entries(everyone)) {
      // Another body: with somebody else's key it would be refused.
      const { status, json, headers } = await site().call("app", { text: name }, { token, headers: key });
      expect([name, status, json.result, headers.get("idempotent-replayed")]).toEqual([
        name,
        200,
        { text: name },
        null,
      ]);
      first.set(name, json.run_id);
    }
    expect(new Set(first.values()).size).toBe(first.size);
    for (const [name, token] of Object.entries(everyone)) {
      const { json, headers } = await site().call("app", { text: name }, { token, headers: key });
      expect([json.run_id, headers.get("idempotent-replayed")]).toEqual([first.get(name), "true"]);
      const other = await site().call("app", { text: "else" }, { token, headers: key });
      expect([other.status, other.json.code]).toEqual([422, "idempotency_mismatch"]);
    }
    // Two tokens of one user are one caller.
    const again = await userToken(site(), page, "ada");
    const { json } = await site().call("app", { text: "ada" }, { token: again, headers: key });
    expect(json.run_id).toBe(first.get("ada"));
    // Neither is a key that looks like what stands for another's.
    const forged = { "idempotency-key": `${page.accountId} ada order-1` };
    const { status } = await site().call("app", { text: "forged" }, { token: tokens.grace, headers: forged });
    expect(status).toBe(200);
    const strong = await account(site(), "run");
    const shared = await site().call("app", { text: "owner" }, { token: strong.token, headers: key });
    // As before: keys of stronger tokens are the app's.
    expect(shared.json.run_id).toBe(first.get("owner"));
  },
);
