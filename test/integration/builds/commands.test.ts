import { execFile, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { processesIn } from "../../support/leak-check.ts";
import { isAlive } from "../../support/process-tree.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";
import { buildPlace, servicePython } from "./site.ts";

/** Starts a child and a daemon of its own session, tells their pids, and stays. */
const LINGER = [
  "sleep 300 & echo $! >> pids",
  `python3 -c "import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open('pids', 'a').write('%d\\\\n' % os.getpid())
        os.close(1); os.close(2); time.sleep(300)
    os._exit(0)
"`,
  // The daemon's own line may come after its parents have gone.
  "until [ $(wc -l < pids) = 2 ]; do sleep 0.05; done",
  "echo lingering",
  "sleep 300",
].join("\n");

describe("commands", () => {
  verifies("deploy.apt", "that use apt and fail are answered with where system packages go", async () => {
    const place = await buildPlace();
    // As it is for a build's user: no lock on the package database.
    const folder = path.join(place.directory, "bin");
    await mkdir(folder, { recursive: true });
    const script = "#!/bin/sh\necho 'E: Could not open lock file' >&2\nexit 100\n";
    await writeFile(path.join(folder, "apt-get"), script, { mode: 0o755 });
    const host = { ...place.host, PATH: `${folder}:${place.host["PATH"]}` };
    const advice =
      /exit code 100: E: Could not open lock file\. .* List them in \[dependencies\.apt\], which needs podman or docker on this host .* docker_base_image_url$/;
    for (const command of ["apt-get update && true", 'sudo() { "$@"; }; sudo apt-get install -y ffmpeg']) {
      const toml = `[deployment]\npre_build_commands = [${JSON.stringify(command)}]\n`;
      expect((await place.failure({}, { toml, host })).message).toMatch(advice);
    }
    const files = { "shell_commands.sh": "set -e\napt-get -y install ffmpeg\n" };
    expect((await place.failure(files, { host })).message).toMatch(advice);
    const other = '[deployment]\nshell_commands = ["echo adapt install; false"]\n';
    expect((await place.failure({}, { toml: other, host })).message).not.toContain("[dependencies.apt]");
  });

  verifies("deploy.commands", "commands run in order, around the packages, in the bundle", async () => {
    const place = await buildPlace();
    const { result, bundleDir, lines } = await place.build(
      { "data.txt": "from the bundle\n" },
      {
        wheels: {
          made: [{ name: "one", version: "1.0", module: "def main(): print('one')", command: "one" }],
        },
        toml: `
  [deployment]
  pre_build_commands = ["cp data.txt before", "echo ./made/one-1.0-py3-none-any.whl > deps.txt; echo warned >&2"]
  shell_commands = ["one > after", "python -c 'import one, sys; print(sys.prefix)' >> after"]
  [dependencies.paths]
  pip = "deps.txt"
  `,
      },
    );
    expect(await readFile(path.join(bundleDir, "before"), "utf8")).toBe("from the bundle\n");
    expect(await readFile(path.join(bundleDir, "after"), "utf8")).toBe(`one\n${result.environment}\n`);
    expect(lines.slice(0, 3)).toEqual(["$ cp data.txt before", expect.stringMatching(/^\$ echo/), "warned"]);
    expect(lines.slice(-2)).toEqual(["$ one > after", expect.stringMatching(/^\$ python/)]);
  });

  verifies(
    "deploy.commands",
    "commands find Python by its usual names, whatever the host calls it",
    async () => {
      const place = await buildPlace();
      const ask = "-c 'import sys; print(sys.version_info[0])' >> told";
      const toml = `[deployment]\nshell_commands = ["python ${ask}", "python3 ${ask}"]\n`;
      const host = { ...place.host, PATH: "/nowhere" };
      const { bundleDir, result } = await place.build({}, { toml, host });
      expect(await readFile(path.join(bundleDir, "told"), "utf8")).toBe("3\n3\n");
      expect(result).toEqual({ environment: null, python: null });
      expect(existsSync(`${bundleDir}.aside`)).toBe(false);
    },
  );

  verifies("deploy.commands", "nothing of the service's environment reaches a command", async () => {
    const place = await buildPlace();
    const { lines } = await place.build(
      {},
      {
        toml: '[deployment]\nshell_commands = ["env"]\n',
        host: { ...place.host, MILLRACE_DATABASE_URL: "postgres://secret", HTTPS_PROXY: "http://proxy.test" },
      },
    );
    expect(lines.join("\n")).not.toMatch(/secret/);
    expect(lines).toContain("HTTPS_PROXY=http://proxy.test");
  });

  verifies(
    "deploy.commands",
    "the files that clients make of the keys run once, and only without the keys",
    async () => {
      const place = await buildPlace();
      const files = {
        "pre_build_commands.sh": "echo first >> ran\nfalse || true\necho second >> ran\n",
        "shell_commands.sh": "#!/bin/sh\n# nothing\n",
      };
      const alone = await place.build(files);
      expect(alone.lines).toEqual(["$ /bin/sh -e ./pre_build_commands.sh"]);
      expect(await readFile(path.join(alone.bundleDir, "ran"), "utf8")).toBe("first\nsecond\n");
      const both = await place.build(files, {
        toml: '[deployment]\npre_build_commands = ["echo key >> ran"]\n',
      });
      expect(await readFile(path.join(both.bundleDir, "ran"), "utf8")).toBe("key\n");
      const failing = await place.failure({ "shell_commands.sh": "echo so far\nfalse\necho never\n" });
      expect(failing.message).toBe(
        'shell_commands: "/bin/sh -e ./shell_commands.sh" ended with exit code 1: so far',
      );
    },
  );

  verifies("deploy.commands", "a command that fails ends the build with what it said last", async () => {
    const place = await buildPlace();
    const { message, bundleDir } = await place.failure(
      {},
      { toml: `[deployment]\nshell_commands = ["echo one; echo no luck >&2; exit 7", "touch never"]\n` },
    );
    expect(message).toBe(
      'shell_commands: "echo one; echo no luck >&2; exit 7" ended with exit code 7: no luck',
    );
    expect(existsSync(path.join(bundleDir, "never"))).toBe(false);
  });

  verifies("deploy.commands", "cancelling kills all that a command started, daemons too", async () => {
    const place = await buildPlace();
    const cancelling = new AbortController();
    const build = await place.begin({ "pre_build_commands.sh": LINGER }, { signal: cancelling.signal });
    await until("it lingers", () => build.lines.includes("lingering"));
    // By the host's ids: behind walls they have others.
    const pids = processesIn(build.bundleDir).map(({ pid }) => pid);
    expect(pids.length).toBeGreaterThanOrEqual(2);
    cancelling.abort();
    await expect(build.done).rejects.toBe(cancelling.signal.reason);
    expect(processesIn(build.bundleDir)).toEqual([]);
    expect(pids.filter(isAlive)).toEqual([]);
  });

  verifies("deploy.commands", "what a command leaves running ends with it", async () => {
    const place = await buildPlace();
    const build = await place.build({ "shell_commands.sh": "sleep 300 &\necho $! >> pids\n" });
    expect(processesIn(build.bundleDir)).toEqual([]);
  });

  verifies("deploy.commands", "all of it ends with the service, by kill -9 too", async () => {
    const place = await buildPlace();
    const bundleDir = path.join(place.directory, "bundle");
    await mkdir(bundleDir);
    await writeFile(path.join(bundleDir, "main.py"), "");
    await writeFile(path.join(bundleDir, "shell_commands.sh"), LINGER);
    const script = new URL("build-once.ts", import.meta.url).pathname;
    const service = spawn(process.execPath, [script, bundleDir, place.dataDir, (await servicePython()).path]);
    let said = "";
    service.stdout.on("data", (data) => (said += String(data)));
    await until("it lingers", () => said.includes("lingering"));
    const pids = await writtenPids(path.join(bundleDir, "pids"));
    service.kill("SIGKILL");
    await until("nothing is left", () => processesIn(bundleDir).length === 0 && !pids.some(isAlive));
  });

  test("a pip that is called by a roundabout way does not change the host", async () => {
    const place = await buildPlace();
    const { path: python } = await servicePython();
    const has = await promisify(execFile)(python, ["-m", "pip", "--version"]).then(
      () => true,
      () => false,
    );
    if (!has) return;
    const { message } = await place.failure(
      { "install.sh": "python3 -m pip install --no-index nothing-there\n" },
      { toml: '[deployment]\nshell_commands = ["sh install.sh"]\n' },
    );
    expect(message).toMatch(/virtualenv/);
  });
});

async function writtenPids(file: string): Promise<number[]> {
  return (await readFile(file, "utf8")).trim().split("\n").map(Number);
}
