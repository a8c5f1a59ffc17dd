import { spawnSync } from "node:child_process";
import { afterAll, beforeAll, expect, vi } from "vitest";
import { WALL_LEVELS } from "../../src/host/walls/walls.ts";
import { freePort } from "../support/free-port.ts";
import { type TestApp, testService } from "../support/service.ts";
import { until } from "../support/until.ts";
import { onlyUpTo, requireJudged } from "../support/walls/walled.ts";
import { wheelsOf } from "../support/wheels.ts";
import { verifies } from "../verifies.ts";

const PACKAGES = ["uvicorn", "gunicorn", "gradio"] as const;

/** Answers with the port that its replica really has, under uvicorn. */
const ASGI = `
import os

async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    body = os.environ["PORT"].encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})
`;
const WSGI = `
import os

def app(environ, start_response):
    start_response("200 OK", [])
    return [os.environ["PORT"].encode()]
`;
const NODE = (port: number) => `
require("node:http")
  .createServer((request, response) => response.end(process.env.PORT))
  .listen(${port});
`;
/** It asks itself whether it is up, at the address that it was told to take, before it says so. */
const GRADIO = (port: number) => `
import os, gradio

def own():
    return os.environ["PORT"]

with gradio.Blocks(analytics_enabled=False) as page:
    shown = gradio.Textbox()
    gradio.Button().click(own, None, shown, api_name="own")
page.launch(server_name="0.0.0.0", server_port=${port}, quiet=True)
`;
const NGINX = (port: number) => `
user root; daemon off; master_process off; error_log stderr; pid nginx.pid;
events {}
http {
  access_log off;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
  server {
    listen ${port}; listen [::]:${port};
    location / { proxy_pass http://unix:uvicorn.sock:; }
  }
}
`;
const FRONT = `
import os, subprocess, sys, time

os.environ["PYTHONPATH"] = os.getcwd()
with open("nginx.conf") as text:
    config = text.read()
os.chdir(os.environ["TMPDIR"])
with open("nginx.conf", "w") as text:
    text.write(config.replace("uvicorn.sock", os.path.realpath("uvicorn.sock")))
subprocess.Popen([sys.executable, "-m", "uvicorn", "main:app", "--uds", os.path.realpath("uvicorn.sock")])
while not os.path.exists("uvicorn.sock"):
    time.sleep(0.02)
os.execvp("nginx", ["nginx", "-p", os.getcwd(), "-c", "nginx.conf"])
`;

type Kind = {
  readonly entrypoint: readonly string[];
  readonly main?: string;
  readonly files?: (port: number) => Record<string, string>;
  /** A program of the host that it needs. */
  readonly program?: string;
};

const KINDS: Readonly<Record<string, Kind>> = {
  "http.server": {
    entrypoint: ["python", "server.py"],
    files: (port) => ({
      "server.py": `
import os
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(os.environ["PORT"].encode())

HTTPServer(("", ${port}), Handler).serve_forever()
`,
    }),
  },
  uvicorn: {
    entrypoint: ["python", "serve.py"],
    main: ASGI,
    files: (port) => ({
      "serve.py": `import uvicorn\nuvicorn.run("main:app", host="0.0.0.0", port=${port})\n`,
    }),
  },
  "uvicorn with workers": {
    entrypoint: ["python", "serve.py"],
    main: ASGI,
    files: (port) => ({
      "serve.py": `import uvicorn\nif __name__ == "__main__":\n    uvicorn.run("main:app", host="::", port=${port}, workers=2)\n`,
    }),
  },
  "gunicorn with workers": {
    entrypoint: ["gunicorn", "main:app"],
    main: WSGI,
    files: (port) => ({ "gunicorn.conf.py": `bind = ["0.0.0.0:${port}", "[::1]:${port}"]\nworkers = 2\n` }),
  },
  "gunicorn with workers that share the port": {
    entrypoint: ["gunicorn", "main:app"],
    main: WSGI,
    files: (port) => ({ "gunicorn.conf.py": `bind = "127.0.0.1:${port}"\nworkers = 2\nreuse_port = True\n` }),
  },
  Node: {
    entrypoint: ["node", "server.cjs"],
    files: (port) => ({ "server.cjs": NODE(port) }),
    program: "/usr/bin/node",
  },
  Gradio: { entrypoint: ["python", "serve.py"], files: (port) => ({ "serve.py": GRADIO(port) }) },
  "nginx before uvicorn": {
    entrypoint: ["python", "front.py"],
    main: ASGI,
    files: (port) => ({ "nginx.conf": NGINX(port), "front.py": FRONT }),
    program: "nginx",
  },
};

let wheels: string | null = null;

beforeAll(async () => {
  wheels = await wheelsOf(...PACKAGES);
  // The builds find them there, and ask no index.
  vi.stubEnv("PIP_FIND_LINKS", wheels ?? "");
  vi.stubEnv("PIP_NO_INDEX", "1");
});

afterAll(() => {
  vi.unstubAllEnvs();
});

function appOf({ entrypoint, main = "", files }: Kind, port: number): TestApp {
  const toml = [
    `[runtime.custom]\nentrypoint = ${JSON.stringify(entrypoint)}\nport = ${port}`,
    // For the socket between nginx and uvicorn.
    "[deployment]\nunix_sockets = true",
    '[scaling]\nmin_replicas = 3\nmax_replicas = 3\nload_balancing_algorithm = "round-robin"',
    `[dependencies.pip]\n${PACKAGES.map((name) => `${name} = "latest"`).join("\n")}\n`,
  ];
  return { main, files: files?.(port) ?? {}, toml: toml.join("\n") };
}

for (const rung of WALL_LEVELS) {
  verifies(
    "servers.port-in-code.replicas",
    `on ${rung} real servers with their port in the code run as three replicas`,
    async (context) => {
      await requireJudged(rung, context);
      context.skip(wheels === null, `NOT TESTED: ${PACKAGES.join(", ")} cannot be had here`);
      const site = await testService({}, await onlyUpTo(rung, "python3", true));
      for (const [name, kind] of Object.entries(KINDS)) {
        if (kind.program !== undefined && spawnSync(kind.program, ["-v"]).error !== undefined) {
          process.stderr.write(`\nNOT TESTED: this host has no ${kind.program}: ${name} on ${rung}\n`);
          continue;
        }
        const app = await site.own(appOf(kind, await freePort()));
        const heard = new Set<string>();
        const get = async (path = "") => await site.call(app, "", { method: "GET", functionName: path });
        const { pool } = site.apps.get(app)!;
        await until(
          `three of ${name} are ready`,
          () => pool.readyCount === 3 || pool.fleet.startFailure !== null,
        );
        for (let turn = 0; turn < 3; turn++) {
          const { status, text } = await get();
          expect({ name, status }).toEqual({ name, status: 200 });
          heard.add(text);
        }
        // A page of Gradio is the same everywhere.
        if (name !== "Gradio") expect({ name, replicas: heard.size }).toEqual({ name, replicas: 3 });
      }
      expect(site.logs.map(({ text }) => text).join("\n")).not.toContain("it runs as one replica");
    },
  );
}
