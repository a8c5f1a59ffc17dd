import { WALL_LEVELS } from "../../src/host/walls/walls.ts";
import { execFile } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, symlinkSync, unlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { promisify } from "node:util";
import { expect } from "vitest";
import { versionFault } from "../../src/apps/builds/version-fault.ts";
import { findInterpreter } from "../../src/host/interpreter.ts";
import { testService } from "../support/service.ts";
import { copyPython } from "../support/walls/copied-python.ts";
import { onlyUpTo, requireOffered } from "../support/walls/walled.ts";
import { verifies } from "../verifies.ts";
import { buildPlace, evaluate, servicePython } from "../integration/builds/site.ts";

/** Put into the home of a build: Python runs it at each start that looks for packages there. */
const PLANT = `import os, site, sys
proof = sys.argv[1]
folder = site.getusersitepackages()
os.makedirs(folder)
with open(folder + "/planted.pth", "w") as file:
    file.write("import os; os.path.isdir(%r) and open(%r, 'w').close()" % (os.path.dirname(proof), proof))
`;

for (const level of WALL_LEVELS.filter((each) => each !== "process")) {
  verifies(
    "builds.no-service-runs",
    `on ${level} nothing that commands leave in their home runs outside the walls`,
    async (context) => {
      await requireOffered(level, context);
      const place = await buildPlace();
      // Out of every build's reach, so that only what runs outside can write it.
      const proof = path.join(place.dataDir, "outside", "proof");
      mkdirSync(path.dirname(proof));
      const toml = `[deployment]\npre_build_commands = [${JSON.stringify(`python plant.py ${proof}`)}]\n`;
      const wheels = { "": [{ name: "one", version: "1.0" }] };
      const files = { "plant.py": PLANT, "requirements.txt": "./one-1.0-py3-none-any.whl\n" };
      // Not a virtual environment, which has no packages at home.
      const { path: own, version } = await servicePython();
      const python = { path: await evaluate(own, "import sys; print(sys._base_executable)"), version };
      await place.build(files, { toml, wheels, level, python });
      expect(existsSync(proof)).toBe(false);
    },
  );
}

for (const level of WALL_LEVELS.filter((each) => each !== "process")) {
  verifies(
    "builds.own-environment",
    `on ${level} a build whose Python is a link to another project's program cannot read that`,
    async (context) => {
      await requireOffered(level, context);
      const place = await buildPlace();
      const theirs = path.join(place.dataDir, "bundles", "p-other000", "tool");
      mkdirSync(path.dirname(theirs), { recursive: true });
      writeFileSync(theirs, "#!/bin/sh\n. ./steal\n", { mode: 0o755 });
      const commands = [`pip --version && ln -sf ${theirs} "$VIRTUAL_ENV/bin/python"`];
      const toml = `[deployment]\npre_build_commands = ${JSON.stringify(commands)}\n`;
      const wheels = { "": [{ name: "one", version: "1.0" }] };
      const files = {
        "requirements.txt": "./one-1.0-py3-none-any.whl\n",
        steal: `cat ${theirs} > stolen\n`,
      };
      const { bundleDir, done } = await place.begin(files, { toml, wheels, level });
      await done.catch(() => undefined);
      expect(existsSync(path.join(bundleDir, "stolen"))).toBe(false);
    },
  );
}

verifies(
  "walls.interpreters.linked",
  "an app whose packages link to another interpreter does not see it, and is told which",
  async (context) => {
    await requireOffered("landlock", context);
    const { base } = await findInterpreter("python3");
    const place = await buildPlace();
    const hidden = copyPython(base, path.join(place.directory, "home/hidden"), false);
    const command = `pip --version && ln -sf ${hidden} "$VIRTUAL_ENV/bin/python"`;
    const toml = `[deployment]\nshell_commands = [${JSON.stringify(command)}]\n`;
    const site = await testService({}, await onlyUpTo("landlock"));
    await site.deploy("app", { main: "def run():\n    return 1\n", toml });
    const { status, json } = await site.call("app");
    expect([status, json.message]).toEqual([
      503,
      expect.stringContaining(`its environment links to ${hidden}, `),
    ]);
  },
);

verifies(
  "builds.no-service-runs",
  "doctor runs no program that an environment leads to unless it is the host's",
  async (context) => {
    await requireOffered("landlock", context);
    const place = await buildPlace();
    const wheels = { "": [{ name: "one", version: "1.0" }] };
    const { result, bundleDir } = await place.build(
      { "requirements.txt": "./one-1.0-py3-none-any.whl\n" },
      { wheels },
    );
    const environment = result.environment!;
    const inside = path.join(environment, "bin", "python");
    const proof = path.join(place.directory, "proof");
    const { path: own } = await servicePython();
    const built = { bundle: bundleDir, environment, python: null };
    const elsewhere = path.join(place.directory, "disk");
    mkdirSync(path.join(place.dataDir, "storage"), { recursive: true });
    mkdirSync(elsewhere);
    symlinkSync(elsewhere, path.join(place.dataDir, "storage", "p-linked00"));
    for (const folder of [
      path.join(place.dataDir, "caches", "p-builds00"),
      path.join(place.dataDir, "storage", "p-builds00"),
      elsewhere,
    ]) {
      mkdirSync(folder, { recursive: true });
      const program = path.join(folder, "python3");
      writeFileSync(program, `#!/bin/sh\ntouch ${proof}\n`);
      chmodSync(program, 0o755);
      unlinkSync(inside);
      symlinkSync(program, inside);
      await versionFault(built, own, place.dataDir);
      expect([folder, existsSync(proof)]).toEqual([folder, false]);
    }
    // One in its own folder, of a data directory that is reached by a link.
    const linked = path.join(place.directory, "linked");
    symlinkSync(place.dataDir, linked);
    unlinkSync(inside);
    writeFileSync(inside, `#!/bin/sh\ntouch ${proof}\n`, { mode: 0o755 });
    const reached = path.join(linked, "environments", path.basename(environment));
    await versionFault({ ...built, environment: reached }, own, linked);
    expect(existsSync(proof)).toBe(false);
  },
);

verifies("builds.no-service-runs", "doctor waits for no pipe that an environment holds", async () => {
  const place = await buildPlace();
  const wheels = { "": [{ name: "one", version: "1.0" }] };
  const { result, bundleDir } = await place.build(
    { "requirements.txt": "./one-1.0-py3-none-any.whl\n" },
    { wheels },
  );
  const settings = path.join(result.environment!, "pyvenv.cfg");
  unlinkSync(settings);
  await promisify(execFile)("mkfifo", [settings]);
  const built = { bundle: bundleDir, environment: result.environment, python: null };
  const { path: own } = await servicePython();
  expect(await versionFault(built, own, place.dataDir)).toBeNull();
});

verifies("builds.bounded-reading", "a package without end is refused before it is read", async () => {
  const place = await buildPlace();
  const commands = ["truncate -s 1T endless.whl", "mkdir many && truncate -s 1T many/one.whl"];
  const toml = `[deployment]\npre_build_commands = ${JSON.stringify(commands)}\n`;
  for (const [line, name] of [
    ["./endless.whl", "endless.whl"],
    ["./many", "many"],
  ] as const) {
    const { message } = await place.failure({ "requirements.txt": `${line}\n` }, { toml });
    expect(message).toBe(`${name} is larger than 32 GiB`);
  }
});

verifies("builds.bounded-reading", "a list of system packages without end is refused", async () => {
  const place = await buildPlace();
  const names = Array.from({ length: 1_001 }, (_, index) => `no-such-package-${index}`);
  const { message } = await place.failure({ "pkglist.txt": names.join("\n") });
  expect(message).toBe("pkglist.txt lists more than 1000 packages");
});
