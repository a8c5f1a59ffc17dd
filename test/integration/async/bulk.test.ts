import { writeFileSync } from "node:fs";
import { beforeAll, expect } from "vitest";
import type { BulkJobRecord } from "../../../src/shapes/bulk-jobs.ts";
import { ManagementSite } from "../../support/management-site.ts";
import { WITHOUT_WALLS } from "../../support/service.ts";
import { sharedService } from "../../support/shared-service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { bundleFile, ended, ledger, look, MAIN, ONE, recordOf, submit } from "./site.ts";

const service = sharedService({ tool: { main: MAIN, toml: ONE } }, WITHOUT_WALLS);
let site: ManagementSite;
beforeAll(async () => {
  site = await ManagementSite.open(service());
});

const idOf = (app: string): { app_id: string } => ({ app_id: `${site.projectId}-${app}` });
const tagged = (tag: string, functionName = "run") => ({ functionName, suffix: `?async=true&tag=${tag}` });

async function send(app: string, body: object, tag: string, functionName = "run"): Promise<string> {
  const answer = await service().call(app, body, tagged(tag, functionName));
  expect(answer.status).toBe(202);
  return answer.json.run_id;
}

/** Starts a job, and waits for its end. */
async function done(app: string, body: object): Promise<BulkJobRecord> {
  const { json } = await site.call("startBulkJob", idOf(app), { body });
  const key = { ...idOf(app), job_id: json.item.id };
  const read = async (): Promise<BulkJobRecord> => (await site.call("getBulkJob", key)).json.item;
  await until("the job is over", async () => (await read()).status !== "running");
  return await read();
}

const listed = async (app: string, tag: string) =>
  (await site.call("listRuns", { ...idOf(app), tag })).json.items;

verifies(
  ["bulk.retry", "bulk.audit"],
  "failed runs with a tag run again, as new runs with the same arguments and tags",
  async () => {
    const app = await service().own({ main: MAIN, toml: ONE });
    const failed = [
      await send(app, { n: 1 }, "nightly", "fail"),
      await send(app, { n: 2 }, "nightly", "fail"),
    ];
    const others = [await send(app, { n: 3 }, "nightly"), await send(app, { n: 4 }, "other", "fail")];
    for (const id of [...failed, ...others]) await ended(service(), app, id);
    const body = { action: "retry", filter: { tag: "nightly" } };
    expect((await site.call("countBulkRuns", idOf(app), { body })).json).toEqual({ count: 2, exact: true });
    const job = await done(app, body);
    expect(job).toMatchObject({ status: "done", total: 2, done: 2, skipped: 0, skippedBy: {} });
    await until("they have run", async () =>
      (await listed(app, "nightly")).every(
        ({ status }: { status: string }) => status !== "queued" && status !== "running",
      ),
    );
    const runs = await listed(app, "nightly");
    expect(runs).toHaveLength(5);
    expect(ledger(service(), app)).toEqual(["1", "2", "3", "4", "1", "2"]);
    const [again] = runs;
    expect(again).toMatchObject({ async: true, attempt: 1, tags: ["nightly"], functionName: "fail" });
    expect((await look(service(), app, again.id, "/input")).json).toEqual({ n: 2 });
    const { json } = await site.call("listAudit");
    const entry = (json.items ?? json).find(({ action }: { action: string }) => action === "runs.retry");
    expect(entry).toMatchObject({ target: idOf(app).app_id, after: { job: job.id, ...body } });
  },
);

verifies("bulk.retry", "those whose arguments are not stored are counted", async () => {
  const app = await service().own({ main: MAIN, toml: `${ONE}[deployment]\nrecord_payloads = "none"\n` });
  await ended(service(), app, await send(app, { n: 1 }, "a", "fail"));
  const job = await done(app, { action: "retry", filter: { all: true } });
  expect(job).toMatchObject({ done: 0, skipped: 1, skippedBy: { input_not_kept: 1 } });
});

verifies("bulk.cancel", "those that wait and the one that runs are cancelled", async () => {
  const app = await service().own({ main: MAIN, toml: ONE });
  const ids = [await send(app, { n: 0 }, "a", "hold")];
  await until("it runs", () => ledger(service(), app).includes("0"));
  for (const n of [1, 2, 3]) ids.push(await send(app, { n }, "a", "hold"));
  const left = await send(app, { n: 4 }, "b");
  const job = await done(app, { action: "cancel", filter: { tag: "a" } });
  expect(job).toMatchObject({ status: "done", done: 4, skipped: 0 });
  for (const id of ids) expect((await ended(service(), app, id)).status).toBe("cancelled");
  expect((await ended(service(), app, left)).status).toBe("success");
});

verifies("bulk.delete", "ended runs are gone with all that is stored of them, others stay", async () => {
  const app = await service().own({ main: MAIN, toml: ONE });
  const over = await send(app, { n: 1 }, "a");
  const failed = await send(app, { n: 2 }, "a", "fail");
  for (const id of [over, failed]) await ended(service(), app, id);
  const running = await send(app, { n: 3 }, "a", "hold");
  await until("it runs", () => ledger(service(), app).includes("3"));
  const { usage } = service().service.store.retention;
  const before = await usage();
  const job = await done(app, { action: "delete", filter: { all: true } });
  expect(job).toMatchObject({ done: 2, skipped: 1, skippedBy: { has_not_ended: 1 } });
  expect((await look(service(), app, over)).status).toBe(404);
  expect((await usage()).runs).toBe(before.runs - 2);
  expect((await listed(app, "a")).map(({ id }: { id: string }) => id)).toEqual([running]);
  writeFileSync(bundleFile(service(), app, "go"), "");
  expect((await ended(service(), app, running)).status).toBe("success");
});

verifies("bulk.explicit", "a filter without a condition is refused, unless it says all", async () => {
  const app = await service().own({ main: MAIN, toml: ONE });
  const id = await submit(service(), app);
  await ended(service(), app, id);
  const ask = async (body: object, as: "run" | "deploy" = "deploy") =>
    await site.ask("POST", `apps/${idOf(app).app_id}/runs/bulk`, { body, as });
  for (const filter of [
    {},
    { tag: "" },
    { status: null },
    { tags: "a" },
    { status: "queued" },
    { all: false },
    { all: true, status: "failure" },
  ])
    expect([filter, (await ask({ action: "delete", filter })).status]).toEqual([filter, 400]);
  expect((await ask({ action: "cancel", filter: { status: "success" } })).status).toBe(400);
  expect((await ask({ action: "delete" })).status).toBe(400);
  // What is deleted is gone for all.
  expect((await ask({ action: "delete", filter: { all: true } }, "run")).status).toBe(403);
  expect((await recordOf(service(), app, id)).status).toBe("success");
  expect((await site.call("listBulkJobs", idOf(app))).json).toEqual({ items: [] });
});

verifies("bulk.stopped", "a job that is stopped changes nothing more", async () => {
  const app = await service().own({ main: MAIN, toml: ONE });
  const { store } = service().service;
  const { number: appNumber } = (await store.apps.find({ projectId: site.projectId, name: app }))!;
  // One that is not carried out: of an app that this service does not know.
  const id = "019a8a3e-6c51-7d0e-b7f1-54a2f0d1c9aa";
  await store.bulkJobs.insert({ appNumber, id, action: "delete", filter: { tag: "x" }, total: 0, now: 1 });
  const { json } = await site.call("cancelBulkJob", { ...idOf(app), job_id: id });
  expect(["cancelled", "done"]).toContain(json.item.status);
  const again = await site.call("cancelBulkJob", { ...idOf(app), job_id: id });
  expect(again.json.item.status).toBe(json.item.status);
});
