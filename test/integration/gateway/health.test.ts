import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { expect } from "vitest";
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
