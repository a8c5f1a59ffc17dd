import { rmSync } from "node:fs";
import { mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { testSettings } from "../../support/test-settings.ts";
import { createLog } from "../../../src/kit/log.ts";
import { startService } from "../../../src/main.ts";
import { AppError } from "../../../src/model/errors.ts";
import type { Store } from "../../../src/store/store.ts";
import { assertNothingLeft } from "../../support/leak-check.ts";
import { TestService } from "../../support/service.ts";
import { DeploySite, answering, bundle } from "./site.ts";

/** Starts services one after the other on the same data. */
async function sameData(): Promise<(around?: (store: Store) => Store) => Promise<DeploySite>> {
  const directory = await mkdtemp(path.join(tmpdir(), "millrace-test-"));
  const settings = testSettings({ dataDir: path.join(directory, "data"), apiPort: 0, basePort: 0 });
  let stop = async (): Promise<void> => {};
  onTestFinished(async () => {
    await stop();
    await assertNothingLeft(directory);
    rmSync(directory, { recursive: true, force: true });
  });
  return async (aroundStore = (store) => store) => {
    await stop();
    const service = await startService(settings, { log: createLog("silent"), aroundStore });
    stop = () => service.stop();
    return new DeploySite(new TestService(service, settings, directory, []));
  };
}

test("a build under way when the service stops ends as failed and says so; one that waits goes on", async () => {
  const start = await sameData();
  let site = await start();
  await site.deploy("app", bundle(answering("before")));
  const [building, queued, waiting] = [
    await site.begin("app", { shellCommands: ["echo asleep; sleep 600"] }),
    await site.begin("app"),
    await site.begin("app"),
  ];
  for (const { uploadUrl } of [building, queued]) await site.put(uploadUrl, bundle(answering("x")));
  await site.logged("app", building.buildId, "asleep");
  site = await start();
  for (const { buildId } of [building, queued]) {
    expect([await site.status("app", buildId), await site.message("app", buildId)]).toEqual([
      "build_failure",
      "the service stopped during this deploy; deploy again",
    ]);
  }
  expect(await site.answer("app")).toBe("before");
  expect(await site.leftovers()).toEqual([]);
  expect(await site.status("app", waiting.buildId)).toBe("pending");
  // The same right, at where the service is now.
  const { pathname, search } = new URL(waiting.uploadUrl);
  const put = await site.put(`${site.test.service.baseUrl}${pathname}${search}`, bundle(answering("after")));
  expect(put.status).toBe(200);
  expect(await site.ended("app", waiting.buildId)).toBe("success");
  expect(await site.answer("app")).toBe("after");
});

test("a version that serves although its build has no end is a success at the next start", async () => {
  const start = await sameData();
  // As if the service were killed between the two writes.
  const site = await start((store) => ({
    ...store,
    builds: {
      ...store.builds,
      move: async (input) => {
        if (input.to === "success") throw new AppError("storage_unavailable");
        return await store.builds.move(input);
      },
    },
  }));
  const { buildId, uploadUrl } = await site.begin("app");
  await site.put(uploadUrl, bundle(answering("new")));
  await site.logged("app", buildId, "version 1 is live");
  expect(await site.status("app", buildId)).toBe("initializing");
  const next = await start();
  expect(await next.status("app", buildId)).toBe("success");
  expect(await next.answer("app")).toBe("new");
});

test("what a service that was killed had under way is gone, and its builds have an end", async () => {
  const start = await sameData();
  const site = await start();
  await site.deploy("app", bundle(answering("old")));
  const { store } = site.test.service;
  const { dataDir } = site.test.settings;
  const version = await store.versions.find((await store.builds.latest(1))?.id ?? "");
  const now = Date.now();
  const ids = [1, 2, 3].map((place) => `01a1ded4-501b-765f-9df8-00000000000${place}`);
  const payload = JSON.stringify({ dataDir, request: { name: "app" } });
  for (const [place, id] of ids.entries()) {
    const createdAt = place === 2 ? now - 3_600_001 : now;
    await store.builds.insert({ id, appNumber: 1, payload, createdAt });
  }
  for (const to of ["building", "initializing"] as const) await store.builds.move({ id: ids[0]!, to, now });
  await store.builds.move({ id: ids[1]!, to: "building", now });
  const madeBundle = path.join("bundles", site.projectId, "app", ids[0]!);
  for (const folder of [
    path.join(dataDir, madeBundle),
    path.join(dataDir, "work", ids[1]!),
    path.join(dataDir, "uploads"),
  ]) {
    await mkdir(folder, { recursive: true });
    await writeFile(path.join(folder, "main.py"), "def run(:");
  }
  await store.versions.insert({ ...version!, id: ids[0]!, bundle: madeBundle, createdAt: now });

  const next = await start();
  for (const [place, message] of [
    [0, "the service stopped during this deploy; deploy again"],
    [1, "the service stopped during this deploy; deploy again"],
    [2, "nothing was uploaded within an hour; deploy again"],
  ] as const) {
    expect(await next.status("app", ids[place]!)).toBe("build_failure");
    expect(await next.message("app", ids[place]!)).toBe(message);
  }
  expect(await next.leftovers()).toEqual([]);
  expect(await next.bundles("app")).toEqual([version!.id]);
  expect(await next.test.service.store.versions.find(ids[0]!)).toBeNull();
  expect(await next.answer("app")).toBe("old");
});
