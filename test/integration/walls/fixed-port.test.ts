import { connect } from "node:net";
import { networkInterfaces } from "node:os";
import { expect } from "vitest";
import { freePort } from "../../support/free-port.ts";
import { serverApp } from "../../support/servers/server-app.ts";
import { testService } from "../../support/service.ts";
import type { TestApp } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { TRIED_RUNGS } from "../../support/walls/tried-rungs.ts";
import { onlyUpTo, requireJudged } from "../../support/walls/walled.ts";
import { verifies } from "../../verifies.ts";

/** Has the port in its code. Tells which process answers, and what a connection to a port of this machine gives. */
const MAIN = `
import json, os, socket, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.request import urlopen

NAME = os.urandom(8).hex()

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        told = {"name": NAME, "version": VERSION, "port": self.server.server_address[1], "own": int(os.environ["PORT"])}
        if self.path.startswith("/by/"):
            with urlopen("http://%s:%d/" % (self.path[4:], CODED), timeout=10) as answer:
                told = {**json.load(answer), "caller": NAME}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(told).encode())

    def log_message(self, format, *args):
        pass

class Server(ThreadingHTTPServer):
    address_family = socket.AF_INET6
    request_queue_size = 128

    def server_bind(self):
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

try:
    urlopen("http://127.0.0.1:%d/" % CODED)
    sys.exit("somebody answers before it listens")
except OSError:
    pass
Server(("::", CODED), Handler).serve_forever()
`;

function stubborn(port: number, version: number): TestApp {
  const runtime = `entrypoint = ["python", "main.py"]\nport = ${port}`;
  const toml =
    '[scaling]\nmin_replicas = 3\nmax_replicas = 3\nload_balancing_algorithm = "round-robin"\nreplica_concurrency = 4\n';
  return serverApp({ runtime, toml }, `CODED, VERSION = ${port}, ${version}\n${MAIN}`);
}

/** An address of this machine that others reach it by, if it has one. */
function ownAddresses(): string[] {
  const all = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
  return all
    .filter(({ family, internal }) => family === "IPv4" && !internal)
    .map(({ address }) => address)
    .slice(0, 1);
}

async function isTaken(port: number): Promise<boolean> {
  return await new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => resolve(true));
    socket.once("error", () => resolve(false));
    socket.once("connect", () => socket.destroy());
  });
}

for (const rung of TRIED_RUNGS) {
  verifies(
    "servers.port-in-code.replicas",
    `on ${rung} three replicas of a server with its port in the code answer, and so does the next version beside them`,
    async (context) => {
      await requireJudged(rung, context);
      const port = await freePort();
      const site = await testService({ web: stubborn(port, 1) }, await onlyUpTo(rung, "python3", true));
      const get = async (path: string) =>
        (await site.call("web", "", { method: "GET", functionName: path })).json as Record<string, unknown>;
      await until("three are ready", () => site.ready("web") === 3);
      const told = [await get(""), await get(""), await get("")];
      expect(new Set(told.map(({ name }) => name)).size).toBe(3);
      // What it is told of its own socket is the real port.
      for (const each of told) expect(each["port"]).toBe(each["own"]);
      expect(await isTaken(port)).toBe(false);
      for (const host of [
        "127.0.0.1",
        "localhost",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
        ...ownAddresses(),
      ]) {
        const heard = [await get(`by/${host}`), await get(`by/${host}`), await get(`by/${host}`)];
        expect(new Set(heard.map(({ caller }) => caller)).size).toBe(3);
        for (const { name, caller } of heard) expect({ host, name }).toEqual({ host, name: caller });
      }
      const first = site.apps.get("web");
      await site.deploy("web", stubborn(port, 2));
      expect((await get("")).version).toBe(2);
      expect(first?.pool.isSingle).toBe(false);
      expect(site.logs.map(({ text }) => text).join("\n")).not.toContain("it runs as one replica");
    },
  );
}
