import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished, type TestContext } from "vitest";
import { systemClock } from "../../src/kit/clock.ts";
import { faultDice } from "../support/dice.ts";
import { DiskLoad, diskApp } from "../support/disk-load.ts";
import { explains } from "../support/explain.ts";
import { FAULT_LENGTH } from "../support/fault-length.ts";
import { expectIntact } from "../support/intact-database.ts";
import { KillableService } from "../support/killable-service.ts";
import { Ledger } from "../support/ledger.ts";
import { CannotMountError, SmallDisk } from "../support/small-disk.ts";
import { until } from "../support/until.ts";
import { verifies } from "../verifies.ts";

const MB = 1_000_000;
const MINUTES = FAULT_LENGTH === "full" ? 10 : 3;
const DISK_BYTES = 400 * MB;
const RESTS = { fullMs: 5_000, emptyMs: 10_000 };
const RESERVE_BYTES = DISK_BYTES / 8;
const EVERY_MS = 10_000;

verifies(
  "show.small-disk",
  `apps print, stream, store and deploy for ${MINUTES} minutes on a disk of ${DISK_BYTES / MB} MB, beyond its size`,
  async (context) => {
    const disk = mounted(context);
    const ledgerDir = mkdtempSync(path.join(tmpdir(), "millrace-ledger-"));
    onTestFinished(() => rmSync(ledgerDir, { recursive: true, force: true }));
    const dataDir = path.join(disk.directory, "data");
    mkdirSync(dataDir, { mode: 0o700 });
    const database = { databaseUrl: null, dataDir };
    const env = { MILLRACE_DISK_RESERVE: `${RESERVE_BYTES}B` };
    const service = await KillableService.deploy(database, diskApp(ledgerDir), env);
    expect(await service.start()).toBe(true);
    const { pid } = service.command;
    const load = new DiskLoad(service, disk, faultDice(), RESTS);
    onTestFinished(explains(() => figures(load)));
    let isTime = false;
    const timer = systemClock.after(MINUTES * 60_000, () => (isTime = true));
    const watch = systemClock.every(EVERY_MS, () => report(service, load, disk));
    onTestFinished(() => [timer, watch].forEach((each) => each.cancel()));
    const running = load.run();
    await until("the disk was written over, and was full and empty in turns", () => {
      const isEnough = load.writtenBytes > DISK_BYTES && load.returns > 0 && load.fulls > 0;
      return (isTime && isEnough) || load.calls.faults.length > 0;
    });
    load.finish();
    await running;
    await load.letGo();
    expect(load.calls.faults).toEqual([]);
    expect(load.syncWhileRefused).toBeGreaterThan(0);
    const named = [...load.calls.refused.values()].flatMap((message) => {
      const [, free, kept] =
        /has (\d+) MB free, but (\d+) MB must stay free.*MILLRACE_DISK_RESERVE/.exec(message) ?? [];
      return kept === undefined ? [] : { message, isTrue: Number(free) <= Number(kept) };
    });
    expect(named.length).toBeGreaterThan(0);
    expect(named.filter(({ isTrue }) => !isTrue)).toEqual([]);
    await expectAllEnded(service, load, ledgerDir);
    await until("async runs are taken again", async () => {
      const before = load.calls.accepted.size;
      await load.submit();
      return load.calls.accepted.size > before;
    });
    const { success } = load.deploys;
    await load.deploy();
    expect(load.deploys.success).toBe(success + 1);
    expect(service.command.pid).toBe(pid);
    expect((await fetch(`${service.baseUrl}/readyz`)).status).toBe(200);
    console.log(`${disk.kind}: ${figures(load)}`);
    await service.stop();
    expectIntact(path.join(dataDir, "millrace.db"));
  },
  FAULT_LENGTH === "full" ? 2_400_000 : 1_200_000,
);

function mounted(context: TestContext): SmallDisk {
  try {
    return SmallDisk.mount(DISK_BYTES);
  } catch (error) {
    if (!(error instanceof CannotMountError)) throw error;
    console.warn(`A FULL DISK IS NOT TESTED ON THIS MACHINE, which lets nobody mount one: ${error.message}`);
    return context.skip(error.message);
  }
}

/** Every run that was accepted has ended well, once; none that was refused was ever executed. */
async function expectAllEnded(service: KillableService, { calls }: DiskLoad, ledgerDir: string) {
  for (const id of [...calls.accepted.keys(), ...calls.answered]) {
    expect(await service.ended(id)).toMatchObject({ id, status: "success", statusCode: 200 });
  }
  const ledger = Ledger.read({ storageDir: ledgerDir });
  const counts = (ids: Iterable<string>) => [...ids].map((id) => [id, ledger.begun(id), ledger.ended(id)]);
  const executed = [...calls.accepted.keys(), ...calls.answered];
  expect(counts(executed).filter(([, begun, ended]) => begun !== 1 || ended !== 1)).toEqual([]);
  expect(counts(calls.refused.keys()).filter(([, begun]) => begun !== 0)).toEqual([]);
}

/** What a service logs of its apps' lines would fill this process's memory. */
function report(service: KillableService, load: DiskLoad, disk: SmallDisk): void {
  service.command.stderr = service.command.stderr.slice(-100_000);
  console.log(`${Math.floor(disk.freeBytes / MB)} MB free, ${figures(load)}`);
}

function figures({ calls, ...load }: DiskLoad): string {
  const { accepted, refused, inDoubt, faults } = calls;
  return JSON.stringify({
    writtenMB: Math.floor(load.writtenBytes / MB),
    leastFreeMB: Math.floor(load.leastFreeBytes / MB),
    syncCalls: load.syncCalls,
    syncWhileRefused: load.syncWhileRefused,
    slowestSyncMs: Math.round(load.slowestMs),
    accepted: accepted.size,
    refused: refused.size,
    refusedByReserve: [...refused.values()].filter((message) => message.includes("must stay free")).length,
    inDoubt: inDoubt.size,
    refusals: load.refusals,
    returns: load.returns,
    fulls: load.fulls,
    streams: load.streams,
    deploys: load.deploys,
    faults: faults.slice(0, 3),
  });
}
