import { rmSync } from "node:fs";
import { mkdtemp, readdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { onTestFinished } from "vitest";
import type { testDatabases } from "../databases.ts";
import { assertNothingLeft } from "../leak-check.ts";
import { type TestApp, type TestService, testService, type TestServiceOptions } from "../service.ts";
import { until } from "../until.ts";
import type { ImageBuilds } from "../../../src/engines/build-seats.ts";
import { LocalPlace } from "./local-place.ts";

export type RemoteService = {
  readonly on: TestService;
  readonly place: LocalPlace;
  /** Where agents keep their files. */
  readonly folder: string;
};

export type RemoteOptions = {
  readonly graceMs?: number;
  readonly flags?: Record<string, unknown>;
  /** Others use the machine of its seats too. */
  readonly isShared?: boolean;
  readonly options?: TestServiceOptions;
  /** Environments are built there, too. */
  readonly builds?: boolean;
  /** Images are built there, too. */
  readonly images?: ImageBuilds;
};

/** A service whose replicas run in seats elsewhere, as far as it knows. Nothing of a seat may be left after the test. */
export async function remoteService(
  databases: ReturnType<typeof testDatabases>,
  apps: Record<string, TestApp>,
  {
    graceMs = 30_000,
    flags = {},
    isShared = false,
    options = {},
    builds = false,
    images,
  }: RemoteOptions = {},
): Promise<RemoteService> {
  const { databaseUrl } = await databases.fresh("postgres");
  const folder = await seatFolder();
  const place = new LocalPlace({ folder, isShared, builds, ...(images && { images }) });
  const on = await testService(apps, { databaseUrl, ...flags }, { ...options, seats: { place, graceMs } });
  return { on, place, folder };
}

/** A folder for agents, which they leave empty. */
export async function seatFolder(): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), "millrace-seats-"));
  onTestFinished(async () => {
    await assertNothingLeft(folder);
    rmSync(folder, { recursive: true, force: true });
  });
  return folder;
}

/** Waits until no agent has left anything there. */
export async function untilCleared(folder: string): Promise<void> {
  await until("every agent has removed its files", async () => (await readdir(folder)).length === 0);
}
