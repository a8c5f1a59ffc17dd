import { request as httpRequest } from "node:http";
import { expect } from "vitest";
import type { BatchRecord } from "../../../src/shapes/batches.ts";
import { testDatabases, triedKinds } from "../../support/databases.ts";
import { KillableService } from "../../support/killable-service.ts";
import { endLeases } from "../../support/leases.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { linesIn, numbers } from "../batches/batch-site.ts";

const IS_FULL = process.env["MILLRACE_FAULTS"] === "full";
const LINES = IS_FULL ? 100_000 : 5_000;
const MAIN = "def run(n=0):\n    return n * 2\n";
const APP = { main: MAIN, toml: "[scaling]\nmax_replicas = 2\n" };

const databases = testDatabases();

for (const kind of triedKinds("sqlite")) {
  verifies(
    "batches.killed",
    `kill -9 during the upload and twice while lines run: every line once in the results, on ${kind}`,
    async () => {
      const service = await KillableService.deploy(await databases.fresh(kind), APP);
      const headers = {
        authorization: `Bearer ${service.token}`,
        "content-type": "application/jsonl",
        "idempotency-key": "one",
      };
      const get = async (path: string): Promise<string> => {
        const response = await fetch(`${service.appUrl}/batches${path}`, { headers });
        return await response.text();
      };
      const newest = async () => (JSON.parse(await get("")) as { items: BatchRecord[] }).items[0];
      const again = async (): Promise<void> => {
        await service.kill();
        await endLeases(service.database);
        expect(await service.start()).toBe(true);
      };
      expect(await service.start()).toBe(true);
      const upload = httpRequest(`${service.appUrl}/run/batches`, { method: "POST", headers });
      upload.on("error", () => undefined);
      upload.write(numbers(LINES / 2));
      await until("some lines are stored", async () => ((await newest())?.total ?? 0) > 0);
      const lost = new Promise((resolve) => upload.once("close", resolve));
      await again();
      await lost;
      const { id, total, status } = (await newest())!;
      expect([status, total > 0]).toEqual(["uploading", true]);
      const body = numbers(LINES);
      const url = `${service.appUrl}/run/batches`;
      const answer = await fetch(url, { method: "POST", headers, body });
      expect([answer.status, ((await answer.json()) as BatchRecord).id]).toEqual([202, id]);
      for (const part of [0.2, 0.6]) {
        await until("some lines have ended", async () => (await newest())!.succeeded > LINES * part);
        await again();
      }
      await until("the batch has ended", async () => (await newest())!.completedAt !== null);
      expect(await newest()).toMatchObject({ id, status: "completed", total: LINES, succeeded: LINES });
      const lines = linesIn(await get(`/${id}/results`));
      expect(lines.map(({ index }) => index)).toEqual(Array.from({ length: LINES }, (_, i) => i));
      expect(lines.filter((line) => line.result !== line.index * 2)).toEqual([]);
      expect(new Set(lines.map((line) => line.run_id)).size).toBe(LINES);
      const finished = linesIn(await get(`/${id}/results?order=finished`));
      expect(new Set(finished.map(({ index }) => index)).size).toBe(LINES);
      await service.stop();
      await service.withStore(async (store) => {
        const runs = await store.runs.list({ appNumber: service.appNumber, limit: 2 * LINES });
        expect(runs).toHaveLength(LINES);
      });
    },
    IS_FULL ? 900_000 : undefined,
  );
}
