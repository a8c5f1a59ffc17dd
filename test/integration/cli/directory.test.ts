import { readdirSync } from "node:fs";
import path from "node:path";
import { Client } from "pg";
import { expect } from "vitest";
import { runtimeDir } from "../../../src/kit/runtime-dir.ts";
import {
  MILLRACE,
  bootstrap,
  run,
  scratchDirectory,
  serve,
  serviceEnvironment,
} from "../../support/command-line.ts";
import { testDatabases } from "../../support/databases.ts";
import { testService } from "../../support/service.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();

verifies(
  "directory.one-process",
  "a second service on the same data directory exits and says why, and the first serves on",
  async () => {
    const dataDir = path.join(scratchDirectory(), "data");
    const { command, baseUrl } = await serve(dataDir);
    const second = await run(MILLRACE, ["serve"], { env: serviceEnvironment(dataDir) });
    expect(second).toEqual({
      code: 1,
      stdout: "",
      stderr:
        `millrace: the data directory ${dataDir} is in use by another Millrace (process ${command.pid}): ` +
        "stop that one, or choose another directory with MILLRACE_DATA_DIR\n",
    });
    expect((await fetch(`${baseUrl}/readyz`)).status).toBe(200);
    expect((await bootstrap(dataDir)).fields.base_url).toBe(baseUrl);
    await command.interrupt();
  },
);

verifies("directory.freed-by-death", "after kill -9 of a service the next one starts at once", async () => {
  const dataDir = path.join(scratchDirectory(), "data");
  const first = await serve(dataDir);
  const { fields } = await bootstrap(dataDir);
  first.command.signal("SIGKILL");
  expect(await first.command.exited).toBe("SIGKILL");
  const next = await serve(dataDir);
  expect((await bootstrap(dataDir)).fields.token).toBe(fields.token);
  await next.command.interrupt();
});

verifies(
  "directory.short-sockets",
  "an app in a data directory of any length answers, and no socket's path reaches 107 bytes",
  async () => {
    const deep = path.join(scratchDirectory(), "d".repeat(120), "e".repeat(120), "data");
    const test = await testService({ hello: { main: "def run():\n    return 1\n" } }, { dataDir: deep });
    expect((await test.call("hello")).json.result).toBe(1);
    const sockets = readdirSync(runtimeDir(deep)).map((name) => path.join(runtimeDir(deep), name));
    expect(sockets.map((socket) => path.basename(socket)).toSorted()).toEqual(["control.sock", "home.sock"]);
    for (const socket of sockets) expect(Buffer.byteLength(socket)).toBeLessThan(107);
  },
);

verifies(
  "directory.short-sockets",
  "a long TMPDIR or XDG_RUNTIME_DIR makes no socket's path longer",
  async () => {
    const directory = scratchDirectory();
    const long = path.join(directory, "x".repeat(200));
    const { command } = await serve(path.join(directory, "data"), { TMPDIR: long, XDG_RUNTIME_DIR: long });
    await command.interrupt();
  },
);

verifies(
  "settings.database.postgres",
  "with a postgres:// address the service keeps everything there and no database file of its own",
  async () => {
    const { databaseUrl } = await databases.fresh("postgres");
    const dataDir = path.join(scratchDirectory(), "data");
    const env = { MILLRACE_DATABASE_URL: databaseUrl ?? "" };
    const { command } = await serve(dataDir, env);
    expect(command.stderr).toContain('"store":"postgres"');
    const { fields } = await bootstrap(dataDir);
    await command.interrupt();
    expect((await bootstrap(dataDir, env)).fields.token).toBe(fields.token);

    expect(readdirSync(dataDir)).not.toContain("millrace.db");
    const client = new Client({ connectionString: databaseUrl ?? "" });
    await client.connect();
    const { rows } = await client.query("select id from projects");
    await client.end();
    expect(rows).toEqual([{ id: fields.project_id }]);
  },
);
