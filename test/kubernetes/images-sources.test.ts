import { once } from "node:events";
import { createServer, get } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, onTestFinished } from "vitest";
import { bundle } from "../integration/deploys/site.ts";
import { testDatabases } from "../support/databases.ts";
import {
  BASE,
  IMAGE_REGISTRY,
  PORT,
  buildingImages,
  withDockerfile,
} from "../support/kubernetes/image-site.ts";
import { pushImage } from "../support/kubernetes/control-plane.ts";
import { TEST_CLUSTER } from "../support/kubernetes/real-cluster.ts";
import { tokenRegistry } from "../support/kubernetes/token-registry.ts";
import { verifies } from "../verifies.ts";

const databases = testDatabases();
/** A mirror of Debian that this machine reaches, with the folders `dists` and `pool`. */
const MIRROR = process.env["MILLRACE_TEST_DEBIAN"] ?? null;
if (IMAGE_REGISTRY && MIRROR === null)
  process.stderr.write(
    "\nskipped: no system packages are installed. Set MILLRACE_TEST_DEBIAN, see CONTRIBUTING.md\n",
  );

const SERVER = `
import http.server
class Answer(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.send_response(200)
        self.send_header("content-length", "5")
        self.end_headers()
        self.wfile.write(b"hello")
http.server.HTTPServer(("0.0.0.0", ${PORT}), Answer).serve_forever()
`;
/** What the image holds is there for the app. */
const MAIN = `
import subprocess
def run():
    return subprocess.check_output(["hello"], text=True).strip()
`;

/** A way to the mirror for pods, which may reach nothing but this machine. */
async function mirrorForPods(): Promise<string> {
  const server = createServer((asked, response) => {
    const from = get(`${MIRROR}${asked.url}`, (found) => {
      response.writeHead(found.statusCode ?? 502, found.headers);
      found.pipe(response);
    });
    from.on("error", () => response.destroy());
  });
  server.listen(0, TEST_CLUSTER?.hostAddress);
  await once(server, "listening");
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return `http://${TEST_CLUSTER?.hostAddress}:${(server.address() as AddressInfo).port}`;
}

describe.skipIf(!IMAGE_REGISTRY)("where images come from, and go to", () => {
  verifies("buildkit.tokens", "a registry that takes tokens, behind a private authority", async () => {
    const { host, given } = await tokenRegistry(IMAGE_REGISTRY!);
    const { on, site } = await buildingImages(databases, {}, { host });
    const dockerfile = `FROM ${BASE}\nUSER 0\nCOPY server.py /\nCMD ["python3", "/server.py"]\n`;
    const { buildId, status } = await site.deploy("app", withDockerfile(dockerfile, { "server.py": SERVER }));
    expect([status, await site.message("app", buildId)]).toEqual(["success", null]);
    expect((await on.call("app")).text).toBe("hello");
    expect(given()).toBeGreaterThan(0);
  });

  describe.skipIf(MIRROR === null)("packages of Debian", () => {
    verifies("buildkit.built", "apt-get installs what the configuration names", async () => {
      const { site } = await buildingImages(databases);
      const debian = `${IMAGE_REGISTRY!.host}/base/debian:1`;
      pushImage("localhost/py:1", debian, IMAGE_REGISTRY!);
      const sources = `deb ${await mirrorForPods()} bookworm main`;
      const lines = `FROM ${debian}\nUSER 0\nRUN echo '${sources}' > /etc/apt/sources.list\nCMD ["true"]\n`;
      // It ends at once, so that it never serves; its image is there all the same.
      const { buildId: first } = await site.deploy("base", withDockerfile(lines));
      const [, base = ""] = /image ready in .*: (\S+@sha256:\w+)/.exec(await site.log("base", first)) ?? [];
      const toml = `[deployment]\ndocker_base_image_url = "${base}"\n[dependencies.apt]\npython3 = "latest"\nhello = "latest"\n`;
      const { buildId, status } = await site.deploy("app", bundle(MAIN, { "millrace.toml": toml }));
      expect([status, await site.message("app", buildId)]).toEqual(["success", null]);
      expect(await site.log("app", buildId)).toContain("Setting up hello");
      expect(await site.answer("app")).toBe("Hello, world!");
    });
  });
});
