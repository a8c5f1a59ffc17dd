import { expect, test } from "vitest";
import { sharedService } from "../../support/shared-service.ts";
import { openStream } from "../../support/stream-reader.ts";

/** Nobody passes before all are there: it shows that they run at the same time, in one process. */
const MAIN = `
import asyncio
import os

PRESENT = 0
ALL_HERE = asyncio.Event()

async def run(name, wanted, messages):
    global PRESENT
    PRESENT += 1
    yield {"name": name, "pid": os.getpid()}
    if PRESENT == wanted:
        ALL_HERE.set()
    await ALL_HERE.wait()
    for number in range(messages):
        yield "%s %d" % (name, number)
        await asyncio.sleep(0)
`;

const service = sharedService({
  app: { main: MAIN, toml: "[scaling]\nmax_replicas = 1\nreplica_concurrency = 250\n" },
});

test("200 async generators stream at once from one replica, each to its own reader", async () => {
  const readers = Array.from({ length: 200 }, (_, place) =>
    openStream(
      service(),
      "app",
      { name: `s${place}`, wanted: 200, messages: 10 },
      { headers: place % 2 === 0 ? {} : { "accept-encoding": "gzip" } },
    ),
  );
  const pids = new Set<number>();
  for (const [place, reader] of readers.entries()) {
    await reader.ended();
    const [first = "{}", ...rest] = reader.data;
    const { name, pid } = JSON.parse(first) as { name: string; pid: number };
    pids.add(pid);
    expect(name).toBe(`s${place}`);
    expect(rest).toEqual(Array.from({ length: 10 }, (_, number) => `s${place} ${number}`));
    expect(reader.isWhole).toBe(true);
    reader.leave();
  }
  expect(pids.size).toBe(1);
});
