import { once } from "node:events";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { WebSocket as Client } from "ws";
import { DeployClient } from "../../support/deploy-client.ts";
import { sharedService } from "../../support/shared-service.ts";
import { serverApp } from "../../support/servers/server-app.ts";
import { socketApp } from "../../support/servers/socket-app.ts";
import { type TestApp, WITHOUT_WALLS } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { freePort } from "../../support/free-port.ts";
import { zipOf } from "../../support/zip.ts";
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

function clientOf(name: string): DeployClient {
  const { baseUrl, owner } = site().service;
  return new DeployClient({ baseUrl, projectId: owner.projectId, token: owner.token }, name);
}

async function zipped(name: string, { main, toml = "" }: TestApp): Promise<Uint8Array<ArrayBuffer>> {
  return await zipOf({ "main.py": main, "millrace.toml": `${toml}\n[deployment]\nname = "${name}"\n` });
}

/** Deploys as a client does: the new version is tried before it serves. */
async function deployTried(name: string, app: TestApp) {
  const client = clientOf(name);
  const { buildId, status } = await client.deploy(await zipped(name, app));
  return { status, log: (await client.log(buildId)).join("\n") };
}

/** Changes something of an app by the management API. */
async function change(app: string, method: string, path: string, body?: object): Promise<number> {
  const { baseUrl, owner } = site().service;
  const { projectId, token } = owner;
  const response = await fetch(`${baseUrl}/v2/projects/${projectId}/apps/${projectId}-${app}/${path}`, {
    method,
    headers: { authorization: `Bearer ${token}`, ...(body && { "content-type": "application/json" }) },
    ...(body && { body: JSON.stringify(body) }),
  });
  return response.status;
}

const versionOf = async (app: string) =>
  (await site().call(app, {}, { functionName: "echo" })).json.version as unknown;

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

verifies(
  "servers.port-in-code",
  "the old server finishes its calls and ends, then the new one starts; calls wait meanwhile",
  async () => {
    const port = await freePort();
    const app = await site().own(stubborn(port, 1));
    const first = site().apps.get(app)!;
    const slow = site().call(app, {}, { functionName: "slow" });
    await until("it runs", () => site().logs.some(({ text }) => text === "slow has begun"));
    const deploying = deployTried(app, stubborn(port, 2));
    await until("the old replica is to end", () => first.pool.readyCount === 0);
    const waiting = [1, 2, 3].map(() => versionOf(app));
    await until("calls wait", () => first.pool.slots.waiting === 3);
    writeFileSync(path.join(site().bundleDir(app), "go"), "");
    expect((await slow).status).toBe(200);
    expect(await Promise.all(waiting)).toEqual([2, 2, 2]);
    const { status, log } = await deploying;
    expect(status).toBe("success");
    expect(log).toContain("it ends before the new one starts, and calls wait meanwhile");
    expect(await versionOf(app)).toBe(2);
    // One that does not start leaves the calls to the one before.
    const broken = deployTried(app, { ...stubborn(port, 3), main: 'raise SystemExit("no weights found")' });
    expect(await versionOf(app)).toBe(2);
    expect((await broken).status).toBe("init_failure");
    expect(await versionOf(app)).toBe(2);
    // An earlier version comes back the same way.
    expect(await change(app, "POST", "rollback", { buildId: first.version.id })).toBe(200);
    expect(await versionOf(app)).toBe(1);
  },
);

verifies(
  "servers.port-in-code",
  "a deploy that is cancelled before the old server has ended leaves the calls to its version",
  async () => {
    const port = await freePort();
    const app = await site().own(stubborn(port, 1));
    const first = site().apps.get(app)!;
    const slow = site().call(app, {}, { functionName: "slow" });
    const hasBegun = (text: string, appName: string) => appName === app && text === "slow has begun";
    await until("it runs", () => site().logs.some(({ text, appName }) => hasBegun(text, appName)));
    const client = clientOf(app);
    const begun = await client.begin();
    await client.put(begun, await zipped(app, stubborn(port, 2)));
    await until("the old replica is to end", () => first.pool.readyCount === 0);
    const waiting = versionOf(app);
    await until("a call waits", () => first.pool.slots.waiting === 1);
    expect(await change(app, "DELETE", `builds/${begun.buildId}`)).toBe(200);
    expect(await client.ended(begun.buildId)).toBe("cancelled");
    writeFileSync(path.join(site().bundleDir(app), "go"), "");
    expect((await slow).status).toBe(200);
    expect(await waiting).toBe(1);
  },
);

verifies(
  "servers.port-in-code",
  "its WebSockets end with 1012 at once, and can connect to the new one",
  async () => {
    const port = await freePort();
    const { files = {}, toml = "" } = socketApp();
    const code = files["server.cjs"]?.replace("Number(process.env.PORT)", String(port)) ?? "";
    const talk = { main: "", files: { "server.cjs": code }, toml: `${toml}port = ${port}\n` };
    const app = await site().own(talk);
    const url = site().url(app, "echo").replace(/^http/, "ws");
    const headers = { authorization: `Bearer ${site().service.owner.token}` };
    const client = new Client(url, { headers });
    await once(client, "open");
    const closed = once(client, "close");
    await site().deploy(app, { ...talk, main: "# another version" });
    expect((await closed)[0]).toBe(1012);
    const again = new Client(url, { headers });
    await once(again, "open");
    again.close();
    await once(again, "close");
  },
);
