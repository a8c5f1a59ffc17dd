import { expect } from "vitest";
import { sharedService } from "../../support/shared-service.ts";
import { serverApp } from "../../support/servers/server-app.ts";
import { WITHOUT_WALLS } from "../../support/service.ts";
import type { TestApp } from "../../support/service.ts";
import { freePort } from "../../support/free-port.ts";
import { verifies } from "../../verifies.ts";

const site = sharedService({}, WITHOUT_WALLS);

/** A server that listens on that port whatever it is told, and tells its version. */
function stubborn(port: number, version: number): TestApp {
  const main = serverApp()
    .main.replace('int(os.environ["PORT"])\n', `${port}\n`)
    .replace('"pid": os.getpid()', `"pid": os.getpid(), "version": ${version}`);
  return serverApp(
    { runtime: `entrypoint = ["python", "main.py"]\nport = ${port}`, toml: "[scaling]\nmax_replicas = 3\n" },
    main,
  );
}

verifies("servers.port-in-code", "a port in the code is found, and there is one replica", async () => {
  const port = await freePort();
  const app = await site().own(stubborn(port, 1));
  const answers = await Promise.all([1, 2, 3, 4].map(() => site().call(app, {}, { functionName: "echo" })));
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
  expect(new Set(answers.map(({ json }) => json.pid)).size).toBe(1);
  const printed = site().logs.filter(({ appName }) => appName === app);
  expect(printed.map(({ text }) => text).join("\n")).toContain(
    `listens on port ${port} whatever PORT says: it runs as one replica`,
  );
});
