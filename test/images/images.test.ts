import { execFile, spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, onTestFinished, vi } from "vitest";
import { Containers, readImageRecord } from "../../src/host/containers/containers.ts";
import { BATCHED, expectBatches } from "../support/batched-app.ts";
import { BASE_IMAGE, makeBaseImage, removeBaseImage, workingTools } from "../support/images/base-image.ts";
import { processes } from "../support/images/processes.ts";
import { AS_SERVER, DOCKERFILE, SERVER, serviceWith, zip } from "../support/images/service-with.ts";
import type { TestService } from "../support/service.ts";
import { until } from "../support/until.ts";
import { verifies } from "../verifies.ts";

const tools = await workingTools();
if (tools.length === 0) process.stderr.write("\nskipped: neither podman nor docker works here\n");

beforeAll(async () => await makeBaseImage(tools));
afterAll(async () => await removeBaseImage(tools));

async function get(test: TestService, app: string, functionName = "") {
  return await test.call(app, "", { method: "GET", functionName });
}

describe.each(tools)("$kind", (tool) => {
  verifies("images.dockerfile", "a Dockerfile app is built, serves, and finds its layers again", async () => {
    const { test, site } = await serviceWith(tool);
    const files = { Dockerfile: DOCKERFILE, "server.py": SERVER };
    const first = await site.deploy("app", zip(files), AS_SERVER);
    expect([first.status, await site.message("app", first.buildId)]).toEqual(["success", null]);
    const { status, json } = await get(test, "app", "a/b?c=1");
    expect([status, json.path, json.cwd, json.port]).toEqual([200, "/a/b?c=1", "/srv", "8000"]);
    expect(await site.log("app", first.buildId)).toContain("a layer");
    const again = await site.deploy("app", zip(files), { ...AS_SERVER, shellCommands: ["exit 1"] });
    const log = await site.log("app", again.buildId);
    expect([again.status, log.includes("a layer\n")]).toEqual(["success", false]);
    expect(log).toMatch(/using cache/i);
    expect(log).toContain("warning: the Dockerfile decides what is installed: ignoring shell_commands");
  });

  verifies("images.failures", "what is wrong with an image is told by whoever built it", async () => {
    const { site } = await serviceWith(tool);
    const fails = async (dockerfile: string, payload: object = AS_SERVER) => {
      const { buildId, status } = await site.deploy(
        "app",
        zip({ Dockerfile: dockerfile, "server.py": SERVER }),
        payload,
      );
      return [status, await site.message("app", buildId)];
    };
    expect(await fails(`FROM ${BASE_IMAGE}\nRUN exit 7\n`)).toEqual([
      "build_failure",
      expect.stringMatching(/^the image could not be built: .*exit 7.*7/i),
    ]);
    expect(await fails("FROM 127.0.0.1:9/none:1\n")).toEqual([
      "build_failure",
      expect.stringMatching(/^the image could not be built: .*127\.0\.0\.1:9.*connection refused/i),
    ]);
    expect(await fails("no Dockerfile at all\n")).toEqual([
      "build_failure",
      expect.stringMatching(/unknown instruction|no FROM statement/i),
    ]);
    expect(
      await fails(`FROM ${BASE_IMAGE}\nCMD ["python3", "-c", "raise SystemExit('no weights')"]\n`),
    ).toEqual(["init_failure", expect.stringContaining("no weights")]);
    const loopback = `FROM ${BASE_IMAGE}\nCOPY server.py /\nCMD ["python3", "/server.py", "127.0.0.1"]\n`;
    expect(await fails(loopback, { ...AS_SERVER, deploymentInitializationTimeout: 3 })).toEqual([
      expect.stringMatching(/^init_/),
      expect.anything(),
    ]);
  });

  verifies(
    "images.registry-auth",
    "a registry is opened by what the client sends, and by nothing else",
    async () => {
      const seen: (string | undefined)[] = [];
      const registry = createServer((request, response) => {
        seen.push(request.headers.authorization);
        response.writeHead(401, { "www-authenticate": 'Basic realm="registry"' }).end();
      });
      await new Promise<void>((resolve) => registry.listen(0, "127.0.0.1", resolve));
      onTestFinished(() => void registry.close());
      const place = `127.0.0.1:${(registry.address() as AddressInfo).port}`;
      const folder = await mkdtemp(path.join(tmpdir(), "millrace-registries-"));
      onTestFinished(async () => await rm(folder, { recursive: true }));
      await writeFile(
        path.join(folder, "registries.conf"),
        `[[registry]]\nlocation = "${place}"\ninsecure = true\n`,
      );
      vi.stubEnv("CONTAINERS_REGISTRIES_CONF", path.join(folder, "registries.conf"));
      onTestFinished(() => void vi.unstubAllEnvs());
      const { test, site } = await serviceWith(tool);
      const auth = Buffer.from("someone:hunter2").toString("base64");
      const files = zip({ Dockerfile: `FROM ${place}/private:1\n` });
      const dockerAuth = JSON.stringify({ auths: { [place]: { auth } } });
      const { status } = await site.deploy("app", files, { ...AS_SERVER, dockerAuth });
      expect([status, seen.includes(`Basic ${auth}`)]).toEqual(["build_failure", true]);
      seen.length = 0;
      expect((await site.deploy("app", files, AS_SERVER)).status).toBe("build_failure");
      expect(seen).not.toContain(`Basic ${auth}`);
      const stored = readFileSync(path.join(test.settings.dataDir, "millrace.db"), "latin1");
      expect(stored.includes(auth)).toBe(false);
    },
  );

  verifies("images.walls", "a container has its project's storage and user, and no privilege", async () => {
    const { test, site } = await serviceWith(tool);
    const pem = "-----BEGIN KEY-----\nabc\n-----END KEY-----\n";
    const secrets = { SECRET: "a b # \"c'", PEM: pem, LD_PRELOAD: "/no/such\n.so", XTABLES_LIBDIR: "\n:/x" };
    expect((await site.ask("PATCH", "secrets", secrets)).status).toBeLessThan(300);
    const deployed = await site.deploy(
      "app",
      zip({ Dockerfile: DOCKERFILE, "server.py": SERVER }),
      AS_SERVER,
    );
    expect([deployed.status, await site.message("app", deployed.buildId)]).toEqual(["success", null]);
    const { json } = await get(test, "app");
    expect(json).toMatchObject({ secret: secrets.SECRET, pem, no_new_privileges: "1", storage: [] });
    if (process.getuid?.() === 0) {
      expect(json.uid).toBeGreaterThan(1000);
      expect(json.capabilities).toBe("0000000000000000");
    }
    // Nothing of them is on a command line.
    const commands = processes().map(({ command }) => command);
    expect(commands.filter((command) => command.includes("END KEY"))).toEqual([]);
    // Nor does it reach the command that starts the container: iptables, which that has run, loads what this one names.
    expect(json.libraries).toBe(secrets.XTABLES_LIBDIR);
    const starters = processes().filter(({ command }) => command.includes("\0start\0--attach\0"));
    expect(starters.length).toBeGreaterThan(0);
    expect(starters.filter(({ environment }) => environment.includes("END KEY"))).toEqual([]);
  });

  verifies("images.port-in-code", "each replica has the port of its own container", async () => {
    const { test, site } = await serviceWith(tool);
    const payload = { ...AS_SERVER, minReplicaCount: 2, maxReplicaCount: 2 };
    await site.deploy("app", zip({ Dockerfile: DOCKERFILE, "server.py": SERVER }), payload);
    const hosts = new Set<string>();
    await until("both replicas answer", async () => {
      const answers = await Promise.all([1, 2, 3, 4].map(() => get(test, "app")));
      for (const { json } of answers) hosts.add(json.host);
      return hosts.size === 2;
    });
  });

  verifies("images.functions", "functions run in a base image, by forks, within their limits", async () => {
    const { test, site } = await serviceWith(tool);
    const main = `import os, sys
BORN = os.getpid()
def where():
    open("/persistent-storage/kept", "w").close()
    return {"template": BORN, "pid": os.getpid(), "made": open("/made").read(), "files": sorted(os.listdir(".")),
            "network": open("/proc/net/dev").read().count(":")}
def count(n: int):
    yield from range(n)
def grow(megabytes: int):
    return len(bytearray(megabytes << 20))
`;
    const payload = {
      baseImage: BASE_IMAGE,
      shellCommands: ["echo shell > /made"],
      memory: 0.3,
      cerebrium_toml: "[deployment]\nnetwork = false\n",
    };
    const { buildId, status } = await site.deploy("app", zip({ "main.py": main }), payload);
    expect([status, await site.message("app", buildId)]).toEqual(["success", null]);
    const call = async (functionName: string, body: object = {}) =>
      await test.call("app", body, { functionName });
    const { result } = (await call("where")).json;
    expect(result).toMatchObject({ made: "shell\n", files: ["main.py"], network: 1 });
    expect(result.pid).not.toBe(result.template);
    expect(existsSync(path.join(test.settings.dataDir, "storage", site.projectId, "kept"))).toBe(true);
    expect((await call("count", { n: 2 })).text).toBe("data: 0\n\ndata: 1\n\n");
    expect((await call("grow", { megabytes: 10 })).json.result).toBe(10 << 20);
    const { json } = await call("grow", { megabytes: 2000 });
    expect(json).toMatchObject({ code: "out_of_memory" });
    // Its template is still there.
    expect((await call("where")).json.result.template).toBe(result.template);
  });

  verifies("batching.everywhere", "calls share batches and steppers in a container", async () => {
    const { test, site } = await serviceWith(tool);
    const payload = { baseImage: BASE_IMAGE, memory: 0.3 };
    const { buildId, status } = await site.deploy(
      "app",
      zip({ "main.py": BATCHED.main, "millrace.toml": BATCHED.toml }),
      payload,
    );
    expect([status, await site.message("app", buildId)]).toEqual(["success", null]);
    await expectBatches(test, "app");
  });

  verifies("images.apart", "no Dockerfile gets at what another project's images hold", async () => {
    if (tool.kind === "docker") return;
    const { test, site } = await serviceWith(tool);
    const { buildId } = await site.deploy(
      "app",
      zip({ Dockerfile: DOCKERFILE, "server.py": SERVER }),
      AS_SERVER,
    );
    const environment = path.join(test.settings.dataDir, "environments", `${site.projectId}-own-${buildId}`);
    const image = readImageRecord(environment);
    const containers = new Containers({ containerEngine: "podman", dataDir: test.settings.dataDir });
    const seen = async (projectId: string): Promise<number> =>
      (await containers.run(tool, projectId, ["image", "inspect", image?.id ?? ""])).code;
    expect([await seen(site.projectId), await seen("p-another")]).toEqual([0, 125]);
    await containers.close();
  });

  verifies("images.gone", "an image that is gone is told, and repaired", async () => {
    const { test, site, containers } = await serviceWith(tool);
    const withVolume = `${DOCKERFILE}VOLUME /data\n`;
    const { buildId } = await site.deploy("app", zip({ Dockerfile: withVolume, "server.py": SERVER }), {
      ...AS_SERVER,
      cooldownPeriodSeconds: 1,
    });
    const { projectId } = site;
    const environment = path.join(test.settings.dataDir, "environments", `${projectId}-own-${buildId}`);
    const { id = "" } = readImageRecord(environment) ?? {};
    const known = async (image: string): Promise<boolean> =>
      (await containers.run(tool, projectId, ["image", "inspect", image])).code === 0;
    await until("the replica has ended", async () => {
      const { stdout } = await containers.run(tool, projectId, [
        "ps",
        "-q",
        "--filter",
        `label=${containers.label}`,
      ]);
      return stdout.trim() === "";
    });
    if (tool.kind === "podman")
      await until(
        "its volume is gone",
        async () => (await containers.run(tool, projectId, ["volume", "ls", "-q"])).stdout === "",
      );
    await containers.run(tool, projectId, ["rmi", "-f", id]);
    expect(await known(id)).toBe(false);
    expect((await get(test, "app")).status).toBe(503);
    const repaired = await doctorRepair(test);
    expect(repaired).toContain("reinstalled its packages");
    await until("it serves again", async () => (await get(test, "app")).status === 200);
    expect(await known(readImageRecord(environment)?.id ?? "")).toBe(true);
  });

  verifies(
    "images.dead-service",
    "nothing is left of the containers of a service that was killed",
    async () => {
      const dataDir = await mkdtemp(path.join(tmpdir(), "millrace-held-"));
      const containers = new Containers({ containerEngine: tool.kind, dataDir });
      onTestFinished(async () => {
        await containers.close();
        await rm(dataDir, { recursive: true, force: true });
      });
      const script = path.join(import.meta.dirname, "../support/images/hold-container.ts");
      const holder = spawn(process.execPath, [script, tool.kind, dataDir], {
        stdio: ["ignore", "pipe", "inherit"],
      });
      const pid = Number(await new Promise<Buffer>((resolve) => holder.stdout.once("data", resolve)));
      expect(existsSync(`/proc/${pid}`)).toBe(true);
      holder.kill("SIGKILL");
      const left = async (): Promise<string> =>
        (await containers.run(tool, "p-held", ["ps", "-a", "-q", "--filter", `label=${containers.label}`]))
          .stdout;
      await until("its container is gone", async () => !existsSync(`/proc/${pid}`) && (await left()) === "");
      // The file of its variables goes with the next start.
      await containers.clearLeftovers();
      expect(existsSync(containers.runFolder("p-held"))).toBe(false);
    },
  );

  verifies("images.collected", "with its app an image goes", async () => {
    const { test, site, containers } = await serviceWith(tool);
    const { buildId } = await site.deploy(
      "app",
      zip({ Dockerfile: DOCKERFILE, "server.py": SERVER }),
      AS_SERVER,
    );
    const environment = path.join(test.settings.dataDir, "environments", `${site.projectId}-own-${buildId}`);
    const { id = "" } = readImageRecord(environment) ?? {};
    const ask = async (): Promise<number> =>
      (await containers.run(tool, site.projectId, ["image", "inspect", id])).code;
    expect(await ask()).toBe(0);
    expect((await site.ask("DELETE", `apps/${site.appId("app")}`)).status).toBeLessThan(300);
    await until("its image is gone", async () => (await ask()) !== 0);
  });
});

async function doctorRepair(test: TestService): Promise<string> {
  const cli = path.join(import.meta.dirname, "../../src/cli/cli.ts");
  const env = {
    ...process.env,
    MILLRACE_DATA_DIR: test.settings.dataDir,
    MILLRACE_CONTAINER_ENGINE: test.settings.containerEngine,
  };
  const { stdout } = await promisify(execFile)(process.execPath, [cli, "doctor", "--repair"], { env }).catch(
    (error: Error & { stdout: string }) => error,
  );
  return stdout;
}
