import { tmpdir } from "node:os";
import { expect } from "vitest";
import { AppError } from "../../../../src/model/errors.ts";
import { explainStart } from "../../../../src/store/upkeep/start-failure.ts";
import { verifies } from "../../../verifies.ts";

const HERE = { dataDir: tmpdir(), databaseUrl: null };

function said(error: unknown, place: Parameters<typeof explainStart>[1] = HERE): string {
  return (explainStart(error, place) as Error).message;
}

verifies("start.no-room", "a start without room names the directory, the cause and what to do", () => {
  const full = new Error("SQLite: database or disk is full (code 13)");
  for (const error of [
    new AppError("storage_unavailable", {}, full),
    new AppError("in_doubt", {}, full),
    Object.assign(new Error("database or disk is full"), { errcode: 13 }),
    Object.assign(new Error("ENOSPC: no space left on device, write"), { code: "ENOSPC" }),
  ]) {
    const message = said(error);
    expect(message).toMatch(/^cannot write to .* \(\d+ MB free\): .*(?:full|no space)/);
    expect(message).toContain(`cannot write to ${HERE.dataDir} (`);
    expect(message).toMatch(/: make room on that disk, or move .* set MILLRACE_DATA_DIR$/);
  }
});

verifies(
  "start.no-room",
  "other faults of the storage have remedies of their own; what is no such fault stays",
  () => {
    const readOnly = Object.assign(new Error("attempt to write a readonly database"), { errcode: 8 });
    expect(said(readOnly)).toContain("make that disk writable");
    const lost = new AppError("storage_unavailable", {}, new Error("terminating connection"));
    expect(said(lost, { ...HERE, databaseUrl: "postgres://db/millrace" })).toBe(
      "the Postgres database cannot be used: terminating connection: check the log of the Postgres server, then start again",
    );
    const taken = Object.assign(new Error("listen EADDRINUSE"), { code: "EADDRINUSE" });
    expect(explainStart(taken, HERE)).toBe(taken);
  },
);
