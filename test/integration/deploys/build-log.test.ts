import { describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import { BuildLogs, buildLineId } from "../../../src/apps/deploys/build-log.ts";
import { systemClock } from "../../../src/kit/clock.ts";
import { uuidv7 } from "../../support/ids.ts";
import { createLog } from "../../../src/kit/log.ts";
import { timestampOf } from "../../../src/model/log-line.ts";
import { openStore } from "../../../src/store/store.ts";
import { testDatabases, triedKinds } from "../../support/databases.ts";
import { until } from "../../support/until.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";
import { DeploySite, HELD, answering, bundle } from "./site.ts";

const service = sharedService();
const here = (): DeploySite => new DeploySite(service());

type Frame = {
  readonly build_id: string;
  readonly log_id: string;
  readonly timestamp: string;
  readonly log: string;
  readonly stage: string;
  readonly log_line_number: number;
};

/** A reader of `/ws-build-logs`. */
class Reader {
  readonly frames: Frame[] = [];
  readonly socket: WebSocket;
  readonly closed: Promise<number>;

  constructor(site: DeploySite, query: Record<string, string>) {
    const { baseUrl, owner } = site.test.service;
    const all = new URLSearchParams({ projectID: owner.projectId, token: owner.token, ...query });
    this.socket = new WebSocket(`${baseUrl.replace("http", "ws")}/ws-build-logs?${String(all)}`);
    this.socket.on("message", (data: Buffer) => this.frames.push(JSON.parse(data.toString()) as Frame));
    this.closed = new Promise((resolve, reject) => {
      this.socket.once("close", resolve);
      this.socket.once("error", reject);
    });
  }
}

verifies(
  ["deploy.build-log", "logs.websocket.build", "builds.logs", "logs.websocket.times"],
  "a build's log is followed while it runs, closes 1000 at its end, and is replayed afterwards",
  async () => {
    const site = here();
    const begun = await site.begin("app", { shellCommands: [`echo odd >&2; ${HELD}`] });
    const early = new Reader(site, { buildID: begun.buildId });
    await site.put(begun.uploadUrl, bundle(answering("x")));
    const said = (): string[] => early.frames.map(({ log }) => log);
    await until("the command's words came", () => said().includes("held"));
    expect(said()).not.toContain("let go");
    const { json: middle } = await site.ask("GET", `apps/${site.appId("app")}/builds/${begun.buildId}/logs`);
    expect(middle.status).toBe("building");
    await site.letGo("app", begun.buildId);
    expect(await early.closed).toBe(1000);
    expect(await site.status("app", begun.buildId)).toBe("success");
    expect(said()).toContain("let go");

    expect(early.frames.find(({ log }) => log === "odd")).toEqual({
      build_id: begun.buildId,
      log_id: expect.any(String),
      app_id: site.appId("app"),
      container_id: null,
      timestamp: expect.stringMatching(/\.\d{9}Z$/),
      log: "odd",
      stream: "stderr",
      region: null,
      log_line_number: expect.any(Number),
      stage: "build",
    });
    const times = early.frames.map(({ timestamp }) => timestamp);
    expect(times).toEqual([...new Set(times)].toSorted());
    expect(early.frames.map(({ log_line_number: number }) => number)).toEqual(times.map((_, at) => at + 1));
    const stages = new Set(early.frames.map(({ stage }) => stage));
    expect([...stages]).toEqual(["upload", "extract", "build", "check", "switch"]);

    const late = new Reader(site, { buildID: begun.buildId });
    expect(await late.closed).toBe(1000);
    expect(late.frames).toEqual(early.frames);
    for (const after of [early.frames[2]!.timestamp, early.frames[2]!.log_id]) {
      const rest = new Reader(site, { buildID: begun.buildId, after });
      expect(await rest.closed).toBe(1000);
      expect(rest.frames).toEqual(early.frames.slice(3));
    }

    const { json } = await site.ask("GET", `apps/${site.appId("app")}/builds/${begun.buildId}/logs`);
    expect(json.status).toBe("success");
    expect(json.logs).toEqual(
      early.frames.map(({ log_id: id, timestamp: createdAt, log }) => ({ id, createdAt, log })),
    );
  },
);

verifies(
  ["setup.build-log", "setup.not-callable"],
  "a build's log says how long setup() took, and names the functions without it; so does the list of replicas",
  async () => {
    const site = here();
    const main = "def setup():\n    pass\n\ndef run():\n    return 1\n";
    const { buildId, status } = await site.deploy("with-setup", bundle(main));
    expect(status).toBe("success");
    const lines = (await site.log("with-setup", buildId)).split("\n");
    const at = lines.findIndex((line) => /^setup\(\) took \d+\.\d\d s$/.test(line));
    expect(lines[at + 1]).toMatch(/^ready after \d+\.\d\d s: run$/);
    const containers = await site.ask("GET", `apps/${site.appId("with-setup")}/containers`);
    expect(containers.json).toMatchObject([{ setupMs: expect.any(Number) as number }]);

    const without = await site.deploy("without-setup", bundle(answering("x")));
    expect(await site.log("without-setup", without.buildId)).not.toContain("setup()");
  },
);

test("a reader is refused before the upgrade: a build that is not the project's, a place that is none", async () => {
  const site = here();
  const { buildId } = await site.begin("refusing");
  await site.test.service.store.projects.insert({ id: "p-other", name: "other", createdAt: 1 });
  const cases: [Record<string, string>, number][] = [
    [{ buildID: "01a1ded4-501b-765f-9df8-ef7bf14ccbbf" }, 404],
    [{ buildID: "x" }, 404],
    [{ buildID: buildId, projectID: "p-other" }, 403],
    [{ buildID: buildId, token: "x" }, 401],
    [{ buildID: buildId, after: "yesterday" }, 400],
  ];
  for (const [query, status] of cases) {
    await expect(new Reader(site, query).closed).rejects.toThrow(`Unexpected server response: ${status}`);
  }
});

test("a reader who leaves early changes nothing, one of a build that waits is told when it is cancelled", async () => {
  const site = here();
  const { buildId } = await site.begin("left");
  const [leaving, staying] = [new Reader(site, { buildID: buildId }), new Reader(site, { buildID: buildId })];
  await until("both read", () => [leaving, staying].every(({ socket }) => socket.readyState === socket.OPEN));
  leaving.socket.terminate();
  await site.cancel("left", buildId);
  expect(await staying.closed).toBe(1000);
  expect(staying.frames.map(({ log }) => log)).toEqual(["the build was cancelled"]);
});

const databases = testDatabases();

describe.each(triedKinds("sqlite"))("on %s", (kind) => {
  test("what is said is kept in order, whatever the clock does, up to a bound that is told", async () => {
    const store = await openStore(await databases.fresh(kind));
    let now = 1_000_000;
    const clock = { ...systemClock, now: () => now };
    const logs = new BuildLogs({ store, clock, log: createLog("silent") });
    const id = uuidv7(now);
    const log = await logs.open(id);
    log.say("build", "first\nsecond\r\n", "stderr");
    now -= 5_000;
    log.say("check", "nul \0 here");
    for (let line = 4; line <= 20_003; line++) log.say("check", String(line));
    await log.flush();
    logs.close(log);
    const lines = await logs.read(id);
    expect(lines.slice(0, 3).map(({ text }) => text)).toEqual(["first", "second", "nul � here"]);
    expect(lines).toHaveLength(20_001);
    expect(lines.at(-1)?.text).toBe("[millrace] 3 more lines are omitted: the log is full");
    const ids = lines.map((line) => buildLineId(id, line));
    expect(ids).toEqual([...new Set(ids)].toSorted());
    expect(timestampOf(ids[0] ?? "")).toBe("1970-01-01T00:16:40.000000001Z");
    await store.close();
  });
});
