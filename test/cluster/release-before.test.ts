import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, expect, onTestFinished } from "vitest";
import { KNOWN_MIGRATIONS } from "../../src/store/migrate.ts";
import { openStore } from "../../src/store/store.ts";
import { Command, serviceEnvironment } from "../support/command-line.ts";
import { testDatabases } from "../support/databases.ts";
import { makeOldInstallation } from "../support/old-release.ts";
import { REPOSITORY } from "../support/source-files.ts";
import { ISOLATION } from "../support/test-settings.ts";
import { until } from "../support/until.ts";
import { verifies } from "../verifies.ts";

/** The first migration that the release before does not know. */
const FIRST_NEW = "0014-nodes";

const databases = testDatabases();
const commit = releaseBefore();

/** The commit before that migration came; null without the history. */
function releaseBefore(): string | null {
  const file = `src/store/migrations/${FIRST_NEW}.ts`;
  try {
    const added = git("log", "-1", "--format=%H", "--diff-filter=A", "--", file).toString().trim();
    return git("rev-parse", `${added}^`).toString().trim();
  } catch {
    return null;
  }
}

function git(...args: string[]): Buffer {
  return execFileSync("git", args, {
    cwd: REPOSITORY,
    maxBuffer: 1e9,
    stdio: ["ignore", "pipe", "ignore"],
  });
}

/** Its sources, with the packages that are here. */
function checkOut(of: string): string {
  const folder = mkdtempSync(path.join(tmpdir(), "millrace-release-before-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  execFileSync("tar", ["-x", "-C", folder], { input: git("archive", of) });
  symlinkSync(path.join(REPOSITORY, "node_modules"), path.join(folder, "node_modules"));
  return folder;
}

describe.skipIf(commit === null)(
  `the release before${commit === null ? " (SKIPPED: no git history)" : ""}`,
  () => {
    verifies("upgrade.release-before", "serves on, and its runs end, while the schema changes", async () => {
      const folder = checkOut(commit!);
      const database = await databases.empty("postgres");
      const main = "def run(n):\n    return n + 1\n";
      const before = KNOWN_MIGRATIONS[KNOWN_MIGRATIONS.indexOf(FIRST_NEW) - 1] as "0013-run-traffic";
      const { projectId } = await makeOldInstallation(database, before, main);
      const { dataDir, databaseUrl } = database;
      const env = {
        ...serviceEnvironment(dataDir),
        MILLRACE_ISOLATION: ISOLATION,
        MILLRACE_DATABASE_URL: databaseUrl!,
      };
      const service = new Command(path.join(folder, "bin", "millrace"), ["serve"], { env });
      const [line] = await service.printed(/^.*"millrace is up".*$/m);
      const { apiUrl, baseUrl } = JSON.parse(line) as { apiUrl: string; baseUrl: string };
      const token = readFileSync(path.join(dataDir, "owner-token"), "utf8").trim();
      const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
      const ask = async (url: string, init: RequestInit = {}) => {
        const response = await fetch(url, { ...init, headers });
        return { status: response.status, json: (await response.json()) as Record<string, unknown> };
      };
      const appUrl = `${apiUrl}/v4/${projectId}/app`;
      const call = async (n: number, query = "") =>
        await ask(`${appUrl}/run${query}`, { method: "POST", body: JSON.stringify({ n }) });
      const look = async () => await ask(`${baseUrl}/v2/projects/${projectId}/apps`);
      const everything = async (n: number): Promise<void> => {
        expect(await call(n)).toMatchObject({ status: 200, json: { result: n + 1 } });
        expect(await look()).toMatchObject({ status: 200 });
        const accepted = await call(n, "?async=true");
        expect(accepted.status).toBe(202);
        const id = String(accepted.json["run_id"] ?? accepted.json["id"]);
        await until("its run ends", async () => {
          const { json } = await ask(`${appUrl}/runs/${id}`);
          return json["status"] === "success";
        });
      };
      // Every connection has prepared what it asks for.
      for (let n = 0; n < 5; n += 1) await everything(n);
      const store = await openStore(database);
      onTestFinished(() => store.close());
      expect(await store.meta.migrations()).toEqual(KNOWN_MIGRATIONS);
      // A session that was ended may be found out by who asks next: that is a 503, and never more than that.
      const statuses: number[] = [];
      await until(
        "its sessions are new",
        async () => statuses.push((await look()).status) > 0 && statuses.at(-1) === 200,
      );
      expect(statuses.filter((status) => status !== 200 && status !== 503)).toEqual([]);
      for (let n = 5; n < 15; n += 1) await everything(n);
      process.kill(service.pid, "SIGTERM");
      expect(await service.exited).toBe(0);
    });
  },
);
