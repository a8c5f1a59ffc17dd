import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { testService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const GATED = `
import os, time

def run(dir):
    open(os.path.join(dir, "begun"), "w").close()
    while not os.path.exists(os.path.join(dir, "open")):
        time.sleep(0.01)
    return "done"
`;

async function ask(url: string): Promise<[number, unknown]> {
  const response = await fetch(url);
  return [response.status, await response.json()];
}

verifies(
  ["health.livez", "health.readyz", "errors.draining"],
  "a service that is up answers both without a token; one that drains lives and is not ready: what runs ends well, what comes is 503 with Retry-After",
  async () => {
    const test = await testService({ app: { main: GATED } });
    const { baseUrl, apiUrl } = test.service;
    for (const name of ["livez", "readyz"]) {
      expect(await ask(`${baseUrl}/${name}`)).toEqual([200, { status: "ok" }]);
      expect((await ask(`${apiUrl}/${name}`))[0]).toBe(404);
    }
    const dir = test.directory;
    const running = test.call("app", { dir });
    await until("the call runs", () => existsSync(path.join(dir, "begun")));
    const stopping = test.service.stop();
    await until("it is not ready", async () => (await ask(`${baseUrl}/readyz`))[0] === 503);
    expect((await ask(`${baseUrl}/livez`))[0]).toBe(200);
    const refused = await test.call("app", { dir });
    expect([refused.status, refused.json.code]).toEqual([503, "draining"]);
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
    await writeFile(path.join(dir, "open"), "");
    expect(await running).toMatchObject({ status: 200, json: { result: "done" } });
    await stopping;
    await expect(fetch(`${baseUrl}/livez`)).rejects.toThrow("fetch failed");
    await expect(fetch(`${apiUrl}/`)).rejects.toThrow("fetch failed");
  },
);

verifies(
  "health.limited",
  "while the disk's reserve refuses async runs it is ready, says so, and answers calls",
  async () => {
    const test = await testService(
      { app: { main: "def run():\n    return 1\n" } },
      { diskReserve: "1000TB" },
    );
    const { baseUrl } = test.service;
    const refused = await test.call("app", {}, { suffix: "?async=true" });
    expect([refused.status, refused.json.code]).toEqual([503, "storage_unavailable"]);
    expect(await test.call("app")).toMatchObject({ status: 200 });
    expect(await ask(`${baseUrl}/readyz`)).toEqual([
      200,
      { status: "limited", limits: ["the disk is low: async runs, uploads and deploys are refused"] },
    ]);
    expect(await ask(`${baseUrl}/readyz?verbose`)).toMatchObject([
      200,
      {
        status: "limited",
        limits: [expect.stringContaining("lower MILLRACE_DISK_RESERVE")],
        isDiskLow: true,
      },
    ]);
  },
);

verifies("health.limited", "without the host's Python it is ready only as long as a replica is", async () => {
  const folder = mkdtempSync(path.join(tmpdir(), "millrace-python-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const python = path.join(folder, "python3");
  const real = execFileSync("python3", ["-c", "import sys; print(sys.executable)"], { encoding: "utf8" });
  symlinkSync(real.trim(), python);
  const test = await testService({ app: { main: "def run():\n    return 1\n" } }, { python });
  const { baseUrl } = test.service;
  expect(await ask(`${baseUrl}/readyz`)).toEqual([200, { status: "ok" }]);
  const why = "no app can start: the Python interpreter is missing";
  rmSync(python);
  expect(await ask(`${baseUrl}/readyz`)).toEqual([503, { status: why, limits: [why] }]);
  symlinkSync(real.trim(), python);
  expect(await test.call("app")).toMatchObject({ status: 200 });
  rmSync(python);
  expect(await ask(`${baseUrl}/readyz`)).toEqual([200, { status: "limited", limits: [why] }]);
});
