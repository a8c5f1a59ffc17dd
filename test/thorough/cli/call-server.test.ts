import { createHash } from "node:crypto";
import { createWriteStream, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import type { WriteStream } from "node:fs";
import { execFileSync } from "node:child_process";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { Command, MILLRACE } from "../../support/command-line.ts";
import { serverApp } from "../../support/servers/server-app.ts";
import { socketApp } from "../../support/servers/socket-app.ts";
import { sharedService } from "../../support/shared-service.ts";
import { until } from "../../support/until.ts";
import { WebhookTarget } from "../../support/webhook-target.ts";
import { verifies } from "../../verifies.ts";
import { Client } from "../../integration/cli/client.ts";

const WIDE = "[scaling]\nmax_replicas = 1\nreplica_concurrency = 8\n";
const shared = sharedService(
  { web: serverApp({ toml: WIDE }), talk: socketApp(WIDE), hello: { main: "def run():\n    return 1\n" } },
  { webhookAllow: "127.0.0.0/8" },
);

type Echo = { method: string; path: string; headers: [string, string][]; body: string };

function headerOf({ headers }: Echo, name: string): string | undefined {
  return headers.find(([key]) => key.toLowerCase() === name)?.[1];
}

describe("a path of a server", () => {
  verifies("cli.call-path", "is sent the method, headers, query and body that were typed", async () => {
    const client = new Client(shared());
    writeFileSync(path.join(client.cwd, "note.txt"), "two\nlines");
    const ran = await client.runAll([
      ["call", "web", "/a%20b//c?x=%20&y&z=1+2"],
      ["call", "web", "/items", "name=Ada", "n=3"],
      ["call", "web", "/", "--method", "put", "--data", "@note.txt", "-H", "Content-Type: text/plain"],
      ["call", "web", "/", "--data", "plain", "-H", "X-Many: 1", "-H", "x-many: 2", "--key", "k"],
    ]);
    expect(ran.map(({ code, stderr }) => [code, stderr])).toEqual(ran.map(() => [0, ""]));
    const [get, pairs, put, post] = ran.map(({ stdout }) => JSON.parse(stdout) as Echo);
    expect(get).toMatchObject({ method: "GET", path: "/a%20b//c?x=%20&y&z=1+2", body: "" });
    expect(pairs).toMatchObject({ method: "POST", path: "/items", body: '{"name":"Ada","n":3}' });
    expect(headerOf(pairs!, "content-type")).toBe("application/json");
    expect(put).toMatchObject({ method: "PUT", body: "two\nlines" });
    expect(headerOf(put!, "content-type")).toBe("text/plain");
    expect(post).toMatchObject({ method: "POST", body: "plain" });
    expect([headerOf(post!, "x-many"), headerOf(post!, "idempotency-key")]).toEqual(["1, 2", "k"]);
  });

  verifies("cli.call-path", "takes bytes from a pipe and gives bytes to one", async () => {
    const client = new Client(shared());
    const bytes = Buffer.from([0, 255, 10, 13, 128, 195]);
    writeFileSync(path.join(client.cwd, "in"), bytes);
    const script = `"$0" call web /hash --data - < in && "$0" call web '/bytes?count=300000' > out`;
    const command = new Command("sh", ["-c", script, MILLRACE], client);
    expect([await command.exited, command.stderr]).toEqual([0, ""]);
    expect(command.stdout).toBe(createHash("sha256").update(bytes).digest("hex"));
    expect(statSync(path.join(client.cwd, "out")).size).toBe(300_000);
    expect(new Set(readFileSync(path.join(client.cwd, "out")))).toEqual(new Set(Buffer.from("x")));
  });

  verifies("cli.call-path", "prints what comes while it comes, events one per line", async () => {
    const client = new Client(shared());
    const endless = client.start("call", "web", "/forever");
    await endless.printed(/^begun\nmore\nmore\n/);
    expect(await endless.interrupt()).toBe(130);
    await until("the server noticed", () => shared().logs.some(({ text }) => text === "the caller has gone"));
    const [plain, json] = await client.runAll([
      ["call", "web", "/stream?count=2"],
      ["call", "web", "/stream?count=2", "--json"],
    ]);
    expect(plain).toEqual({ code: 0, stdout: "0\n1\n", stderr: "" });
    expect(json).toEqual({ code: 0, stdout: '{"data":"0"}\n{"data":"1"}\n', stderr: "" });
  });

  verifies("cli.call-path", "with an error status is printed and ends the command with 1", async () => {
    const client = new Client(shared());
    const [plain, json, fine, died] = await client.runAll([
      ["call", "web", "/echo?status=404"],
      ["call", "web", "/echo?status=404", "--json"],
      ["call", "web", "/hash", "--data", "x", "--json"],
      ["call", "web", "/exit"],
    ]);
    expect(plain).toMatchObject({ code: 1, stderr: "millrace: /echo?status=404 answered 404 Not Found\n" });
    expect(JSON.parse(plain!.stdout)).toMatchObject({ method: "GET" });
    expect([json!.code, JSON.parse(json!.stdout)]).toMatchObject([
      1,
      { run_id: expect.any(String), status: 404, body: { path: "/echo?status=404" } },
    ]);
    expect(JSON.parse(fine!.stdout)).toMatchObject({
      status: 200,
      headers: { "content-type": "text/plain" },
      body: createHash("sha256").update("x").digest("hex"),
    });
    expect(died).toMatchObject({ code: 1, stdout: "" });
    expect(died!.stderr).toMatch(/^millrace: .*\n  → millrace logs web --run [0-9a-f-]{36}\n$/);
  });

  verifies(
    "cli.call-path",
    "is called in the background, and its answer waited for or forwarded",
    async () => {
      const client = new Client(shared());
      const target = await WebhookTarget.open();
      const [waited, begun, refused] = await client.runAll([
        ["call", "web", "/echo?a=%20", "--async", "--wait", "--data", "hi"],
        ["call", "web", "/echo", "--async", "--webhook", target.url],
        ["call", "web", "/echo", "--async", "--method", "PUT"],
      ]);
      expect(waited!.code).toBe(0);
      expect(JSON.parse(waited!.stdout)).toMatchObject({ method: "POST", path: "/echo?a=%20", body: "hi" });
      expect(begun!.stdout).toMatch(/^[0-9a-f-]{36}\n$/);
      await target.has(1);
      expect(JSON.parse(String(target.received[0]?.body))).toMatchObject({ path: "/echo" });
      expect([refused!.code, refused!.stderr]).toEqual([2, expect.stringContaining("only work with POST")]);
    },
  );
});

verifies(
  "cli.call-path",
  "whoever takes functions for a server, or a server for functions, is told",
  async () => {
    const client = new Client(shared());
    const ran = await client.runAll([
      ["call", "hello", "/v1/models"],
      ["call", "hello", "/"],
      ["call", "hello", "/run"],
      ["call", "nosuch", "/"],
      ["call", "web", "early"],
      ["call", "hello", "--ws"],
      ["call", "hello", "a=1", "--method", "PUT"],
    ]);
    expect(ran.map(({ code }) => code)).toEqual([2, 2, 2, 1, 1, 2, 2]);
    for (const { stderr } of ran.slice(0, 3)) {
      expect(stderr).toContain("hello offers functions and has no paths");
      expect(stderr).toContain("→ millrace call hello FUNCTION key=value");
    }
    expect(ran[3]?.stderr).toContain('has no app "nosuch"');
    expect(ran[4]?.stderr).toContain("web is a server of its own, and answered 413 to POST /early");
    expect(ran[4]?.stderr).toContain("→ name one of its paths: millrace call web /PATH");
    expect(ran[5]?.stderr).toContain("→ millrace call hello /PATH --ws");
    expect(ran[6]?.stderr).toContain("→ millrace call hello /PATH a=1 --method PUT");
  },
);

test("what is typed wrongly for a server ends with 2, and nothing is sent", async () => {
  const client = new Client(null, {
    MILLRACE_URL: "http://127.0.0.1:1",
    MILLRACE_API_URL: "http://127.0.0.1:1",
    MILLRACE_PROJECT: "p-abcdefgh",
    MILLRACE_TOKEN: "t",
  });
  const cases = [
    [["/", "-H", "no colon"], '"no colon" is not a header'],
    [["/", "-H", "X-Odd: \u0000"], "is not a header"],
    [["/", "--method", "CONNECT"], "--method takes a method"],
    [["/", "word"], '"word" is not key=value'],
    [["/../other/run"], "is not a path below web"],
    [["/", "--data", "@nowhere"], "nowhere cannot be read: ENOENT"],
    [["/", "--ws", "--data", "x"], "--data does not go with --ws"],
    [["/", "--ws", "a=1"], "takes no key=value"],
    [["/", "--ws", "--linger", "soon"], "--linger takes a duration"],
    [["/", "--linger", "1s"], "--linger only works with --ws"],
  ] as const;
  const ran = await client.runAll(cases.map(([words]) => ["call", "web", ...words]));
  for (const [index, [words, message]] of cases.entries()) {
    const { code, stderr } = ran[index]!;
    expect([words, code, stderr]).toEqual([words, 2, expect.stringContaining(message)]);
  }
});

verifies("cli.deploy", "deploy shows how to call an app that is a server", async () => {
  const client = new Client(shared());
  const folder = path.join(client.cwd, "site");
  mkdirSync(folder);
  const { main, toml = "" } = serverApp({ runtime: 'healthcheck_endpoint = "/healthz"' });
  writeFileSync(path.join(folder, "server.py"), main);
  writeFileSync(path.join(folder, "millrace.toml"), toml.replace("main.py", "server.py"));
  const deployed = await client.ok("deploy", "site", "--yes");
  expect(deployed).toContain("  millrace call site /healthz\n");
  expect(deployed).toMatch(/^ {2}curl '\S+\/site\/healthz' -H "Authorization: Bearer \$MILLRACE_TOKEN"$/m);
  expect(await client.ok("call", "site", "/healthz")).toBe("{}");
});

describe("a WebSocket", () => {
  /** What the server saw of a connection, once that has ended. */
  async function seen(id: string): Promise<unknown> {
    const ask = async () => await shared().call("talk", "", { method: "GET", functionName: `?id=${id}` });
    await until("the server saw the end", async () => (await ask()).text.includes("close"));
    return (await ask()).json;
  }

  /** Begins the command with a stdin that the test writes to. */
  function converse(client: Client, ...words: string[]): { command: Command; stdin: WriteStream } {
    const fifo = path.join(client.cwd, "stdin");
    execFileSync("mkfifo", [fifo]);
    const command = new Command("sh", ["-c", 'exec "$0" "$@" < stdin', MILLRACE, ...words], client);
    return { command, stdin: createWriteStream(fifo) };
  }

  verifies("cli.call-socket", "carries lines both ways, and closes properly after stdin's end", async () => {
    const client = new Client(shared());
    const { command, stdin } = converse(client, "call", "talk", "/?id=both", "--ws", "--linger", "50ms");
    stdin.write("first\n");
    await command.printed(/^first$/m);
    stdin.write("zwei ž\n\n");
    await command.printed(/^zwei ž\n\n/m);
    stdin.end();
    expect([await command.exited, command.stderr]).toEqual([0, "the WebSocket was closed: 1000\n"]);
    const texts = ["first", "zwei ž", ""].map((text) => Buffer.from(text).toString("hex"));
    expect(await seen("both")).toEqual([
      ...texts.map((text) => ["message", text, false]),
      ["close", 1000, ""],
    ]);
  });

  verifies("cli.call-socket", "stays open after stdin's end until the answers have come", async () => {
    const client = new Client(shared());
    const ran = await client.pipe("a\nb\n", "call", "talk", "/twice", "--ws", "--linger", "1h");
    expect(ran).toEqual({ code: 0, stdout: "a\nb\n", stderr: "the WebSocket was closed: 1000 enough\n" });
  });

  verifies(
    "cli.call-socket",
    "tells bytes from text, and any other close code fails the command",
    async () => {
      const client = new Client(shared());
      const bytes = await client.runAlone("call", "talk", "/bytes", "--ws", "--linger", "1h");
      expect([bytes.code, bytes.stdout]).toEqual([0, "[binary, 3 bytes] 0001ff\n"]);
      const closed = await client.pipe("x\n", "call", "talk", "/close", "--ws", "--linger", "1h");
      expect(closed).toEqual({
        code: 1,
        stdout: "",
        stderr: "millrace: the WebSocket was closed: 4321 as you like\n",
      });
      const json = await client.pipe("x\n", "call", "talk", "/close", "--ws", "--json", "--linger", "1h");
      expect(json).toEqual({
        code: 1,
        stdout: '{"type":"close","code":4321,"reason":"as you like"}\n',
        stderr: "",
      });
    },
  );

  verifies("cli.call-socket", "is closed with 1000 by Ctrl-C", async () => {
    const client = new Client(shared());
    const { command, stdin } = converse(
      client,
      "call",
      "talk",
      "/hello?id=stop",
      "--ws",
      "-H",
      "Sec-WebSocket-Protocol: chat",
    );
    const [line] = await command.printed(/^\{.*\}$/m);
    // The token stays with the service.
    expect(JSON.parse(line)).toMatchObject({ headers: { "sec-websocket-protocol": "chat" } });
    expect(line).not.toContain(shared().service.owner.token);
    expect(await command.interrupt()).toBe(130);
    stdin.destroy();
    expect(await seen("stop")).toEqual([["close", 1000, ""]]);
  });

  verifies("cli.call-socket", "that is refused says by whom and why", async () => {
    const client = new Client(shared());
    const refused = await client.runAlone("call", "talk", "/refused", "--ws");
    expect(refused).toMatchObject({ code: 1, stdout: "" });
    expect(refused.stderr).toBe(
      "millrace: /refused opens no WebSocket: it answered 403 Forbidden\n  - not here\n",
    );
    const functions = await client.runAlone("call", "hello", "/", "--ws");
    expect([functions.code, functions.stderr]).toEqual([
      2,
      expect.stringContaining("hello offers functions and has no paths"),
    ]);
  });
});
