import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { installed, scratchDirectory } from "../../support/command-line.ts";
import { requireJudged, requireOffered } from "../../support/walls/walled.ts";
import { verifies } from "../../verifies.ts";
import { doctor } from "../../integration/doctor/ask-doctor.ts";

test("a newer schema, a run from the future, a forged audit entry and a damaged file are each found", async () => {
  const dataDir = path.join(scratchDirectory(), "data");
  const fields = await installed(dataDir);
  const file = path.join(dataDir, "millrace.db");
  const database = new DatabaseSync(file);
  const later = Date.now() + 3_600_000;
  database.exec(`
    insert into migrations (name, timestamp) values ('9999-from-the-future', '');
    insert into audit_entries (number, created_at, entry, hash) values (1, 0, '{}', zeroblob(32));
    insert into apps (project_id, name, created_at, updated_at) values ('${fields.project_id}', 'app', 0, 0);
    insert into runs (app_number, id, version_id, function_name, method, is_async, state, attempt, created_at,
      updated_at, webhook_state) values (1, zeroblob(16), zeroblob(16), 'run', 'POST', 0, 2, 1, ${later}, 0, 0);
  `);
  database.close();
  const newer = await doctor(dataDir);
  expect([newer.code, newer.of("schema")?.status, newer.of("clock")?.status]).toEqual([1, "fail", "warn"]);
  expect(newer.of("audit log")).toMatchObject({
    status: "fail",
    message: "the hash chain breaks at entry 1: an entry was changed or removed",
  });

  const bytes = readFileSync(file);
  bytes.fill(0xaa, 4096, 40_960);
  writeFileSync(file, bytes);
  const damaged = await doctor(dataDir);
  expect([damaged.code, damaged.of("database")?.status]).toEqual([1, "fail"]);
});

verifies(
  "operations.doctor",
  "the sandbox is well where the host gives what is asked for, and else it is said what could be",
  async (context) => {
    await requireOffered("process", context);
    const dataDir = path.join(scratchDirectory(), "data");
    await installed(dataDir, {});
    const at = async (level: string) => (await doctor(dataDir, { MILLRACE_ISOLATION: level })).of;
    const [asked, strongest, none] = [await at("process"), await at("auto"), await at("none")];
    expect(asked("sandbox")).toMatchObject({
      status: "ok",
      message: expect.stringMatching(/^(process$|.* \(at least process is required\)$)/),
    });
    expect(strongest("sandbox")).toMatchObject({
      status: "ok",
      message: expect.stringMatching(/^(process|landlock|userns|uid)$/),
    });
    expect(none("sandbox")).toMatchObject({
      status: "warn",
      remedy: expect.stringMatching(
        /^set MILLRACE_ISOLATION=auto, which gives (process|landlock|userns|uid) on this host/,
      ),
    });
    expect(none("network")).toMatchObject({
      status: "warn",
      message: expect.stringMatching(/^not enforced: .* MILLRACE_ISOLATION/),
    });
    await requireJudged("process", context);
    expect(asked("network")).toMatchObject({ status: "ok" });
  },
);
