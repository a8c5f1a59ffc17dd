import { readdir } from "node:fs/promises";
import { expect } from "vitest";
import { testDatabases } from "../../support/databases.ts";
import { remoteService, untilCleared } from "../../support/remote/remote-service.ts";
import { openStream } from "../../support/stream-reader.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();

const APP = {
  main: `
import os, sys, time
def run(x=1):
    print("x is", x)
    return {"x": x, "pid": os.getpid(), "secret": os.environ.get("KEY"), "home": os.environ["PERSISTENT_STORAGE"]}
def ticks(count):
    for number in range(count):
        yield {"n": number}
def big(size):
    return "x" * size
def size(text):
    return len(text)
def wait(name):
    open(os.environ["PERSISTENT_STORAGE"] + "/" + name, "w").close()
    while True:
        time.sleep(0.01)
def parent():
    return os.environ.get("MILLRACE_TICKET", "none")
`,
  toml: "[scaling]\nmax_replicas = 3\n",
};

verifies(["seats.same", "seats.relay"], "an app in a seat elsewhere answers as everywhere", async () => {
  const { on, place, folder } = await remoteService(databases, { app: APP });
  const first = await on.call("app", { x: 2 ** 53 });
  expect(first.json).toMatchObject({ result: { x: 2 ** 53 } });
  expect(place.seats).toHaveLength(1);
  expect(await readdir(folder)).toHaveLength(1);

  const text = "y".repeat(3_000_000);
  const length = await on.call("app", { text }, { functionName: "size" });
  expect(length.json.result).toBe(3_000_000);
  const big = await on.call("app", { size: 3_000_000 }, { functionName: "big" });
  expect(big.json.result).toHaveLength(3_000_000);

  await until("what it printed is in the log", () =>
    on.logs.some(({ text: line }) => line.startsWith("x is")),
  );
  expect(on.logs.find(({ text: line }) => line.startsWith("x is"))?.runId).not.toBeNull();

  const stream = openStream(on, "app", { count: 2_000 }, { functionName: "ticks" });
  await stream.ended();
  expect(stream.messages).toHaveLength(2_000);
  expect(place.words).toEqual([]);
  await on.service.stop();
  await untilCleared(folder);
});
