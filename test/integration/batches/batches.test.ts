import { writeFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { testDatabases, triedKinds } from "../../support/databases.ts";
import { ManagementSite } from "../../support/management-site.ts";
import { WITHOUT_WALLS } from "../../support/service.ts";
import { sharedService } from "../../support/shared-service.ts";
import { until } from "../../support/until.ts";
import { WebhookTarget } from "../../support/webhook-target.ts";
import { verifies } from "../../verifies.ts";
import { bundleFile, ledger } from "../async/site.ts";
import {
  accepted,
  endedBatch,
  linesIn,
  MAIN,
  numbers,
  ofBatch,
  record,
  results,
  upload,
} from "./batch-site.ts";

const databases = testDatabases();
const TOML = "[scaling]\nmax_replicas = 2\n";

describe.each(triedKinds("postgres"))("batches on %s", (kind) => {
  const service = sharedService({ lines: { main: MAIN, toml: TOML } }, async () => {
    const { databaseUrl } = await databases.fresh(kind);
    return { ...WITHOUT_WALLS, databaseUrl, webhookAllow: ["127.0.0.0/8"] };
  });
  /** Only the first person can sign up. */
  let opened: Promise<ManagementSite> | null = null;
  const management = async () => await (opened ??= ManagementSite.open(service()));

  verifies(
    "batches.run",
    `every line of a batch becomes a run, and has its result once, on ${kind}`,
    async () => {
      const app = await service().own({ main: MAIN, toml: TOML });
      const answer = await upload(service(), app, numbers(300));
      expect(answer.status).toBe(202);
      const { id } = answer.json;
      expect(answer.headers.get("location")).toBe(service().url(app, `batches/${id}`));
      expect(answer.headers.get("x-request-id")).toBe(id);
      const ended = await endedBatch(service(), app, id);
      expect(ended).toMatchObject({
        id,
        functionName: "run",
        status: "completed",
        total: 300,
        waiting: 0,
        running: 0,
        succeeded: 300,
        failed: 0,
        cancelled: 0,
      });
      const lines = await results(service(), app, id);
      expect(lines.map(({ index }) => index)).toEqual(Array.from({ length: 300 }, (_, i) => i));
      for (const line of lines)
        expect(line).toMatchObject({ id: `n${line.index}`, status: "success", result: line.index * 2 });
      expect(new Set(ledger(service(), app)).size).toBe(300);
      expect(ledger(service(), app)).toHaveLength(300);
      const run = await service().ofRun(app, lines[7]!.run_id!);
      expect(run.json).toMatchObject({ async: true, status: "success", functionName: "run", result: 14 });
    },
  );

  verifies("batches.results", `results come in both orders, and from any line on, on ${kind}`, async () => {
    const id = await accepted(service(), "lines", numbers(50), { functionName: "fail_odd" });
    await endedBatch(service(), "lines", id);
    const finished = await results(service(), "lines", id, "?order=finished");
    expect(finished.map(({ index }) => index).toSorted((a, b) => a - b)).toEqual(
      Array.from({ length: 50 }, (_, i) => i),
    );
    expect(await results(service(), "lines", id, "?order=finished&after=20")).toEqual(finished.slice(20));
    const rest = await results(service(), "lines", id, "?order=input&after=44");
    expect(rest.map(({ index }) => index)).toEqual([45, 46, 47, 48, 49]);
    expect(rest[0]).toMatchObject({
      status: "failure",
      error: { code: "app_error", message: "ValueError: 45 is odd" },
    });
    expect(rest[1]).toMatchObject({ status: "success", result: 46 });
    for (const query of ["?order=x", "?after=-1", "?wait=1"])
      expect((await ofBatch(service(), "lines", `/${id}/results${query}`)).status).toBe(400);
  });

  verifies(
    "batches.bad-lines",
    `a line that cannot be a call has an error, and the others run, on ${kind}`,
    async () => {
      const hostile = [
        '{"id":1,"input":{"n":1}}\r',
        "not json",
        "",
        "   ",
        '{"id":"a","input":[1]}',
        '{"id":"b","input":{"n":2},"prompt":"x"}',
        '{"id":"c","input":{"n":3},"input":{}}',
        '{"id":"d","input":{"n":4},"priority":"soon"}',
        '{"id":"e","input":{"m":4}}',
        '{"id":{},"input":{}}',
        '{"id":"f","input":{"__proto__":1}}',
        "\u0000",
        '{"id":"n1","tag":["x","y"],"priority":60,"max_attempts":2,"ttl":"1h"}',
        '{"id":"n1","input":{"n":9}}',
      ].join("\n");
      const id = await accepted(service(), "lines", hostile, { suffix: "?tag=all" });
      expect(await endedBatch(service(), "lines", id)).toMatchObject({ total: 12, succeeded: 3, failed: 9 });
      const lines = await results(service(), "lines", id);
      expect(lines.map((line) => line.error?.code ?? line.result)).toEqual([
        2,
        "invalid_json",
        "bad_request",
        "bad_request",
        "invalid_json",
        "bad_request",
        "invalid_arguments",
        "bad_request",
        "invalid_arguments",
        "invalid_json",
        0,
        18,
      ]);
      expect(lines.map((line) => line.id)).toEqual([
        1,
        undefined,
        "a",
        "b",
        undefined,
        "d",
        "e",
        undefined,
        "f",
        undefined,
        "n1",
        "n1",
      ]);
      expect(lines[3]!.error!.message).toContain('"prompt"');
      expect(lines[3]!.run_id).toBeNull();
      const run = await service().ofRun("lines", lines[10]!.run_id!);
      expect(run.json).toMatchObject({ priority: 60, maxAttempts: 2, tags: ["all", "x", "y"] });
    },
  );

  verifies("batches.refused", `an upload that cannot be a batch is refused, on ${kind}`, async () => {
    const status = async (lines: string, options = {}) =>
      (await upload(service(), "lines", lines, options)).status;
    expect(await status("\n \r\n")).toBe(400);
    expect(await status(numbers(1), { suffix: "?priority=soon" })).toBe(400);
    expect(await status(numbers(1), { functionName: "nothing" })).toBe(404);
    expect(await status(numbers(1), { token: null })).toBe(401);
    expect(await status(numbers(1), { headers: { "content-encoding": "gzip" } })).toBe(415);
    expect(await status(numbers(1), { suffix: "?webhookEndpoint=ftp%3A%2F%2Fx" })).toBe(422);
    expect((await ofBatch(service(), "lines", "/0190a000-0000-7000-8000-000000000000")).status).toBe(404);
    expect((await ofBatch(service(), "lines", "", { method: "POST" })).status).toBe(405);
    // As JSON it is a call like any other below the function.
    expect((await service().call("lines", { n: 4 }, { suffix: "/batches" })).json).toBe(8);
  });

  const cancels = `a cancelled batch ends its lines, few of which are in the queue, each with its result, on ${kind}`;
  verifies(["batches.cancel", "batches.window"], cancels, async () => {
    // More than are in the queue at once. Ending thousands of runs takes Postgres long, and tells nothing more.
    const total = kind === "sqlite" ? 2_600 : 300;
    const app = await service().own({ main: MAIN, toml: TOML });
    const id = await accepted(service(), app, numbers(total), { functionName: "hold" });
    await until("some are running", async () => (await ofBatch(service(), app, `/${id}`)).json?.running > 0);
    const { store } = service().service;
    const appNumber = service().apps.get(app)!.app.number;
    const runs = await store.runs.list({ appNumber, limit: 5_000 });
    expect(runs.length).toBeGreaterThan(2);
    expect(runs.length).toBeLessThanOrEqual(2_000);
    const cancelled = await ofBatch(service(), app, `/${id}/cancel`, { method: "POST" });
    expect([cancelled.status, cancelled.json.status]).toEqual([202, "cancelling"]);
    const ended = await endedBatch(service(), app, id);
    expect(ended).toMatchObject({ status: "cancelled", total, cancelled: total, waiting: 0 });
    const lines = await results(service(), app, id);
    expect(lines.map(({ index }) => index)).toEqual(Array.from({ length: total }, (_, i) => i));
    expect(new Set(lines.map(({ status, error }) => `${status} ${error?.code}`))).toEqual(
      new Set(["cancelled cancelled"]),
    );
    expect((await ofBatch(service(), app, `/${id}/cancel`, { method: "POST" })).status).toBe(409);
  });

  verifies("batches.retry", `the failed lines of a batch run again as a new one, on ${kind}`, async () => {
    const app = await service().own({ main: MAIN, toml: TOML });
    const id = await accepted(service(), app, numbers(20), { functionName: "fail_odd", suffix: "?tag=t" });
    expect(await endedBatch(service(), app, id)).toMatchObject({ succeeded: 10, failed: 10 });
    writeFileSync(bundleFile(service(), app, "mended"), "");
    const again = await ofBatch(service(), app, `/${id}/retry`, { method: "POST" });
    expect([again.status, again.json]).toEqual([202, expect.objectContaining({ total: 10, retryOf: id })]);
    expect(await endedBatch(service(), app, again.json.id)).toMatchObject({ succeeded: 10, failed: 0 });
    const lines = await results(service(), app, again.json.id);
    expect(lines.map((line) => line.id)).toEqual(Array.from({ length: 10 }, (_, i) => `n${2 * i + 1}`));
    expect((await record(service(), app, id)).failed).toBe(10);
    expect((await service().ofRun(app, lines[0]!.run_id!)).json.tags).toEqual(["t"]);
    const none = await ofBatch(service(), app, `/${again.json.id}/retry`, { method: "POST" });
    expect([none.status, none.json.code]).toEqual([410, "payload_not_kept"]);
  });

  verifies("batches.webhook", `one webhook tells the end of a batch, on ${kind}`, async () => {
    const target = await WebhookTarget.open();
    const suffix = `?webhookEndpoint=${encodeURIComponent(target.url)}`;
    const id = await accepted(service(), "lines", numbers(5), { suffix });
    await until("the webhook is called", () => target.received.length > 0);
    const [{ headers, body } = expect.fail()] = target.received;
    expect(headers).toMatchObject({ "webhook-id": id, "x-request-id": id });
    expect(JSON.parse(body.toString())).toMatchObject({ id, status: "completed", total: 5, succeeded: 5 });
    expect(target.received).toHaveLength(1);
  });

  verifies(
    "batches.streams",
    `what a generator yields is a list in its line's result, on ${kind}`,
    async () => {
      const id = await accepted(service(), "lines", numbers(2), { functionName: "letters" });
      await endedBatch(service(), "lines", id);
      expect((await results(service(), "lines", id)).map(({ result }) => result)).toEqual([
        ["a", { n: 0 }],
        ["a", { n: 1 }],
      ]);
    },
  );

  verifies(
    "batches.follow",
    `a reader that waits gets each line as it ends, in its order, on ${kind}`,
    async () => {
      const app = await service().own({ main: MAIN, toml: TOML });
      const id = await accepted(service(), app, numbers(6), { functionName: "hold" });
      const input = ofBatch(service(), app, `/${id}/results?wait=true`);
      const finished = ofBatch(service(), app, `/${id}/results?wait=true&order=finished`);
      await until("some are running", async () => (await record(service(), app, id)).running > 0);
      writeFileSync(bundleFile(service(), app, "go"), "");
      expect(linesIn((await input).text).map(({ result }) => result)).toEqual([0, 1, 2, 3, 4, 5]);
      expect(linesIn((await finished).text)).toHaveLength(6);
      const leaving = new AbortController();
      const second = await accepted(service(), app, numbers(1), { suffix: "?delay=1h" });
      const gone = ofBatch(service(), app, `/${second}/results?wait=true`, { signal: leaving.signal });
      leaving.abort();
      await expect(gone).rejects.toMatchObject({ name: "AbortError" });
      expect(await record(service(), app, second)).toMatchObject({ waiting: 1, status: "running" });
      await ofBatch(service(), app, `/${second}/cancel`, { method: "POST" });
      expect(await endedBatch(service(), app, second)).toMatchObject({ cancelled: 1 });
    },
  );

  verifies(
    "batches.draining",
    `a queue that is drained becomes empty, and a batch goes on later, on ${kind}`,
    async () => {
      const toml = "[scaling]\nmax_replicas = 1\n[queue]\nmax_backlog = 2\n";
      const app = await service().own({ main: MAIN, toml });
      const { number: appNumber } = service().apps.get(app)!.app;
      const id = await accepted(service(), app, numbers(6), { functionName: "hold" });
      const runs = async () => await service().service.store.runs.list({ appNumber, limit: 9 });
      // One for the slot, and half of what may wait.
      await until("the first lines are in the queue", async () => (await runs()).length === 2);
      const site = await management();
      const app_id = `${site.projectId}-${app}`;
      await site.call("drainQueue", { app_id });
      writeFileSync(bundleFile(service(), app, "go"), "");
      await until("these have ended", async () => (await record(service(), app, id)).succeeded === 2);
      expect(await record(service(), app, id)).toMatchObject({
        status: "running",
        queue: "draining",
        waiting: 4,
      });
      expect(await runs()).toHaveLength(2);
      await site.call("resumeQueue", { app_id });
      expect(await endedBatch(service(), app, id)).toMatchObject({ succeeded: 6, queue: null });
    },
  );

  verifies("batches.deleted", `a batch ends with its app, on ${kind}`, async () => {
    const app = await service().own({ main: MAIN, toml: TOML });
    const appNumber = service().apps.get(app)!.app.number;
    const target = await WebhookTarget.open();
    const suffix = `?webhookEndpoint=${encodeURIComponent(target.url)}`;
    const id = await accepted(service(), app, numbers(2_600), { functionName: "hold", suffix });
    const site = await management();
    await site.call("deleteApp", { app_id: `${site.projectId}-${app}` });
    const { lineBatches } = service().service.store;
    const find = async () => await lineBatches.find({ appNumber, id });
    await until("the batch has ended", async () => (await find())?.state === "cancelled");
    const { number, total } = (await find())!;
    expect(await lineBatches.block({ number, line: total - 1 })).toBeNull();
    expect((await ofBatch(service(), app, `/${id}`)).status).toBe(404);
    await until("the webhook is called", () => target.received.length > 0);
    const told = JSON.parse(target.received[0]!.body.toString());
    expect(told).toMatchObject({ id, status: "cancelled", total: 2_600, waiting: 0, running: 0 });
  });

  test(`batches are listed, newest first, on ${kind}`, async () => {
    const app = await service().own({ main: MAIN, toml: TOML });
    const ids: string[] = [];
    for (let i = 0; i < 3; i++) ids.unshift(await accepted(service(), app, numbers(1)));
    const first = await ofBatch(service(), app, "?pageSize=2");
    expect(first.json.items.map((item: { id: string }) => item.id)).toEqual(ids.slice(0, 2));
    const second = await ofBatch(service(), app, `?pageSize=2&nextToken=${first.json.nextToken}`);
    expect(second.json.items.map((item: { id: string }) => item.id)).toEqual(ids.slice(2));
    expect(second.json.nextToken).toBe("");
  });
});
