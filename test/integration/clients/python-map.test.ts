import { describe, expect } from "vitest";
import { findPythons } from "../../support/pythons.ts";
import { sharedService } from "../../support/shared-service.ts";
import { verifies } from "../../verifies.ts";
import { CuttingProxy, randomCuts, randomFrom } from "./cutting-proxy.ts";
import { inPython, MAP_MAIN, newGate } from "./site.ts";

const service = sharedService({ app: { main: MAP_MAIN, toml: "[scaling]\nmax_replicas = 2\n" } });

describe.each(findPythons())("Python $version", ({ command }) => {
  const python = async (program: string, url?: string): Promise<unknown> =>
    await inPython(service(), program, url, command);

  verifies(
    "client.map",
    "map yields what the function returns for each input, in their order or not",
    async () => {
      const shown = await python(`
numbers = ({"n": n} for n in range(300))
show([
    list(millrace.map("app", numbers, function="double")) == [2 * n for n in range(300)],
    sorted(millrace.map("app", [{"n": 1}, {"n": 2}], function="double", ordered=False, tags=["t"])),
    list(millrace.map("app", [])),
    list(millrace.starmap("app", ["a", "b"], [(5, 3), (1, 9)], function="minus")),
    list(millrace.starmap("app", ["a", "b"], iter([(5, 3)]), function="minus")),
    millrace.for_each("app", [{"n": 1}, {"n": -1}], function="double", ignore_exceptions=True),
])`);
      expect(shown).toEqual([true, [2, 4], [], [2, -8], [2], null]);
    },
  );

  verifies("client.map.fairness", "the calls wait in the line that is named", async () => {
    const shown = await python(`
list(millrace.map("app", [{"n": 4}], function="double", fairness_key="customer-8"))
newest = next(millrace.batches.list("app"))
show([result.run_id for result in millrace.batches.find("app", newest["id"]).results()])`);
    const [runId] = shown as string[];
    expect((await service().ofRun("app", runId!)).json).toMatchObject({ fairnessKey: "customer-8" });
  });

  verifies("client.map.errors", "a call that fails ends a map, or its error is yielded", async () => {
    const shown = await python(`
def raised(call):
    try:
        call()
    except Exception as error:
        return [type(error).__name__, str(error)]
inputs = [{"n": 1}, {"n": -1}, {"n": 3}]
mixed = list(millrace.map("app", inputs, function="double", return_exceptions=True))
held = millrace.map("app", [{"n": 0}, {"gate": "${newGate()}"}], function="held")
failed = raised(lambda: next(held))
import time
while next(millrace.batches.list("app"))["status"] != "cancelled":
    time.sleep(0.02)
show([
    [mixed[0], type(mixed[1]).__name__, mixed[1].code, mixed[2]],
    raised(lambda: list(millrace.map("app", inputs, function="double"))),
    raised(lambda: millrace.for_each("app", inputs, function="double")),
    failed[0],
    raised(lambda: list(millrace.starmap("app", ["a"], [(1, 2)]))),
])`);
    const negative = ["AppFailed", "ValueError: -1 is negative"];
    const row = ["TypeError", "A row has 2 values for 1 parameters."];
    expect(shown).toEqual([[2, "AppFailed", "app_error", 6], negative, negative, "InvalidArguments", row]);
  });

  verifies(
    "client.map.large",
    "sends more than it holds as a stream, and raises what a generator raises",
    async () => {
      const shown = await python(`
def large(count, is_broken=False):
    for _ in range(count):
        yield {"value": "x" * 1000}
    if is_broken:
        raise OSError("out of inputs")
seen = []
for inputs, app in ((large(3000, True), "app"), (large(30000), "none")):
    try:
        list(millrace.map(app, inputs, function="echo"))
    except Exception as error:
        seen.append([type(error).__name__, str(error)])
seen.append(sum(len(text) for text in millrace.map("app", large(3000), function="echo", ordered=False)))
show(seen)`);
      const noApp = ["NotFound", expect.stringContaining("app")];
      expect(shown).toEqual([["OSError", "out of inputs"], noApp, 3_000_000]);
    },
  );

  verifies("client.batches", "batches are created from lines, read, cancelled and retried", async () => {
    const shown = await python(`
from datetime import timedelta
lines = [{"id": "a", "input": {"n": 1}, "priority": 60, "tags": ["x"], "max_attempts": 2}, {"id": 7, "input": {"n": -7}}]
batch = millrace.batches.create("app", lines, function="double", tags=["all"])
first, second = batch.results()
record = millrace.find("app", first.run_id).record()
again = batch.retry()
(retried,) = again.results(order="finished")
held = millrace.batches.create("app", [{"input": {"n": 1}, "delay": timedelta(hours=1)}], function="double")
seen = list(held.results(wait=False))
cancelled = [batch.cancel(), held.cancel()]
(late,) = millrace.batches.find("app", held.id).results()
try:
    millrace.batches.create("app", [])
except MillraceError as error:
    seen.append(str(error))
show([
    [first.id, first.index, first.status, first.result, first.error],
    [second.id, second.index, second.status, second.result, second.error.code],
    [record["priority"], record["maxAttempts"], record["tags"]],
    [batch.record()[name] for name in ("status", "total", "succeeded", "failed")],
    [retried.id, retried.status],
    cancelled,
    [late.status, type(late.error).__name__],
    seen,
])`);
    expect(shown).toEqual([
      ["a", 0, "success", 2, null],
      [7, 1, "failure", null, "app_error"],
      [60, 2, ["all", "x"]],
      ["completed", 2, 1, 1],
      [7, "failure"],
      [false, true],
      ["cancelled", "Cancelled"],
      ["The batch has no lines."],
    ]);
  });

  verifies("client.spawn", "spawn gives a run whose get gives its value", async () => {
    const shown = await python(`
run = millrace.spawn("app", {"n": 4}, function="double")
show([run.get(), run.cancel()])`);
    expect(shown).toEqual([8, false]);
  });
});

verifies(
  "client.map.broken",
  "a map in Python gives each result once, however often connections break",
  async () => {
    const proxy = await CuttingProxy.open(service().service.apiUrl, randomCuts(25, 3000, randomFrom(41)));
    const shown = await inPython(
      service(),
      `
inputs = [{"n": n} for n in range(300)]
show([
    sorted(millrace.map("app", inputs, function="double", ordered=ordered)) == [2 * n for n in range(300)]
    for ordered in (True, False)
])`,
      proxy.url,
    );
    expect(shown).toEqual([true, true]);
    expect(proxy.cuts).toBeGreaterThan(5);
  },
);
