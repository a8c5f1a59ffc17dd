import { once } from "node:events";
import { get, type IncomingMessage } from "node:http";
import { describe, expect } from "vitest";
import { WebSocket as Client } from "ws";
import { type TestService, testService } from "../../support/service.ts";
import { sharedService } from "../../support/shared-service.ts";
import { socketApp } from "../../support/servers/socket-app.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const WIDE = "[scaling]\nmax_replicas = 1\nreplica_concurrency = 8\n";
const site = sharedService({
  talk: socketApp(WIDE),
  narrow: socketApp("[scaling]\nmax_replicas = 1\nreplica_concurrency = 1\n"),
  functions: { main: "def run():\n    return 1\n" },
});

const address = (on: TestService, app: string, target: string): string =>
  on.url(app, target).replace(/^http/, "ws");
const bearer = (on: TestService) => ({ authorization: `Bearer ${on.service.owner.token}` });

/** Connects as a program does, with a header. */
async function open(target: string, app = "talk", on = site()): Promise<Client> {
  const client = new Client(address(on, app, target), { headers: bearer(on) });
  await once(client, "open");
  return client;
}

async function ask(client: Client, text: string): Promise<string> {
  const answered = once(client, "message");
  client.send(text);
  const [data] = (await answered) as [Buffer];
  return data.toString();
}

/** The status of a handshake that is refused, and what it says. */
async function refusal(client: Client): Promise<{ status: number; text: string }> {
  const [, response] = (await once(client, "unexpected-response")) as [unknown, IncomingMessage];
  const pieces = (await response.toArray()) as Buffer[];
  return { status: response.statusCode ?? 0, text: Buffer.concat(pieces).toString() };
}

async function closed(client: Client): Promise<[number, string]> {
  const [code, reason] = (await once(client, "close")) as [number, Buffer];
  return [code, reason.toString()];
}

describe("a WebSocket", () => {
  verifies("servers.sockets", "carries text, bytes and large messages, compressed end to end", async () => {
    const client = await open("some/path");
    expect(client.extensions).toContain("permessage-deflate");
    expect(await ask(client, "hello")).toBe("hello");
    const large = "x".repeat(1_000_000);
    expect(await ask(client, large)).toBe(large);
    client.close(1000, "done");
    expect(await closed(client)).toEqual([1000, "done"]);
  });

  verifies(
    "servers.sockets.token",
    "takes its token as a header, a subprotocol or in the query",
    async () => {
      const { token } = site().service.owner;
      const hello = address(site(), "talk", "hello");
      // As a browser does it: it gives up where none of its subprotocols is chosen.
      for (const [url, protocols, chosen] of [
        [`${hello}?a=1&b=%20`, ["millrace", `millrace.bearer.${token}`], "millrace"],
        [`${hello}?a=1&b=%20`, ["chat", "millrace", `millrace.bearer.${token}`], "chat"],
        [`${hello}?a=1&token=${token}&b=%20`, [], ""],
      ] as const) {
        const page = new WebSocket(url, [...protocols]);
        const { data } = await new Promise<{ data: string }>((resolve, reject) => {
          page.addEventListener("message", ({ data: said }) => resolve({ data: String(said) }), {
            once: true,
          });
          page.addEventListener("error", () => reject(new Error("it did not open")));
        });
        const seen = JSON.parse(data) as { url: string; headers: Record<string, string> };
        expect([page.protocol, seen.url]).toEqual([chosen, "/hello?a=1&b=%20"]);
        expect(JSON.stringify(seen)).not.toContain(token);
        expect(seen.headers["sec-websocket-protocol"]).toBe(chosen === "chat" ? "chat" : undefined);
        page.close();
      }
    },
  );

  verifies("servers.sockets.token", "without a good token there is none", async () => {
    const url = address(site(), "talk", "");
    for (const wrong of [url, `${url}?token=x`]) expect((await refusal(new Client(wrong))).status).toBe(401);
    expect((await refusal(new Client(url, ["millrace.bearer.x"]))).status).toBe(401);
  });

  verifies("servers.sockets.refused", "where the app refuses it, its response is the caller's", async () => {
    const client = new Client(address(site(), "talk", "refused"), { headers: bearer(site()) });
    expect(await refusal(client)).toEqual({ status: 403, text: "not here" });
    const function_ = new Client(address(site(), "functions", "run"), { headers: bearer(site()) });
    expect((await refusal(function_)).status).toBe(404);
    const nobody = new Client(address(site(), "nobody", ""), { headers: bearer(site()) });
    expect((await refusal(nobody)).text).toContain('"app_not_found"');
    expect((await refusal(new Client(address(site(), "nobody", "")))).status).toBe(401);
    // Any other protocol is passed over.
    const headers = { ...bearer(site()), connection: "Upgrade", upgrade: "h2c" };
    const [plain] = (await once(get(site().url("talk", "port"), { headers }), "response")) as [
      IncomingMessage,
    ];
    expect(plain.resume().statusCode).toBe(200);
  });

  verifies("servers.sockets.close", "ends with the close frame of either side", async () => {
    const client = await open("close");
    client.send("now");
    expect(await closed(client)).toEqual([4321, "as you like"]);
    const other = await open("echo?id=other");
    other.close(4444, "mine");
    await closed(other);
    const told = async () =>
      (await site().call("talk", {}, { functionName: "", suffix: "?id=other" })).json as unknown;
    await until("the app knows", async () => JSON.stringify(await told()).includes("close"));
    expect(await told()).toEqual([["close", 4444, "mine"]]);
  });

  verifies("servers.sockets.cut", "that the app breaks off ends with 1011", async () => {
    const client = new Client(address(site(), "talk", "cut"), { headers: bearer(site()) });
    const end = closed(client);
    const [response] = (await once(client, "upgrade")) as [IncomingMessage];
    expect((await end)[0]).toBe(1011);
    const path = `runs/${String(response.headers["x-request-id"])}`;
    const record = async () => (await site().call("talk", null, { method: "GET", functionName: path })).json;
    await until("it is recorded", async () => (await record()).status === "failure");
    expect(await record()).toMatchObject({ websocket: true, statusCode: 502 });
  });

  verifies("servers.sockets.run", "is a run with a slot of its own, and can be cancelled", async () => {
    const client = new Client(address(site(), "narrow", "echo"), { headers: bearer(site()) });
    const [response] = (await once(client, "upgrade")) as [IncomingMessage];
    const path = `runs/${String(response.headers["x-request-id"])}`;
    const record = async () =>
      (await site().call("narrow", null, { method: "GET", functionName: path })).json;
    const next = site().call("narrow", {}, { functionName: "port" });
    await until("the next one waits", () => site().apps.get("narrow")?.pool.slots.waiting === 1);
    expect(await record()).toMatchObject({ status: "running", functionName: "/echo", websocket: true });
    const end = closed(client);
    await site().call("narrow", {}, { functionName: `${path}/cancel` });
    expect(await end).toEqual([1001, "the run was cancelled"]);
    expect((await next).status).toBe(200);
    expect(await record()).toMatchObject({ status: "cancelled" });
  });

  verifies("servers.sockets.run", "that ended well has status 101 and the bytes each way", async () => {
    const client = new Client(address(site(), "talk", "echo"), {
      headers: bearer(site()),
      perMessageDeflate: false,
    });
    const [response] = (await once(client, "upgrade")) as [IncomingMessage];
    const path = `runs/${String(response.headers["x-request-id"])}`;
    expect(await ask(client, "hello")).toBe("hello");
    client.close(1000);
    await closed(client);
    const record = async () => (await site().call("talk", null, { method: "GET", functionName: path })).json;
    await until("it is recorded", async () => (await record()).status === "success");
    // Five letters and a close frame with its code; each frame of the client has a mask of four bytes.
    const bytes = { requestBytes: 19, responseBytes: 11 };
    expect(await record()).toMatchObject({ method: "GET", websocket: true, statusCode: 101, ...bytes });
  });
});

verifies("servers.sockets.cut", "the end of its replica is told with 1011", async () => {
  const own = await testService({ talk: socketApp(WIDE) });
  // Its replica has been idle before.
  await own.call("talk", {}, { functionName: "port" });
  const client = await open("echo", "talk", own);
  const end = closed(client);
  await own.call("talk", {}, { functionName: "die" });
  expect((await end)[0]).toBe(1011);
});

verifies(
  "servers.sockets.drain",
  "a deploy leaves it for response_grace_period, then ends it with 1012",
  async () => {
    const toml = `${WIDE}response_grace_period = "2s"\n`;
    const own = await testService({ talk: socketApp(toml) });
    const client = await open("echo", "talk", own);
    const end = closed(client);
    await own.deploy("talk", socketApp(`${toml}min_replicas = 1\n`));
    expect(await ask(client, "still there")).toBe("still there");
    expect((await end)[0]).toBe(1012);
  },
);

verifies("servers.sockets.drain", "a stop of the service ends it with 1012", async () => {
  const own = await testService({ talk: socketApp(`${WIDE}response_grace_period = "1s"\n`) });
  const client = await open("echo", "talk", own);
  const end = closed(client);
  await own.service.stop();
  expect((await end)[0]).toBe(1012);
});
