import { once } from "node:events";
import { request } from "node:http";
import { expect, test } from "vitest";
import { processesIn } from "../../support/leak-check.ts";
import { until } from "../../support/until.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";
import { DeploySite, answering, bundle } from "./site.ts";

const service = sharedService();
const here = (): DeploySite => new DeploySite(service());

/** Nothing of a cancelled build is there: no process, no file, no version. */
async function expectNothingLeft(site: DeploySite, app: string, buildId: string): Promise<void> {
  expect(await site.status(app, buildId)).toBe("cancelled");
  expect(await site.leftovers()).toEqual([]);
  expect(await site.bundles(app)).not.toContain(buildId);
  expect(await site.test.service.store.versions.find(buildId)).toBeNull();
  const { dataDir } = site.test.settings;
  await until("its processes are gone", () =>
    [`${dataDir}/work`, `${dataDir}/bundles/${site.projectId}/${app}/${buildId}`].every(
      (folder) => processesIn(folder).length === 0,
    ),
  );
}

verifies(
  ["deploy.cancel", "builds.cancel"],
  "a build that waits for its upload is cancelled for good",
  async () => {
    const site = here();
    const { buildId, uploadUrl } = await site.begin("waiting");
    const { status, json } = await site.cancel("waiting", buildId);
    expect([status, json]).toEqual([200, { ...json, id: buildId, status: "cancelled" }]);
    await expectNothingLeft(site, "waiting", buildId);
    const put = await site.put(uploadUrl, bundle(answering("too late")));
    expect([put.status, put.json.code]).toEqual([409, "build_finished"]);
    const again = await site.cancel("waiting", buildId);
    expect([again.status, again.json.code]).toEqual([409, "build_finished"]);
    await expectNothingLeft(site, "waiting", buildId);
    expect((await site.ask("GET", "audit")).json.items[0]).toMatchObject({
      action: "build.cancel",
      target: buildId,
      after: { status: "cancelled" },
    });
  },
);

verifies(
  "deploy.cancel",
  "a build is cancelled while its commands run, and the one behind it goes on",
  async () => {
    const site = here();
    await site.deploy("building", bundle(answering("before")));
    const slow = await site.begin("building", { preBuildCommands: ["echo asleep; sleep 600"] });
    await site.put(slow.uploadUrl, bundle(answering("cancelled")));
    await site.logged("building", slow.buildId, "asleep");
    const [next, never] = [await site.begin("building"), await site.begin("building")];
    await site.put(next.uploadUrl, bundle(answering("after")));
    await site.put(never.uploadUrl, bundle(answering("never")));
    expect(await site.log("building", never.buildId)).toContain("waiting for another build");
    expect((await site.cancel("building", never.buildId)).status).toBe(200);
    expect(await site.status("building", next.buildId)).toBe("pending");
    expect(await site.answer("building")).toBe("before");
    expect((await site.cancel("building", slow.buildId)).status).toBe(200);
    expect(await site.ended("building", next.buildId)).toBe("success");
    for (const { buildId } of [slow, never]) await expectNothingLeft(site, "building", buildId);
    expect(await site.answer("building")).toBe("after");
  },
);

verifies("deploy.cancel", "a build is cancelled while its first replica starts", async () => {
  const site = here();
  await site.deploy("starting", bundle(answering("before")));
  const stuck = "import threading\nprint('importing')\nthreading.Event().wait()\n";
  const { buildId, uploadUrl } = await site.begin("starting");
  await site.put(uploadUrl, bundle(stuck));
  await until("it starts", async () => (await site.status("starting", buildId)) === "initializing");
  await site.logged("starting", buildId, "starting one replica");
  expect((await site.cancel("starting", buildId)).status).toBe(200);
  await expectNothingLeft(site, "starting", buildId);
  expect(await site.answer("starting")).toBe("before");
});

verifies(
  "deploy.cancel",
  "a build is cancelled while its upload arrives, and the rest of it is for nothing",
  async () => {
    const site = here();
    const { buildId, uploadUrl } = await site.begin("arriving");
    const zip = bundle(answering("too late"));
    const call = request(uploadUrl, { method: "PUT", headers: { "content-length": String(zip.length) } });
    call.write(zip.subarray(0, 50));
    await until("it arrives", async () => (await site.leftovers()).length === 1);
    expect((await site.cancel("arriving", buildId)).status).toBe(200);
    expect(await site.status("arriving", buildId)).toBe("cancelled");
    call.end(zip.subarray(50));
    const [response] = await once(call, "response");
    expect(response.statusCode).toBe(409);
    response.resume();
    await expectNothingLeft(site, "arriving", buildId);
  },
);

test("a build that has ended is not cancelled", async () => {
  const site = here();
  const { buildId } = await site.deploy("done", bundle(answering("done")));
  const { status, json } = await site.cancel("done", buildId);
  expect([status, json.code]).toEqual([409, "build_finished"]);
  expect(await site.answer("done")).toBe("done");
});

test("builds that are cancelled at any moment end as cancelled or whole, never in between", async () => {
  const site = here();
  const zip = bundle(answering("whole"));
  // As soon as its log says so; by then it may be further.
  for (const moment of ["", "received", "starting one replica", "ready after", "switching calls"]) {
    const { buildId, uploadUrl } = await site.begin("racing");
    await site.put(uploadUrl, zip);
    await site.logged("racing", buildId, moment);
    const { status } = await site.cancel("racing", buildId);
    const ended = await site.ended("racing", buildId);
    expect([status, ended]).toEqual(status === 200 ? [200, "cancelled"] : [409, "success"]);
    if (ended === "cancelled") await expectNothingLeft(site, "racing", buildId);
  }
  await site.deploy("racing", zip);
  expect(await site.answer("racing")).toBe("whole");
});
