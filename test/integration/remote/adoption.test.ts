import { expect } from "vitest";
import { testDatabases } from "../../support/databases.ts";
import { isAlive } from "../../support/process-tree.ts";
import { SeatSite } from "../../support/remote/seat-site.ts";
import type { SeatService } from "../../support/remote/seat-site.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();
/** Who has imported it: the template, which forks replicas. */
const MAIN = `
import os, time
BORN = os.getpid()
print("imported")
def run():
    return [BORN, os.getpid()]
def wait(seconds):
    time.sleep(seconds)
    return BORN
def hold(folder):
    open(os.path.join(folder, "in-%d" % os.getpid()), "w").close()
    while not os.path.exists(os.path.join(folder, "go")):
        time.sleep(0.005)
    return os.getpid()
`;
const APP = { main: MAIN, toml: "[scaling]\nmax_replicas = 2\n" };

type Born = readonly [template: number, replica: number];

async function bornOf(service: SeatService): Promise<Born> {
  const { status, json } = await service.call();
  expect([status, json.result]).toEqual([200, [expect.any(Number), expect.any(Number)]]);
  return json.result as Born;
}

/** Whether the next service goes on in the seat of the one before. */
async function goesOn(before: Born, after: SeatService): Promise<void> {
  const [template, replica] = await bornOf(after);
  expect(template).toBe(before[0]);
  expect(replica).not.toBe(before[1]);
  // What it had forked for the one before has ended.
  expect(isAlive(before[1])).toBe(false);
  const { begun, adopted } = await after.agents();
  expect([begun, adopted]).toEqual([[], [expect.any(Number)]]);
}

verifies(
  "seats.restart",
  "kill -9 of the service: the next one goes on in its seat, again and again",
  async () => {
    const site = await SeatSite.make(databases, APP);
    let service = await site.start(true);
    const first = await bornOf(service);
    const [agent = 0] = (await service.agents()).begun;
    for (let last = first, n = 0; n < 2; n += 1) {
      await service.kill();
      service = await site.start(false);
      await goesOn(last, service);
      last = await bornOf(service);
      expect((await service.agents()).adopted).toEqual([agent]);
    }
    // It is as good as one of its own: it forks more, and ends with the service.
    const held = await Promise.all([service.call("wait", { seconds: 0.2 }), service.call()]);
    expect(held.map(({ status }) => status)).toEqual([200, 200]);
    await service.stop();
    await until("its agent has ended", () => !isAlive(agent));
    expect(isAlive(first[0])).toBe(false);
  },
);
