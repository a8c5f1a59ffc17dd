import { execFile, spawnSync } from "node:child_process";
import { once } from "node:events";
import { promisify } from "node:util";
import { describe, expect, type TestContext } from "vitest";
import { WebSocket as Client } from "ws";
import { pythonWith, skipWithoutPackages } from "../../support/pythons.ts";
import { sharedService } from "../../support/shared-service.ts";
import { serverApp } from "../../support/servers/server-app.ts";
import { socketApp } from "../../support/servers/socket-app.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const WIDE = "[scaling]\nmax_replicas = 1\nreplica_concurrency = 8\n";
const site = sharedService({ web: serverApp({ toml: WIDE }), talk: socketApp(WIDE) });
const run = promisify(execFile);
const bearer = () => `authorization: Bearer ${site().service.owner.token}`;
const socketUrl = () => site().url("talk", "echo").replace(/^http/, "ws");

const PYTHON_CLIENT = `import asyncio, sys, websockets
async def main(url, token):
    async with websockets.connect(url, subprotocols=["millrace", "millrace.bearer." + token]) as socket:
        await socket.send("hello")
        answer = await socket.recv()
        await socket.send(bytes(100_000))
        data = await socket.recv()
        await (await socket.ping())
        print(answer, len(data), socket.subprotocol)
asyncio.run(main(*sys.argv[1:]))`;

/** Ends a test whose program this host does not have, and says so where it will be seen. */
function needs(program: string, context: TestContext): void {
  if (spawnSync(program, ["--version"]).error === undefined) return;
  const reason = `NOT TESTED: this host has no ${program}`;
  process.stderr.write(`\n${reason}: ${context.task.name}\n`);
  context.skip(reason);
}

/** What curl printed: the status line and headers, a blank line, and the body. */
async function curl(...args: string[]): Promise<string> {
  const { stdout } = await run("curl", [
    "--silent",
    "--show-error",
    "--include",
    "--header",
    bearer(),
    ...args,
  ]);
  return stdout;
}

describe("other people's clients", () => {
  verifies("servers.clients", "curl: any method, a body of unknown length, HTTP/1.0", async (context) => {
    needs("curl", context);
    const url = site().url("web", "echo?a=1");
    const put = await curl(
      "--request",
      "PUT",
      "--header",
      "transfer-encoding: chunked",
      "--data",
      "x=1",
      url,
    );
    expect(put).toMatch(/^HTTP\/1\.1 200 /);
    expect(put).toContain('"method": "PUT", "path": "/echo?a=1"');
    expect(put).toContain('"bytes": 3, "body": "x=1"');
    const waits = await curl("--header", "expect: 100-continue", "--data", "y".repeat(2_000), url);
    expect(waits).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 /);
    expect(await curl("--head", url)).toMatch(/^HTTP\/1\.1 200 /);
    const old = await curl("--http1.0", "--data", "z=1", url);
    expect(old).toContain('"bytes": 3, "body": "z=1"');
    // Nobody of that age knows chunks: the end of the connection is the end of the body.
    const stream = await curl("--http1.0", site().url("web", "stream"));
    expect(stream.toLowerCase()).not.toContain("transfer-encoding");
    expect(stream.endsWith("data: 0\n\ndata: 1\n\ndata: 2\n\n")).toBe(true);
  });

  verifies("servers.clients", "wrk: no error at eight connections", async (context) => {
    needs("wrk", context);
    const options = ["--threads", "1", "--connections", "8", "--duration", "1s"];
    // A second may be too short for one answer while others keep every core busy.
    await until("wrk is answered", async () => {
      const { stdout } = await run("wrk", [...options, "--header", bearer(), site().url("talk", "port")]);
      expect(stdout).not.toMatch(/Non-2xx|Socket errors/);
      return /[1-9]\d* requests in /.test(stdout);
    });
  });

  verifies("servers.clients", "Python's websockets: text, bytes, a ping, a close", async (context) => {
    const python = await pythonWith("websockets");
    skipWithoutPackages(context, python);
    const { stdout } = await run(python, ["-c", PYTHON_CLIENT, socketUrl(), site().service.owner.token]);
    expect(stdout).toBe("hello 100000 millrace\n");
  });

  verifies("servers.clients", "npm's ws and Node's own WebSocket: text, bytes, a close", async () => {
    const { token } = site().service.owner;
    const client = new Client(socketUrl(), { headers: { authorization: `Bearer ${token}` } });
    await once(client, "open");
    client.send(Buffer.alloc(100_000));
    const [data] = (await once(client, "message")) as [Buffer];
    expect(data).toHaveLength(100_000);
    client.close(1000);
    expect((await once(client, "close"))[0]).toBe(1000);
    const page = new WebSocket(socketUrl(), ["millrace", `millrace.bearer.${token}`]);
    await once(page, "open");
    page.send("hello");
    const [message] = (await once(page, "message")) as [{ data: string }];
    expect(message.data).toBe("hello");
    page.close(1000);
    const [{ code, wasClean }] = (await once(page, "close")) as [{ code: number; wasClean: boolean }];
    expect([code, wasClean]).toEqual([1000, true]);
  });
});
