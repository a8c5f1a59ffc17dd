import { readFileSync, statSync } from "node:fs";
import path from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect } from "vitest";
import { runtimeDir } from "../../../src/kit/runtime-dir.ts";
import { controlSocketPath } from "../../../src/management/control-socket.ts";
import { MILLRACE, bootstrap, run, scratchDirectory, serve } from "../../support/command-line.ts";
import { testService } from "../../support/service.ts";
import { verifies } from "../../verifies.ts";

const modeOf = (file: string): string => (statSync(file).mode & 0o777).toString(8);

verifies(
  ["bootstrap.once", "bootstrap.again", "bootstrap.service-down", "bootstrap.token-file"],
  "bootstrap makes one project and one owner, and prints the same ones at every call",
  async () => {
    const dataDir = path.join(scratchDirectory(), "data");
    const [first, second] = [await bootstrap(dataDir), await bootstrap(dataDir)];
    expect(second).toEqual(first);
    const { project_id: projectId, token } = first.fields;
    expect(projectId).toMatch(/^p-[a-z0-9]{8}$/);
    // For the owner's eyes alone.
    const file = path.join(dataDir, "owner-token");
    expect(readFileSync(file, "utf8")).toBe(`${token}\n`);
    expect([modeOf(file), modeOf(dataDir)]).toEqual(["600", "700"]);

    const { service } = await testService({}, { dataDir });
    const answer = await fetch(`${service.apiUrl}/v4/${projectId}/none/run`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}` },
    });
    expect(await answer.json()).toMatchObject({ code: "app_not_found" });
    await service.stop();

    const database = new DatabaseSync(path.join(dataDir, "millrace.db"), { readOnly: true });
    const count = (table: string): unknown =>
      database.prepare(`select count(*) as n from ${table}`).get()?.["n"];
    expect([count("projects"), count("service_accounts"), count("tokens")]).toEqual([1, 1, 1]);
    database.close();
  },
);

verifies(
  ["bootstrap.shape", "settings.public-urls"],
  "bootstrap --json prints one line with exactly four members, the public addresses among them",
  async () => {
    const dataDir = path.join(scratchDirectory(), "data");
    const { line, fields } = await bootstrap(dataDir);
    expect(line).toBe(`${JSON.stringify(fields)}\n`);
    expect(Object.keys(fields)).toEqual(["project_id", "token", "api_url", "base_url"]);

    const publicUrls = {
      MILLRACE_PUBLIC_API_URL: "https://api.example.com/",
      MILLRACE_PUBLIC_BASE_URL: "https://base.example.com",
    };
    const expected = { ...fields, api_url: "https://api.example.com", base_url: "https://base.example.com" };
    expect((await bootstrap(dataDir, publicUrls)).fields).toEqual(expected);
    const flags = { publicApiUrl: expected.api_url, publicBaseUrl: expected.base_url };
    const { service } = await testService({}, { dataDir, ...flags });
    // Asked without them: the service, which has them, is the one that answers.
    expect((await bootstrap(dataDir)).fields).toEqual(expected);
    await service.stop();

    const plain = await run(MILLRACE, ["bootstrap", "--host", "::1"], {
      env: { MILLRACE_DATA_DIR: dataDir },
    });
    expect(plain.stdout).toBe(
      `project_id  ${fields.project_id}\ntoken       ${fields.token}\n` +
        "api_url     http://[::1]:4000\nbase_url    http://[::1]:4100\n",
    );
  },
);

verifies(
  "bootstrap.service-up",
  "with the service up bootstrap asks it over a socket that only the owner can use",
  async () => {
    const dataDir = path.join(scratchDirectory(), "data");
    const { service } = await testService({}, { dataDir });
    const { fields } = await bootstrap(dataDir);
    // Any free ports: nobody but the service itself knows them.
    expect([fields.api_url, fields.base_url]).toEqual([service.apiUrl, service.baseUrl]);
    const socket = controlSocketPath(runtimeDir(dataDir));
    expect([modeOf(socket), modeOf(path.dirname(socket))]).toEqual(["600", "700"]);
    await service.stop();
    expect(() => statSync(path.dirname(socket))).toThrow("ENOENT");
  },
);

verifies(
  "bootstrap.service-down",
  "after kill -9 of the service the socket it left behind misleads nobody",
  async () => {
    const dataDir = path.join(scratchDirectory(), "data");
    const { command } = await serve(dataDir);
    const { fields } = await bootstrap(dataDir);
    command.signal("SIGKILL");
    await command.exited;
    expect(statSync(controlSocketPath(runtimeDir(dataDir))).isSocket()).toBe(true);
    const again = await bootstrap(dataDir);
    expect(again.fields).toEqual({
      ...fields,
      api_url: "http://127.0.0.1:4000",
      base_url: "http://127.0.0.1:4100",
    });
  },
);
