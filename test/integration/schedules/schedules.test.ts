import { writeFileSync } from "node:fs";
import { beforeAll, expect, test } from "vitest";
import type { ScheduleRecord } from "../../../src/shapes/schedules.ts";
import { SkippingClock } from "../../support/clocks.ts";
import { ManagementSite } from "../../support/management-site.ts";
import { WITHOUT_WALLS } from "../../support/service.ts";
import { sharedService } from "../../support/shared-service.ts";
import { until } from "../../support/until.ts";
import { zipOf } from "../../support/zip.ts";
import { verifies } from "../../verifies.ts";
import { bundleFile, ended, ledger, MAIN, recordOf } from "../async/site.ts";
import { Client } from "../cli/client.ts";

/** Far from any time at which it fires by itself while the tests run, unless they skip to it. */
const NIGHTLY = 'cron = "0 0 1 1 *"';
const clock = new SkippingClock();
const service = sharedService({ tool: { main: MAIN } }, WITHOUT_WALLS, { clock });
let site: ManagementSite;
beforeAll(async () => {
  site = await ManagementSite.open(service());
});

const toml = (...schedules: string[]): string =>
  `[scaling]\nmax_replicas = 4\n${schedules.map((keys) => `[[schedules]]\n${keys}\n`).join("")}`;
const idOf = (app: string): { app_id: string } => ({ app_id: `${site.projectId}-${app}` });

async function get(app: string, schedule_name: string): Promise<ScheduleRecord> {
  return (await site.call("getSchedule", { ...idOf(app), schedule_name })).json.item;
}

async function namesOf(app: string): Promise<string[]> {
  const { json } = await site.call("listSchedules", idOf(app));
  return json.items.map(({ name }: ScheduleRecord) => name);
}

verifies("schedules.run", "a schedule starts a run when its time comes, and the run says so", async () => {
  const keys = 'name = "minutely"\ncron = "* * * * *"\ninput = { n = 7 }';
  const app = await service().own({ main: MAIN, toml: toml(keys) });
  const before = await get(app, "minutely");
  expect(before).toMatchObject({ source: "app", function: "run", input: { n: 7 }, paused: false });
  expect(before.nextTimes).toHaveLength(5);
  const [time = ""] = before.nextTimes;
  const firing = async () => (await get(app, "minutely")).lastRuns.find((last) => last.time === time);
  clock.leap(Math.max(0, Date.parse(time) - clock.now()));
  await until("it has fired", async () => (await firing()) !== undefined);
  expect(await firing()).toMatchObject({ time, manual: false, status: "started" });
  const id = (await firing())!.runId!;
  const run = await ended(service(), app, id);
  const schedule = { name: "minutely", time };
  expect(run).toMatchObject({ async: true, status: "success", result: 7, schedule });
  const { json } = await site.call("getRun", { ...idOf(app), run_id: id });
  expect(json.item.schedule).toEqual(schedule);
  expect(await firing()).toMatchObject({ runId: id, runStatus: "success" });
  await site.call("changeSchedule", { ...idOf(app), schedule_name: "minutely" }, { body: { paused: true } });
});

verifies("schedules.queue", "with queue, runs of a schedule start one after the other", async () => {
  const each = 'name = "each"\ncron = "* * * * * *"\nfunction = "hold"\noverlap = "queue"';
  const app = await service().own({ main: MAIN, toml: toml(each) });
  const statuses = async () => (await get(app, "each")).lastRuns.map(({ status }) => status);
  await until(
    "two wait",
    async () => (await statuses()).filter((status) => status === "waiting").length >= 2,
  );
  expect(ledger(service(), app).filter((line) => line !== "")).toHaveLength(1);
  await site.call("changeSchedule", { ...idOf(app), schedule_name: "each" }, { body: { paused: true } });
  const started = async () => {
    const { json } = await site.call("listRuns", idOf(app));
    return json.items.length;
  };
  writeFileSync(bundleFile(service(), app, "go"), "");
  await until("those that waited have run", async () => {
    const { lastRuns } = await get(app, "each");
    return lastRuns.every(({ runStatus }) => runStatus === "success");
  });
  expect(ledger(service(), app)).toHaveLength(await started());
});

verifies("schedules.cancel", "with cancel, the new run takes the place of the unfinished one", async () => {
  const each = 'name = "each"\ncron = "* * * * * *"\nfunction = "hold"\noverlap = "cancel"';
  const app = await service().own({ main: MAIN, toml: toml(each) });
  const statuses = async () => (await get(app, "each")).lastRuns.map(({ runStatus }) => runStatus);
  await until("one was cancelled", async () => (await statuses()).includes("cancelled"));
  await site.call("changeSchedule", { ...idOf(app), schedule_name: "each" }, { body: { paused: true } });
  await until("all but the last are", async () => {
    const { json } = await site.call("listRuns", idOf(app));
    const [, ...others] = json.items.map(({ status }: { status: string }) => status);
    return others.every((status: string) => status === "cancelled");
  });
  writeFileSync(bundleFile(service(), app, "go"), "");
  await until("the last one has ended", async () => (await statuses())[0] === "success");
});

verifies(
  ["schedules.api", "schedules.audit"],
  "schedules are made, changed, paused, resumed, run and deleted, and the audit log has it",
  async () => {
    const tool = idOf("tool");
    const body = { cron: " 30 4 * * * ", timezone: "Europe/Berlin", input: { n: 3 }, jitter: "1m" };
    const { json: made } = await site.call("createSchedule", tool, { body });
    expect(made.item).toMatchObject({
      name: "run",
      source: "api",
      cron: "30 4 * * *",
      timezone: "Europe/Berlin",
      overlap: "skip",
      catchUp: "none",
      jitterSeconds: 60,
      paused: false,
    });
    const key = { ...tool, schedule_name: "run" };
    const change = async (changes: object) =>
      (await site.call("changeSchedule", key, { body: changes })).json.item;
    expect(await change({ paused: true })).toMatchObject({ paused: true, nextTimes: [] });
    expect(await change({ input: { n: 4 } })).toMatchObject({
      input: { n: 4 },
      cron: "30 4 * * *",
      nextTimes: [],
    });
    expect((await change({ paused: false })).nextTimes).toEqual(made.item.nextTimes);
    expect((await change({ cron: "45 4 * * *" })).nextTimes).not.toEqual(made.item.nextTimes);
    await change({ paused: true });
    const { json: ran } = await site.call("runSchedule", key, { as: "run" });
    expect(await ended(service(), "tool", ran.runId)).toMatchObject({
      result: 4,
      schedule: { name: "run" },
    });
    expect((await get("tool", "run")).lastRuns).toMatchObject([{ manual: true, runId: ran.runId }]);
    await site.call("deleteSchedule", key);
    expect(await namesOf("tool")).not.toContain("run");
    // The run says still what started it.
    expect(await recordOf(service(), "tool", ran.runId)).toMatchObject({ schedule: { name: "run" } });
    const { json: entries, text } = await site.call("listAudit");
    // Inputs may be secret, and entries are kept for long.
    expect(text).toContain("inputHash");
    expect(text).not.toContain('"input":');
    const actions = (entries.items ?? entries)
      .filter(({ target }: { target: string }) => target === `${tool.app_id}/run`)
      .map(({ action }: { action: string }) => action);
    expect(new Set(actions)).toEqual(
      new Set(["schedule.create", "schedule.change", "schedule.run", "schedule.delete"]),
    );
  },
);

test("what cannot be a schedule is refused", async () => {
  const refused = async (
    method: string,
    url: string,
    body: object | undefined,
    as: "run" | "deploy" = "deploy",
  ) => {
    const asked = { as, ...(body && { body }) };
    const answer = await site.ask(method, `apps/${idOf("tool").app_id}/schedules${url}`, asked);
    return [answer.status, answer.json.code];
  };
  const cron = "0 0 * * *";
  expect(await refused("POST", "", { cron: "* *" })).toEqual([400, "bad_request"]);
  expect(await refused("POST", "", {})).toEqual([400, "bad_request"]);
  expect(await refused("POST", "", { cron, timezone: "Mars" })).toEqual([400, "bad_request"]);
  expect(await refused("POST", "", { cron, function: "absent" })).toEqual([404, "function_not_found"]);
  expect(await refused("POST", "", { cron, function: "fail", input: { m: 1 } })).toEqual([
    422,
    "invalid_arguments",
  ]);
  expect(await refused("POST", "", { cron }, "run")).toEqual([403, "forbidden"]);
  expect(await refused("PATCH", "/absent", { paused: true })).toEqual([404, "schedule_not_found"]);
  await site.call("createSchedule", idOf("tool"), { body: { cron, name: "taken" } });
  expect(await refused("POST", "", { cron, name: "taken" })).toEqual([409, "schedule_exists"]);
  const app = await service().own({ main: MAIN, toml: toml(NIGHTLY) });
  for (const [method, body] of [
    ["PATCH", { cron }],
    ["DELETE", undefined],
  ] as const) {
    const url = `apps/${idOf(app).app_id}/schedules/run`;
    expect((await site.ask(method, url, { ...(body && { body }) })).json.code).toBe("bad_request");
  }
});

test("schedules come in pages, by name", async () => {
  const app = await service().own({
    main: MAIN,
    toml: toml(...["c", "a", "b"].map((name) => `name = "${name}"\n${NIGHTLY}`)),
  });
  const page = { ...idOf(app), pageSize: "2" };
  const { json: first } = await site.call("listSchedules", page);
  const { json: second } = await site.call("listSchedules", { ...page, nextToken: first.nextToken });
  const names = [first, second].map(({ items }) => items.map(({ name }: ScheduleRecord) => name));
  expect([names, second.nextToken]).toEqual([[["a", "b"], ["c"]], ""]);
  // Postgres takes no NUL.
  const odd = Buffer.from("a\0").toString("base64url");
  const { status } = await site.ask("GET", `apps/${idOf(app).app_id}/schedules?nextToken=${odd}`);
  expect(status).toBe(400);
});

verifies("schedules.function", "a deploy whose schedule cannot call anything fails", async () => {
  const deploy = async (keys: string): Promise<string> => {
    const bundle = await zipOf({ "main.py": MAIN, "millrace.toml": toml(`${NIGHTLY}\n${keys}`) });
    const { text } = await site.call("deploy", { name: "zipped" }, { body: bundle });
    return JSON.parse(text.trimEnd().split("\n").at(-1) ?? "{}").message ?? "";
  };
  expect(await deploy('function = "absent"')).toContain("main.py has no function absent");
  expect(await deploy('function = "fail"\ninput = { m = 1 }')).toContain(
    "its input does not fit fail(): m is unknown",
  );
  expect(await deploy('overlap = "allow"')).toContain("schedules[0].overlap must be one of");
  expect(await deploy("input = { n = 1 }")).toBe("");
  expect(await namesOf("zipped")).toEqual(["run"]);
});

verifies("schedules.deleted", "the schedules of an app go with it", async () => {
  const main = MAIN;
  const app = await service().own({ main, toml: toml(NIGHTLY) });
  await site.call("deleteApp", idOf(app));
  await service().deploy(app, { main });
  expect(await namesOf(app)).toEqual([]);
});

verifies("schedules.cli", "the command line manages schedules", async () => {
  const client = new Client(service());
  const app = await service().own({ main: MAIN });
  const created = ["--cron", "30 4 * * *", "--data", '{"n":5}', "--overlap", "queue", "--catch-up", "last"];
  expect(await client.ok("schedules", "create", app, ...created)).toMatch(/^Created run\. Next: 20\S+Z\n$/);
  expect(await client.ok("schedules", "list", app)).toMatch(
    /^NAME +CRON +.*\nrun +30 4 \* \* \* {2}UTC +run +in /,
  );
  expect(await client.ok("schedules", "pause", app, "run")).toBe("run is paused.\n");
  const id = (await client.ok("schedules", "run", app, "run")).trim();
  expect(await ended(service(), app, id)).toMatchObject({ result: 5 });
  expect(await client.json("schedules", "list", app, "run")).toMatchObject({
    paused: true,
    overlap: "queue",
    catchUp: "last",
    lastRuns: [{ runId: id, runStatus: "success" }],
  });
  expect(await client.ok("schedules", "list", app, "run")).toContain(id);
  expect(await client.ok("runs", "get", app, id)).toMatch(/^schedule +run {2}20/m);
  expect(await client.ok("schedules", "resume", app, "run")).toMatch(/^run is resumed\. Next: 20/);
  expect(await client.ok("schedules", "delete", app, "run")).toBe("Deleted run.\n");
  expect(await client.json("schedules", "list", app)).toEqual([]);
});
