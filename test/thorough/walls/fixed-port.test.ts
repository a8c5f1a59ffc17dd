import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { networkInterfaces } from "node:os";
import { expect, onTestFinished } from "vitest";
import { DeployClient } from "../../support/deploy-client.ts";
import { freePort } from "../../support/free-port.ts";
import { stubborn } from "../../support/servers/fixed-port.ts";
import { type TestApp, testService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { TRIED_RUNGS } from "../../support/walls/tried-rungs.ts";
import { onlyUpTo, requireJudged } from "../../support/walls/walled.ts";
import { zipOf } from "../../support/zip.ts";
import { verifies } from "../../verifies.ts";

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
      expect((await get(""))["version"]).toBe(2);
      expect(first?.pool.fleet.isSingle).toBe(false);
      expect(site.logs.map(({ text }) => text).join("\n")).not.toContain("it runs as one replica");
    },
  );
}

verifies(
  "servers.second-port",
  "a second port in the code means one replica, also across deploys, and a start that fails for it says so",
  async (context) => {
    const rung = TRIED_RUNGS.at(-1) ?? "process";
    await requireJudged(rung, context);
    const [port, second] = [await freePort(), await freePort()];
    const site = await testService(
      { web: stubborn(port, 1, { second }) },
      await onlyUpTo(rung, "python3", true),
    );
    const { baseUrl, owner } = site.service;
    const client = new DeployClient({ baseUrl, projectId: owner.projectId, token: owner.token }, "web");
    const version = async () =>
      (await site.call("web", "", { method: "GET", functionName: "" })).json.version;
    const deploy = async ({ main, toml = "" }: TestApp) => {
      const zip = await zipOf({ "main.py": main, "millrace.toml": `${toml}[deployment]\nname = "web"\n` });
      const { buildId, status } = await client.deploy(zip);
      return { status, log: (await client.log(buildId)).join("\n") };
    };
    const alone = `the server needs TCP port ${second} in each replica: it runs as one replica`;
    await until("that is told", () => site.logs.some(({ text }) => text.includes(alone)));
    const next = await deploy(stubborn(port, 2, { second }));
    expect(next).toEqual({
      status: "success",
      log: expect.stringContaining("it ends before the new one starts, and calls wait meanwhile"),
    });
    expect(await version()).toBe(2);
    // A program that is no replica has the port that the next version wants.
    const stranger = createServer().listen(0, "127.0.0.1");
    onTestFinished(() => void stranger.close());
    await once(stranger, "listening");
    const taken = (stranger.address() as AddressInfo).port;
    const failed = await deploy(stubborn(port, 3, { second: taken }));
    expect(failed.status).toBe("init_failure");
    expect(failed.log).toMatch(
      new RegExp(`ended before it was ready .*It cannot listen on TCP port ${taken}: .*set max_replicas = 1`),
    );
    expect(await version()).toBe(2);
  },
);

verifies(
  "servers.second-port",
  "a deploy and a rollback end the server that has the port, and try again",
  async (context) => {
    const rung = TRIED_RUNGS.at(-1) ?? "process";
    await requireJudged(rung, context);
    const [port, second] = [await freePort(), await freePort()];
    const alone = (version: number): TestApp => stubborn(port, version, { second, replicas: 1 });
    const site = await testService({ web: alone(1) }, await onlyUpTo(rung, "python3", true));
    const first = site.apps.get("web");
    const { baseUrl, owner } = site.service;
    const { projectId, token } = owner;
    const version = async () =>
      (await site.call("web", "", { method: "GET", functionName: "" })).json.version;
    expect(await version()).toBe(1);
    const client = new DeployClient({ baseUrl, projectId, token }, "web");
    const { main, toml = "" } = alone(2);
    const files = { "main.py": main, "millrace.toml": `${toml}[deployment]\nname = "web"\n` };
    const { buildId, status } = await client.deploy(await zipOf(files));
    expect(status).toBe("success");
    expect((await client.log(buildId)).join("\n")).toContain(
      `TCP port ${second} is in use, perhaps by the server that runs now`,
    );
    expect(await version()).toBe(2);
    const response = await fetch(`${baseUrl}/v2/projects/${projectId}/apps/${projectId}-web/rollback`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify({ buildId: first?.version.id }),
    });
    expect([response.status, await version()]).toEqual([200, 1]);
  },
);
