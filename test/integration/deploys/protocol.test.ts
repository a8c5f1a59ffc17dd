import { connect } from "node:net";
import { expect, test, vi } from "vitest";
import { AppError } from "../../../src/model/errors.ts";
import { altered } from "../../support/altered.ts";
import { SkippingClock } from "../../support/clocks.ts";
import { until } from "../../support/until.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";
import { DeploySite, answering, bundle } from "./site.ts";

const clock = new SkippingClock();
const service = sharedService({}, { maxUploadBytes: 1_000_000 }, { clock });
const here = (): DeploySite => new DeploySite(service());

verifies(
  [
    "deploy.protocol",
    "deploy.start",
    "deploy.unknown-members",
    "deploy.docker-auth",
    "deploy.answer",
    "deploy.upload-url",
    "deploy.internal-endpoint",
    "deploy.upload",
    "builds.get",
  ],
  "a zip goes from POST by its uploadUrl to a build that succeeds, and the app serves",
  async () => {
    const site = here();
    const { baseUrl, apiUrl } = site.test.service;
    const begun = await site.ask("POST", "apps", {
      name: "hello",
      runtime: "cortex",
      cliVersion: "2.1.0",
      dockerAuth: "not-to-be-kept",
    });
    expect(begun.status).toBe(200);
    const { buildId, uploadUrl } = begun.json;
    expect(begun.json).toEqual({
      buildId: expect.stringMatching(/^[0-9a-f-]{36}$/),
      status: "pending",
      uploadUrl: expect.stringMatching(new RegExp(`^${baseUrl}/`)),
      keyName: `${site.projectId}/hello/${buildId}.zip`,
      internalEndpoint: `${apiUrl}/v4/${site.projectId}/hello`,
      dashboardUrl: expect.stringContaining(buildId),
    });
    expect(await site.status("hello", buildId)).toBe("pending");
    const app = await site.ask("GET", `apps/${site.appId("hello")}`);
    expect(app.json).toMatchObject({ status: "pending", lastBuildStatus: "pending", latestBuildId: buildId });

    expect((await site.put(uploadUrl, bundle(answering("first")))).status).toBe(200);
    expect(await site.ended("hello", buildId)).toBe("success");
    const build = await site.ask("GET", `apps/${site.appId("hello")}/builds/${buildId}`);
    expect(Object.keys(build.json)).toEqual(["id", "status", "createdAt", "updatedAt"]);
    const called = await fetch(`${begun.json.internalEndpoint}/run`, {
      method: "POST",
      headers: { authorization: `Bearer ${site.test.service.owner.token}` },
    });
    expect(await called.json()).toMatchObject({ result: "first" });
    const after = await site.ask("GET", `apps/${site.appId("hello")}`);
    expect(after.json).toMatchObject({ status: "ready", lastBuildStatus: "success", latestBuildId: buildId });
    expect(await site.leftovers()).toEqual([]);
    expect(await site.bundles("hello")).toEqual([buildId]);
    const { store } = site.test.service;
    expect((await store.builds.find(buildId))?.payload).not.toContain("not-to-be-kept");
    expect((await site.ask("GET", "audit")).json.items[0]).toMatchObject({
      action: "app.deploy",
      target: site.appId("hello"),
      before: { buildId: null },
      after: { buildId },
    });
  },
);

verifies(
  ["deploy.upload", "management.repeated-put", "builds.list"],
  "a repeated PUT is again 200, and builds once",
  async () => {
    const site = here();
    const zip = bundle(answering("once"));
    const { buildId, uploadUrl } = await site.begin("twice");
    const together = await Promise.all([1, 2, 3].map(() => site.put(uploadUrl, zip)));
    expect(together.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(await site.ended("twice", buildId)).toBe("success");
    const log = await site.log("twice", buildId);
    expect((await site.put(uploadUrl, bundle(answering("other")))).status).toBe(200);
    expect(await site.log("twice", buildId)).toBe(log);
    expect(await site.answer("twice")).toBe("once");
    expect(await site.leftovers()).toEqual([]);
    const { json: builds } = await site.ask("GET", `apps/${site.appId("twice")}/builds`);
    expect(builds).toMatchObject([{ id: buildId, status: "success", message: null }]);
  },
);

verifies("deploy.upload", "an upload that breaks off leaves nothing, and can be sent again", async () => {
  const site = here();
  const { buildId, uploadUrl } = await site.begin("broken-off");
  const { port, pathname, search } = new URL(uploadUrl);
  const socket = connect(Number(port), "127.0.0.1");
  socket.on("error", () => {});
  socket.write(`PUT ${pathname}${search} HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n`);
  socket.write(Buffer.alloc(5_000, "x"));
  await until("it arrives", async () => (await site.leftovers()).length === 1);
  socket.destroy();
  await until("nothing is left", async () => (await site.leftovers()).length === 0);
  expect(await site.status("broken-off", buildId)).toBe("pending");
  expect((await site.put(uploadUrl, bundle(answering("whole")))).status).toBe(200);
  expect(await site.ended("broken-off", buildId)).toBe("success");
  expect(await site.answer("broken-off")).toBe("whole");
});

verifies("deploy.upload", "an upload over max_upload is 413 and leaves nothing", async () => {
  const site = here();
  const { buildId, uploadUrl } = await site.begin("large");
  const { status, json } = await site.put(uploadUrl, Buffer.alloc(1_000_001));
  expect([status, json.code]).toEqual([413, "body_too_large"]);
  expect(await site.leftovers()).toEqual([]);
  expect(await site.status("large", buildId)).toBe("pending");
});

test("an upload address that is not one of ours is refused, with a body or without", async () => {
  const site = here();
  const { uploadUrl } = await site.begin("guarded");
  const grant = new URL(uploadUrl).searchParams.get("grant") ?? "";
  for (const bad of ["x", altered(grant), grant.slice(0, 40)]) {
    const url = uploadUrl.replace(grant, bad);
    const { status, json } = await site.put(url, bundle(answering("no")));
    expect([status, json.code]).toEqual([403, "forbidden"]);
  }
  expect(await site.leftovers()).toEqual([]);
});

test("deploys of one app come to serve in the order of their uploads", async () => {
  const site = here();
  const begun = await Promise.all([1, 2, 3].map(() => site.begin("in-order")));
  for (const [place, { uploadUrl }] of begun.entries()) {
    expect((await site.put(uploadUrl, bundle(answering(`v${place}`)))).status).toBe(200);
  }
  for (const { buildId } of begun) expect(await site.ended("in-order", buildId)).toBe("success");
  expect(await site.answer("in-order")).toBe("v2");
  const numbers = await Promise.all(
    begun.map(async ({ buildId }) => (await site.test.service.store.versions.find(buildId))?.number),
  );
  expect(numbers).toEqual([1, 2, 3]);
});

test("what is asked of a build that is not the app's is 404", async () => {
  const site = here();
  const { buildId } = await site.begin("mine");
  await site.begin("yours");
  for (const suffix of ["", "/logs"]) {
    const { status, json } = await site.ask("GET", `apps/${site.appId("yours")}/builds/${buildId}${suffix}`);
    expect([status, json.code]).toEqual([404, "build_not_found"]);
  }
  expect((await site.cancel("yours", buildId)).json.code).toBe("build_not_found");
  expect((await site.ask("GET", `apps/${site.appId("none")}/builds`)).json.code).toBe("app_not_found");
});

test("a deploy whose bundle never comes has an end, an hour later", async () => {
  const site = here();
  const { buildId } = await site.begin("forgotten");
  clock.leap(3_600_000);
  await until("it is given up", async () => (await site.status("forgotten", buildId)) === "build_failure");
  expect(await site.message("forgotten", buildId)).toBe("nothing was uploaded within an hour; deploy again");
});

test("a bundle that could not be written down leaves no file, and its deploy has an end", async () => {
  const site = here();
  const { builds } = site.test.service.store;
  const { buildId, uploadUrl } = await site.begin("unheard");
  const { noteUpload } = builds;
  // It is done, and nobody hears of it.
  const noting = vi.spyOn(builds, "noteUpload").mockImplementationOnce(async (given) => {
    await noteUpload(given);
    throw new AppError("in_doubt");
  });
  expect((await site.put(uploadUrl, bundle(answering("never")))).json.code).toBe("in_doubt");
  noting.mockRestore();
  expect(await site.leftovers()).toEqual([]);
  clock.leap(3_600_000);
  await until("it is given up", async () => (await site.status("unheard", buildId)) === "build_failure");
});

verifies("shares.builds", "a build that hangs has an end, three hours later", async () => {
  const site = here();
  const { buildId, uploadUrl } = await site.begin("hung", { preBuildCommands: ["echo asleep; sleep 600"] });
  await site.put(uploadUrl, bundle(answering("never")));
  await site.logged("hung", buildId, "asleep");
  clock.leap(3 * 3_600_000);
  await until("it is ended", async () => (await site.status("hung", buildId)) === "build_failure");
  expect(await site.message("hung", buildId)).toBe("the build took longer than three hours");
});
