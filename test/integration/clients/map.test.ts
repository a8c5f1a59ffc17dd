import { describe, expect } from "vitest";
import { AppFailed, Cancelled, type Millrace, type MillraceError } from "../../../src/client/client.ts";
import { sharedService } from "../../support/shared-service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { CuttingProxy, randomCuts, randomFrom } from "./cutting-proxy.ts";
import { clientOf, MAP_MAIN, newGate } from "./site.ts";

const service = sharedService({ app: { main: MAP_MAIN, toml: "[scaling]\nmax_replicas = 2\n" } });

function* numbers(count: number): Generator<{ n: number }> {
  for (let n = 0; n < count; n++) yield { n };
}

async function listOf<T>(values: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const value of values) list.push(value);
  return list;
}

async function newest(client: Millrace) {
  for await (const record of client.batches.list("app")) return record;
  throw new Error("there is no batch");
}

describe("map", () => {
  verifies(
    "client.map",
    "yields what the function returns for each input, in their order or not",
    async () => {
      const client = clientOf(service());
      const doubled = await listOf(client.map<number>("app", numbers(300), { function: "double" }));
      expect(doubled).toEqual(Array.from({ length: 300 }, (_, n) => n * 2));
      const options = { function: "double", ordered: false, tags: ["t"] };
      const finished = await listOf(client.app("app").map<number>([{ n: 1 }, { n: 2 }, { n: 3 }], options));
      expect(finished.toSorted((a, b) => a - b)).toEqual([2, 4, 6]);
      expect(await listOf(client.map("app", []))).toEqual([]);
      const rows = [
        [5, 3],
        [1, 9],
      ];
      expect(await listOf(client.starmap("app", ["a", "b"], rows, { function: "minus" }))).toEqual([2, -8]);
      await expect(listOf(client.starmap("app", ["a", "b"], [[1]]))).rejects.toThrow("1 values for 2");
    },
  );

  verifies("client.map.fairness", "the calls wait in the line that is named", async () => {
    const client = clientOf(service());
    const options = { function: "double", fairnessKey: "customer-7" };
    expect(await listOf(client.map("app", [{ n: 4 }], options))).toEqual([8]);
    const { id } = await newest(client);
    const [result] = await listOf(client.batches.find("app", id).results());
    expect((await service().ofRun("app", result!.runId!)).json).toMatchObject({ fairnessKey: "customer-7" });
  });

  verifies(
    "client.map.errors",
    "throws the error of a call, or yields it, and leaving cancels the rest",
    async () => {
      const client = clientOf(service());
      const inputs = [{ n: 1 }, { n: -1 }, { n: 3 }];
      const mixed = await listOf(
        client.map<number | MillraceError>("app", inputs, { function: "double", returnExceptions: true }),
      );
      expect(mixed).toEqual([2, expect.any(AppFailed), 6]);
      expect(mixed[1]).toMatchObject({ code: "app_error", message: "ValueError: -1 is negative" });
      await expect(listOf(client.map("app", inputs, { function: "double" }))).rejects.toThrow(
        "-1 is negative",
      );
      await expect(client.forEach("app", inputs, { function: "double" })).rejects.toThrow(AppFailed);
      await client.forEach("app", inputs, { function: "double", ignoreExceptions: true });
      const gate = newGate();
      const held = client.map("app", [{ n: 0 }, { gate }, { gate }], { function: "held" });
      const error = await held.next().catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ code: "invalid_arguments" });
      await until("the rest is cancelled", async () => (await newest(client)).status === "cancelled");
      expect(await newest(client)).toMatchObject({ total: 3, failed: 1, cancelled: 2 });
    },
  );

  verifies(
    "client.map.large",
    "sends more than it holds as a stream, and tells what a generator throws",
    async () => {
      const client = clientOf(service());
      const value = "x".repeat(1000);
      const large = async function* (count: number, isBroken = false) {
        for (let i = 0; i < count; i++) yield { value };
        if (isBroken) throw new RangeError("out of inputs");
      };
      const broken = listOf(client.map("app", large(3000, true), { function: "echo" }));
      await expect(broken).rejects.toThrow(RangeError);
      await until("the service gives it up", async () => (await newest(client)).status === "cancelled");
      let count = 0;
      for await (const text of client.map<string>("app", large(3000), { function: "echo", ordered: false }))
        count += text.length;
      expect(count).toBe(3_000_000);
      const refused = listOf(client.map("none", large(30_000)));
      await expect(refused).rejects.toMatchObject({ code: "app_not_found" });
    },
  );

  verifies("client.map.broken", "gives each result once, however often connections break", async () => {
    const random = randomFrom(40);
    const proxy = await CuttingProxy.open(service().service.apiUrl, randomCuts(25, 3000, random));
    const client = clientOf(service(), proxy.url);
    for (const ordered of [true, false]) {
      const options = { function: "double", ordered };
      const doubled = await listOf(client.map<number>("app", [...numbers(300)], options));
      expect(doubled.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 300 }, (_, n) => n * 2));
    }
    expect(proxy.cuts).toBeGreaterThan(5);
  });
});

describe("batches", () => {
  verifies("client.batches", "are created from lines, read, cancelled and retried", async () => {
    const client = clientOf(service());
    const lines = [
      { id: "a", input: { n: 1 }, priority: 60, tags: ["x"], maxAttempts: 2 },
      { id: 7, input: { n: -7 } },
    ];
    const batch = await client.batches.create<number>("app", lines, { function: "double", tags: ["all"] });
    const [first, second] = await listOf(batch.results());
    expect(first).toMatchObject({ id: "a", index: 0, status: "success", result: 2, error: null });
    expect(second).toMatchObject({ id: 7, index: 1, status: "failure", error: { code: "app_error" } });
    expect(await client.app("app").find(first!.runId!).record()).toMatchObject({
      priority: 60,
      maxAttempts: 2,
      tags: ["all", "x"],
    });
    expect(await batch.record()).toMatchObject({ status: "completed", total: 2, succeeded: 1, failed: 1 });
    expect(await batch.cancel()).toBe(false);
    const again = await batch.retry();
    const [retried] = await listOf(again.results({ order: "finished" }));
    expect([again.app, retried]).toEqual(["app", expect.objectContaining({ id: 7, status: "failure" })]);
    const gate = newGate();
    const held = await client.batches.create("app", [{ input: { gate } }], { function: "held" });
    expect(await listOf(held.results({ wait: false }))).toEqual([]);
    expect(await held.cancel()).toBe(true);
    expect((await listOf(client.batches.find("app", held.id).results()))[0]!.error).toBeInstanceOf(Cancelled);
    await expect(client.batches.create("app", [])).rejects.toThrow("no lines");
    expect((await newest(client)).id).toBe(held.id);
  });
});

verifies("client.spawn", "spawn gives a run whose get gives its value", async () => {
  const client = clientOf(service());
  const run = await client.spawn<number>("app", { n: 4 }, { function: "double" });
  expect([await run.get(), await run.cancel()]).toEqual([8, false]);
  const held = await client.app("app").spawn({ gate: newGate() }, { function: "held" });
  expect(await held.cancel()).toBe(true);
  await expect(held.get()).rejects.toThrow(Cancelled);
});
