import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "vitest";
import { FileRuns, type FileToRun } from "../../../../src/runs/files/file-runs.ts";
import type { App } from "../../../../src/model/app.ts";
import { HandClock } from "../../../support/clocks.ts";
import { verifies } from "../../../verifies.ts";

verifies("shares.builds", "a project's files leave places to those of others", async () => {
  const dataDir = await mkdtemp(path.join(tmpdir(), "millrace-once-"));
  // Nothing arrives, so nothing else of the service is asked for.
  type Parts = ConstructorParameters<typeof FileRuns>[0];
  const runs = new FileRuns({ dataDir, clock: new HandClock() } as unknown as Parts);
  const { promise: never, reject: breakOff } = Promise.withResolvers<string | null>();
  never.catch(() => {});
  const receive = async (): Promise<string | null> => await never;
  const start = async (projectId: string): Promise<unknown> =>
    await runs
      .run({ projectId, number: 1 } as App, { fileName: "main.py", receive } as unknown as FileToRun)
      .catch((error: unknown) => error);
  const arriving = Array.from({ length: 16 }, () => start("p-one"));
  const full = { code: "queue_full" };
  expect(await start("p-one")).toMatchObject({
    ...full,
    message: expect.stringContaining("of this project"),
  });
  arriving.push(...Array.from({ length: 16 }, () => start("p-two")));
  expect(await start("p-three")).toMatchObject(full);
  breakOff(new Error("broken off"));
  for (const error of await Promise.all(arriving)) expect(error).toMatchObject({ message: "broken off" });
  // And every place was given back.
  expect(await start("p-one")).toMatchObject({ message: "broken off" });
  await rm(dataDir, { recursive: true, force: true });
});
