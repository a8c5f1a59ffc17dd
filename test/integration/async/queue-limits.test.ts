import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished } from "vitest";
import { WITHOUT_WALLS } from "../../support/service.ts";
import { sharedService } from "../../support/shared-service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { recordOf, submit } from "./site.ts";

/** Notes that it has begun, and waits for a file. */
const MAIN = `
import os
import time

def run(name, folder):
    with open(os.path.join(folder, "begun"), "a") as begun:
        begun.write(name)
    while not os.path.exists(os.path.join(folder, name)):
        time.sleep(0.005)
    return name
`;
const TOML = "[scaling]\nmax_replicas = 3\n[queue]\nconcurrency_limit = 1\nmax_backlog = 2\n";
const service = sharedService({ narrow: { main: MAIN, toml: TOML } }, WITHOUT_WALLS);

verifies(
  ["queue.concurrency", "queue.backlog"],
  "an app with limits runs one at a time, and refuses what would wait beyond its backlog",
  async () => {
    const folder = mkdtempSync(path.join(tmpdir(), "millrace-test-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const begun = (): string =>
      existsSync(path.join(folder, "begun")) ? readFileSync(path.join(folder, "begun"), "utf8") : "";
    const first = await submit(service(), "narrow", { name: "a", folder });
    await until("the first has begun", () => begun() === "a");
    const second = await submit(service(), "narrow", { name: "b", folder });
    const third = await submit(service(), "narrow", { name: "c", folder });
    expect(await recordOf(service(), "narrow", second)).toMatchObject({ status: "queued", position: 1 });
    const refused = await service().call("narrow", { name: "d", folder }, { suffix: "?async=true" });
    expect([refused.status, refused.json.error.code]).toEqual([429, "backlog_full"]);
    expect(Number(refused.headers["retry-after"])).toBeGreaterThan(0);
    expect(begun()).toBe("a");
    for (const [id, name, next] of [
      [first, "a", "ab"],
      [second, "b", "abc"],
    ] as const) {
      writeFileSync(path.join(folder, name), "");
      await until(
        `${name} has ended`,
        async () => (await recordOf(service(), "narrow", id)).status === "success",
      );
      await until(`${next} have begun`, () => begun() === next);
    }
    writeFileSync(path.join(folder, "c"), "");
    await until("the third has ended", async () => {
      return (await recordOf(service(), "narrow", third)).status === "success";
    });
  },
);
