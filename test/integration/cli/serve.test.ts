import {
  accessSync,
  constants,
  readFileSync,
  readdirSync,
  realpathSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import path from "node:path";
import { expect, test } from "vitest";
import {
  MILLRACE,
  MILLRACE_OF_CLONE,
  Command,
  installed,
  listenersOn,
  run,
  scratchDirectory,
  serve,
} from "../../support/command-line.ts";
import { REPOSITORY } from "../../support/source-files.ts";
import { verifies } from "../../verifies.ts";

/** Addresses as /proc writes them. */
const LOOPBACK = "0100007F";
const LOOPBACK_2 = "0200007F";

const portOf = (url: string): number => Number(new URL(url).port);

/** Two ports that nothing listens on now. */
async function freePorts(): Promise<[number, number]> {
  const servers = [createServer(), createServer()];
  const ports = servers.map(async (server) => {
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return (server.address() as AddressInfo).port;
  });
  const [api = 0, base = 0] = await Promise.all(ports);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return [api, base];
}

verifies(
  "cli.own-node",
  "bin/millrace is executable and takes the repo's Node, through a link and whatever the PATH holds",
  async () => {
    accessSync(MILLRACE_OF_CLONE, constants.X_OK);
    const directory = scratchDirectory();
    writeFileSync(path.join(directory, "node"), "#!/bin/sh\necho an old one\nexit 99\n", { mode: 0o755 });
    symlinkSync(MILLRACE_OF_CLONE, path.join(directory, "millrace"));
    const env = { PATH: `${directory}:${process.env["PATH"]}` };
    const { version } = JSON.parse(readFileSync(path.join(REPOSITORY, "package.json"), "utf8")) as {
      version: string;
    };
    for (const program of [MILLRACE_OF_CLONE, path.join(directory, "millrace")]) {
      expect(await run(program, ["--version"], { env, cwd: directory })).toEqual({
        code: 0,
        stdout: `${version}\n`,
        stderr: "",
      });
    }
  },
);

verifies(
  ["cli.serve", "cli.serve.loopback-by-default", "settings.database.sqlite", "cli.own-node"],
  "serve starts the service without examples, on loopback, with SQLite in the data directory, on the repo's Node",
  async () => {
    const dataDir = path.join(scratchDirectory(), "data");
    const { command, apiUrl, baseUrl } = await serve(dataDir);
    const own = realpathSync(path.join(REPOSITORY, "node_modules/.bin/node"));
    expect(realpathSync(`/proc/${command.pid}/exe`)).toBe(own);
    for (const url of [apiUrl, baseUrl]) expect(listenersOn(portOf(url))).toEqual([LOOPBACK]);
    expect((await fetch(`${baseUrl}/readyz`)).status).toBe(200);
    const fields = await installed(dataDir);
    const answer = await fetch(`${apiUrl}/v4/${fields.project_id}/hello/run`, {
      method: "POST",
      headers: { authorization: `Bearer ${fields.token}` },
    });
    expect(await answer.json()).toMatchObject({ code: "app_not_found" });
    expect(`${command.stdout}${command.stderr}`).not.toContain("curl");
    expect(command.stderr).toContain('"store":"sqlite"');
    expect(readdirSync(dataDir)).toContain("millrace.db");
    expect(await command.interrupt()).toBe(0);
  },
);

verifies(
  ["settings.host", "settings.api-port", "settings.base-port"],
  "the host and both ports are those of the environment, and SIGTERM ends the service in order",
  async () => {
    const [apiPort, basePort] = await freePorts();
    const { command, apiUrl, baseUrl } = await serve(path.join(scratchDirectory(), "data"), {
      MILLRACE_HOST: "127.0.0.2",
      MILLRACE_API_PORT: String(apiPort),
      MILLRACE_BASE_PORT: String(basePort),
    });
    expect([apiUrl, baseUrl]).toEqual([`http://127.0.0.2:${apiPort}`, `http://127.0.0.2:${basePort}`]);
    expect([apiPort, basePort].map(listenersOn)).toEqual([[LOOPBACK_2], [LOOPBACK_2]]);
    expect((await fetch(`${baseUrl}/livez`)).status).toBe(200);
    expect((await fetch(apiUrl)).headers.get("x-request-id")).toMatch(/^[0-9a-f-]{36}$/);
    command.signal("SIGTERM");
    expect(await command.exited).toBe(0);
    // The whole of 127.0.0.0/8 is this machine: nothing to warn of.
    expect(command.stderr).not.toContain("REACHABLE FROM OTHER MACHINES");
  },
);

verifies("settings.data-dir", "the data directory is ./.millrace when nothing names another", async () => {
  const cwd = scratchDirectory();
  const { code } = await run(MILLRACE, ["bootstrap"], { cwd });
  expect(code).toBe(0);
  expect(readdirSync(cwd)).toEqual([".millrace"]);
  const named = await run(MILLRACE, ["bootstrap"], { cwd, env: { MILLRACE_DATA_DIR: "elsewhere" } });
  expect(named.code).toBe(0);
  expect(readdirSync(path.join(cwd, "elsewhere"))).toContain("millrace.db");
});

verifies(
  ["start.api-url", "start.base-url"],
  "the help names the ports 4000 and 4100, and these are the addresses given out",
  async () => {
    const help = (await run(MILLRACE, ["serve", "--help"])).stdout.replaceAll(/\s+/g, " ");
    expect(help).toContain(
      "Port of the app endpoints; 0 picks a free one. [MILLRACE_API_PORT, default 4000]",
    );
    expect(help).toContain("0 picks a free one. [MILLRACE_BASE_PORT, default 4100]");
    const fields = await installed(path.join(scratchDirectory(), "data"));
    expect(fields.api_url).toBe("http://127.0.0.1:4000");
    expect(fields.base_url).toBe("http://127.0.0.1:4100");
  },
);

verifies(
  "settings.all-problems",
  "serve names every bad setting at once on stderr and exits with 2, having made nothing",
  async () => {
    const cwd = scratchDirectory();
    const env = { MILLRACE_API_PORT: "many", MILLRACE_ISOLATION: "docker" };
    const { code, stdout, stderr } = await run(MILLRACE, ["serve", "--max-runs", "0"], { cwd, env });
    expect([code, stdout]).toEqual([2, ""]);
    for (const name of ["MILLRACE_API_PORT", "MILLRACE_ISOLATION", "--max-runs"])
      expect(stderr).toContain(name);
    expect(readdirSync(cwd)).toEqual([]);
  },
);

test("a port that is taken is told in one line, and nothing stays behind", async () => {
  const taken = createServer();
  await new Promise<void>((resolve) => taken.listen(0, "127.0.0.1", resolve));
  const { port } = taken.address() as AddressInfo;
  const dataDir = path.join(scratchDirectory(), "data");
  const args = ["serve", "--data-dir", dataDir, "--base-port", "0", "--api-port", String(port)];
  const command = new Command(MILLRACE, args);
  expect(await command.exited).toBe(1);
  expect(command.stderr).toMatch(/^millrace: .*EADDRINUSE.*--api-port and --base-port$/m);
  await new Promise((resolve) => taken.close(resolve));
  expect((await installed(dataDir)).token).toMatch(/^ey/);
});
