import { statfsSync } from "node:fs";
import { tmpdir } from "node:os";
import { expect } from "vitest";
import { checkDisk } from "../../../../../src/cli/operator/doctor/data-checks.ts";
import { readSettings } from "../../../../../src/config/settings.ts";
import type { DatabaseReport } from "../../../../../src/store/upkeep/report.ts";
import { verifies } from "../../../../verifies.ts";

const dataDir = tmpdir();
const settingsWith = (flags: Record<string, unknown>) =>
  readSettings({ flags: { dataDir, ...flags }, env: {} }).settings;

verifies("doctor.reserve", "with Postgres no async run is refused for want of room here", async () => {
  const flags = { diskReserve: "1000TB" };
  expect((await checkDisk(settingsWith(flags), null)).status).toBe("fail");
  const databaseUrl = "postgres://localhost/millrace";
  expect((await checkDisk(settingsWith({ ...flags, databaseUrl }), null)).status).toBe("ok");
});

verifies("doctor.reserve", "room inside the database counts as it does in the service", async () => {
  const { bavail, bsize } = statfsSync(dataDir);
  const settings = { ...settingsWith({}), diskReserveBytes: 2 * bavail * bsize };
  const report = { freeBytes: 10 * bavail * bsize } as DatabaseReport;
  expect((await checkDisk(settings, { ...report, freeBytes: 0 })).status).toBe("fail");
  expect((await checkDisk(settings, report)).status).toBe("ok");
});
