import { readdirSync } from "node:fs";
import path from "node:path";
import { Client } from "pg";
import { expect } from "vitest";
import { runtimeDir } from "../../../src/kit/runtime-dir.ts";
import {
  MILLRACE,
  installed,
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
    const { service } = await testService({}, { dataDir });
    const second = await run(MILLRACE, ["serve"], { env: serviceEnvironment(dataDir) });
    expect(second).toEqual({
      code: 1,
      stdout: "",
      stderr:
        `millrace: the data directory ${dataDir} is in use by another Millrace (process ${process.pid}): ` +
        "stop that one, or choose another directory with MILLRACE_DATA_DIR\n",
    });
    expect((await fetch(`${service.baseUrl}/readyz`)).status).toBe(200);
    expect((await installed(dataDir)).base_url).toBe(service.baseUrl);
  },
);

verifies(
  ["directory.freed-by-death", "directory.short-sockets"],
  "a service in a long TMPDIR and XDG_RUNTIME_DIR answers, and after its kill -9 the next one starts",
  async () => {
    const directory = scratchDirectory();
    const dataDir = path.join(directory, "data");
    const long = path.join(directory, "x".repeat(200));
    const first = await serve(dataDir, { TMPDIR: long, XDG_RUNTIME_DIR: long });
    // Over its socket, which is where it is for who has neither.
    const { base_url: baseUrl, token } = await installed(dataDir);
    expect(baseUrl).toBe(first.baseUrl);
    first.command.signal("SIGKILL");
    expect(await first.command.exited).toBe("SIGKILL");
    const { service } = await testService({}, { dataDir });
    expect(service.owner.token).toBe(token);
  },
);

verifies(
  "directory.short-sockets",
  "an app in a data directory of any length answers, and no socket's path reaches 107 bytes",
  async () => {
    const deep = path.join(scratchDirectory(), "d".repeat(120), "e".repeat(120), "data");
    const test = await testService({ hello: { main: "def run():\n    return 1\n" } }, { dataDir: deep });
    expect((await test.call("hello")).json.result).toBe(1);
    const sockets = readdirSync(runtimeDir(deep)).map((name) => path.join(runtimeDir(deep), name));
    expect(sockets.map((socket) => path.basename(socket)).toSorted()).toEqual([
      "control.key",
      "control.sock",
      "home.sock",
    ]);
    for (const socket of sockets) expect(Buffer.byteLength(socket)).toBeLessThan(107);
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
    const fields = await installed(dataDir);
    await command.interrupt();
    expect((await installed(dataDir, env)).token).toBe(fields.token);

    expect(readdirSync(dataDir)).not.toContain("millrace.db");
    const client = new Client({ connectionString: databaseUrl ?? "" });
    await client.connect();
    const { rows } = await client.query("select id from projects");
    await client.end();
    expect(rows).toEqual([{ id: fields.project_id }]);
  },
);
