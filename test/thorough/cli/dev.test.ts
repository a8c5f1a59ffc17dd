import { appendFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { runtimeDir } from "../../../src/kit/runtime-dir.ts";
import { type Command, run } from "../../support/command-line.ts";
import { serverApp } from "../../support/servers/server-app.ts";
import { testService } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { Client } from "../../integration/cli/client.ts";

async function startDev(client: Client, folder: string): Promise<Command> {
  const command = client.start("dev", folder, "--api-port", "0", "--base-port", "0");
  await command.printed(/ serves +ready after/);
  return command;
}

verifies(
  "cli.dev",
  "dev serves a folder; a save is served anew, and a broken one is shown while the old goes on",
  async () => {
    const client = new Client(null);
    await client.ok("init", "hi");
    const main = path.join(client.cwd, "hi", "main.py");
    const save = (text: string): void =>
      writeFileSync(
        main,
        `import helper\n\n\ndef run():\n    print("called")\n    return helper.WORD + "${text}"\n`,
      );
    const helper = (text: string): void => writeFileSync(path.join(client.cwd, "hi", "helper.py"), text);
    helper('WORD = "one "\n');
    save("one");
    const dev = await startDev(client, "hi");
    // Found without any setting: it runs in this folder.
    expect(await client.ok("call", "hi")).toBe("one one\n");
    await dev.printed(/ 200 +run /);
    await dev.printed(/ log +called$/m);

    const [, url = "", token = ""] = await dev.printed(
      /curl -X POST '(\S+)' -H "Authorization: Bearer (\S+)"/,
    );
    /** Waits until the app answers so; an editor's save may be taken up in several steps. */
    const served = async (answer: string): Promise<void> => {
      const headers = { authorization: `Bearer ${token}` };
      const isServed = async (): Promise<boolean> =>
        (await (await fetch(url, { method: "POST", headers })).text()).includes(`"result":"${answer}"`);
      await until(`${answer} is served`, isServed);
    };
    helper('WORD = "two "\n');
    await served("two one");
    // Over the file, as many editors do it.
    writeFileSync(`${main}.new`, readFileSync(main, "utf8").replace('"one"', '"two"'));
    rmSync(main);
    writeFileSync(main, readFileSync(`${main}.new`));
    await served("two two");

    appendFileSync(main, "raise ValueError('not today')\n");
    await dev.printed(/ error +ValueError: not today$/m);
    await dev.printed(/the previous version keeps serving/);
    appendFileSync(main, "def broken(:\n");
    await dev.printed(/ error +main\.py, line \d+: SyntaxError/);
    writeFileSync(path.join(client.cwd, "hi", "millrace.toml"), "[scaling]\ncooldown = -1\n");
    await dev.printed(/ error +- scaling\.cooldown must be/);
    expect(await client.ok("call", "hi")).toBe("two two\n");

    expect(dev.stdout).not.toContain(client.cwd);
    expect(await dev.interrupt()).toBe(0);
    expect(existsSync(runtimeDir(path.join(client.cwd, ".millrace-dev")))).toBe(false);
  },
);

verifies("cli.dev", "Ctrl-C while a save is being deployed ends dev too", async () => {
  const client = new Client(null);
  const folder = path.join(client.cwd, "slow");
  mkdirSync(folder);
  const main = "import threading\nprint('importing', flush=True)\nthreading.Event().wait()\n";
  writeFileSync(path.join(folder, "main.py"), main);
  const dev = client.start("dev", "slow", "--api-port", "0", "--base-port", "0");
  await dev.printed(/ log +importing$/m);
  expect([0, 130]).toContain(await dev.interrupt());
});

verifies(
  "cli.dev.call",
  "the commands dev prints reach it, also beside another service of the folder",
  async () => {
    const client = new Client(null, { MILLRACE_API_PORT: "0", MILLRACE_BASE_PORT: "0" });
    const other = client.start("serve");
    await other.printed(/"millrace is up"/);
    const folder = path.join(client.cwd, "adder");
    mkdirSync(folder);
    writeFileSync(path.join(folder, "main.py"), "def run(a: int):\n    return f'{a} from dev'\n");
    const dev = client.start("dev", "adder");
    const [, call = "", curl = ""] = await dev.printed(/^ {2}(\S+ call adder .*)\n {2}(curl .*)\n/m);
    expect(await run("sh", ["-c", call], client)).toMatchObject({ code: 0, stdout: "1 from dev\n" });
    expect((await run("sh", ["-c", curl], client)).stdout).toContain('"result":"1 from dev"');
    expect(await dev.interrupt()).toBe(0);
    expect(await other.interrupt()).toBe(0);
  },
);

verifies("cli.dev-server", "dev serves a server, and a save starts it anew", async () => {
  const client = new Client(null);
  const folder = path.join(client.cwd, "site");
  mkdirSync(folder);
  const { main, toml = "" } = serverApp({ runtime: 'readycheck_endpoint = "/readyz"' });
  const save = (word: string): void =>
    writeFileSync(path.join(folder, "main.py"), main.replace("os.getpid()", `"${word}"`));
  writeFileSync(path.join(folder, "millrace.toml"), toml);
  save("first");
  const dev = await startDev(client, "site");
  const [, url = "", token = ""] = await dev.printed(
    /^ {2}curl '(\S+\/site)\/readyz' -H "Authorization: Bearer (\S+)"$/m,
  );
  expect(dev.stdout).toContain("  millrace call site /readyz --data-dir .millrace-dev\n");
  const ask = async (): Promise<string> =>
    await (await fetch(`${url}/x`, { headers: { authorization: `Bearer ${token}` } })).text();
  expect(await ask()).toContain('"pid": "first"');
  await dev.printed(/ 200 +GET \/x /);
  save("second");
  await dev.printed(/ serves +saved changes/);
  expect(await ask()).toContain('"pid": "second"');
  expect(await dev.interrupt()).toBe(0);
});

test("dev in a folder that holds no app, or with a port that is taken, says so", async () => {
  const client = new Client(null);
  const none = await client.runAlone("dev", "nowhere");
  expect([none.code, none.stderr]).toEqual([2, expect.stringContaining("there is no folder")]);
  await client.ok("init", "hi");
  const { service } = await testService();
  const { port } = new URL(service.apiUrl);
  const taken = await client.runAlone("dev", "hi", "--api-port", port, "--base-port", "0");
  expect([taken.code, taken.stderr]).toEqual([1, expect.stringContaining("EADDRINUSE")]);
});
