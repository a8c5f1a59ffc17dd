import { WALL_LEVELS } from "../../src/host/walls/walls.ts";
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { versionFault } from "../../src/apps/builds/version-fault.ts";
import { requireOffered } from "../support/walls/walled.ts";
import { verifies } from "../verifies.ts";
import { type BuildPlace, buildPlace, evaluate, servicePython } from "../integration/builds/site.ts";

const KEY = "the-master-key";

/** Tries each line of Python, and says which of them did what it wanted. */
const ESCAPE = `
import json, os, sys
facts = json.load(open("facts.json"))
data, outside = facts["data"], facts["outside"]
def write(path):
    with open(path, "a") as file:
        file.write("poison")
ATTACKS = {
    "read the master key": lambda: open(data + "/master.key").read() == facts["key"] or 1 / 0,
    "list the data directory": lambda: "owner-token" in os.listdir(data) or 1 / 0,
    "write another's packages": lambda: write(facts["packages"] + "/planted.pth"),
    "list another's cache": lambda: os.listdir(data + "/caches/p-other000"),
    "write another's cache": lambda: write(data + "/caches/p-other000/poison"),
    "write what it only reads": lambda: write(os.getcwd() + ".aside/poison"),
    "change the host's Python": lambda: write(os.path.dirname(os.__file__) + "/site-packages/planted.pth"),
}
# On userns there may be folders of these names in its own /tmp: the test looks at the real ones.
for path in (data + "/master.key", outside + "/planted", data + "/environments/planted"):
    try:
        write(path)
    except OSError:
        pass
escaped = []
for name, attempt in ATTACKS.items():
    try:
        attempt()
        escaped.append(name)
    except (OSError, ZeroDivisionError):
        pass
with open("told-by-" + sys.argv[-1].rpartition("/")[2], "w") as told:
    json.dump(escaped, told)
`;

/** A package in source form, whose code runs when it is built; it needs no other to be built. */
const SOURCE = {
  "evil/pyproject.toml":
    '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n[project]\nname = "evil"\nversion = "1.0"\n',
  "evil/backend.py": `import os, subprocess, sys, zipfile
def build_wheel(folder, config_settings=None, metadata_directory=None):
    bundle = os.path.dirname(os.path.abspath(os.curdir))
    subprocess.run([sys.executable, "-I", "escape.py", "backend"], cwd=bundle, check=True)
    environment = os.environ["PLANT_IN"]
    for name, target in (("ready", "/master.key"), ("ready.new", "/master.key"), ("requirements.txt", "/owner-token")):
        place = os.path.join(environment, name)
        if os.path.lexists(place):  # It is called twice: for what the package is, and for the package.
            os.unlink(place)
        os.symlink(os.environ["DATA"] + target, place)
    name = "evil-1.0-py3-none-any.whl"
    papers = {"evil.py": "", "evil.pth": "import os; open(os.environ.get('PTH_PROOF', os.devnull), 'w').write('ran')",
        "evil-1.0.dist-info/METADATA": "Metadata-Version: 2.1\\nName: evil\\nVersion: 1.0\\n",
        "evil-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
        "evil-1.0.dist-info/RECORD": ""}
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        for file, text in papers.items():
            wheel.writestr(file, text)
    return name
`,
};

/** A place with something to steal and to spoil: a key, another project's packages and cache. */
async function placeWithNeighbour(): Promise<{ place: BuildPlace; packages: string; facts: string }> {
  const place = await buildPlace();
  const packages = path.join(place.dataDir, "environments", "p-other000-aaaa", "lib");
  for (const folder of [packages, path.join(place.dataDir, "caches", "p-other000")])
    mkdirSync(folder, { recursive: true });
  writeFileSync(path.join(place.dataDir, "master.key"), KEY);
  writeFileSync(path.join(place.dataDir, "owner-token"), KEY);
  const facts = JSON.stringify({ key: KEY, data: place.dataDir, outside: place.directory, packages });
  return { place, packages, facts };
}

const told = (bundleDir: string, who: string): unknown =>
  JSON.parse(readFileSync(path.join(bundleDir, `told-by-${who}`), "utf8"));

for (const level of WALL_LEVELS.filter((each) => each !== "process")) {
  verifies(
    "walls.builds",
    `on ${level} a build's commands get at nothing but their build`,
    async (context) => {
      await requireOffered(level, context);
      const { place, packages, facts } = await placeWithNeighbour();
      const commands = ["python -I escape.py before", "echo kept > kept; mktemp > /dev/null"];
      const toml = `[deployment]\npre_build_commands = ${JSON.stringify(commands)}\nshell_commands = ["python -I escape.py after"]\n`;
      const files = { "escape.py": ESCAPE, "facts.json": facts };
      const { bundleDir } = await place.build(files, { toml, level });
      expect([told(bundleDir, "before"), told(bundleDir, "after")]).toEqual([[], []]);
      expect(readFileSync(path.join(bundleDir, "kept"), "utf8")).toBe("kept\n");
      expect(readdirSync(packages)).toEqual([]);
      for (const folder of [place.directory, path.join(place.dataDir, "environments")])
        expect(readdirSync(folder)).not.toContain("planted");
      expect(readFileSync(path.join(place.dataDir, "master.key"), "utf8")).toBe(KEY);
      expect(readdirSync(path.join(place.dataDir, "scratch"))).toEqual([]);
    },
  );

  verifies(
    ["walls.builds", "builds.no-service-runs", "builds.own-environment"],
    `on ${level} a package that is built from source spoils neither others nor what the service writes`,
    async (context) => {
      await requireOffered(level, context);
      const { place, packages, facts } = await placeWithNeighbour();
      const files = { ...SOURCE, "escape.py": ESCAPE, "facts.json": facts, "requirements.txt": "./evil\n" };
      // The build tells its own package where its environment is: any build could find that out.
      const host = { ...place.host, PIP_NO_INDEX: "1" };
      const planted = files["evil/backend.py"]
        .replace('os.environ["PLANT_IN"]', "os.path.dirname(os.path.dirname(sys.executable))")
        .replace('os.environ["DATA"]', JSON.stringify(place.dataDir));
      const { result, bundleDir } = await place.build(
        { ...files, "evil/backend.py": planted },
        { host, level },
      );
      expect(told(bundleDir, "backend")).toEqual([]);
      for (const name of ["master.key", "owner-token"])
        expect(readFileSync(path.join(place.dataDir, name), "utf8")).toBe(KEY);
      expect(readdirSync(packages)).toEqual([]);
      const environment = result.environment!;
      expect(path.basename(environment)).toMatch(/^p-builds00-/);
      expect(lstatSync(path.join(environment, "ready")).isFile()).toBe(true);
      expect(readFileSync(path.join(environment, "ready"), "utf8")).toBe(environment);
    },
  );
}

verifies("builds.no-service-runs", "doctor does not run the Python of an environment", async () => {
  const place = await buildPlace();
  const wheels = { "": [{ name: "one", version: "1.0" }] };
  const files = { "requirements.txt": "./one-1.0-py3-none-any.whl\n" };
  const { result, bundleDir } = await place.build(files, { wheels });
  const site = await evaluate(result.python!, "import one, os; print(os.path.dirname(one.__file__))");
  const proof = path.join(place.directory, "proof");
  writeFileSync(path.join(site, "evil.pth"), `import os; open(${JSON.stringify(proof)}, "w").close()\n`);
  await evaluate(result.python!, "pass");
  expect(existsSync(proof)).toBe(true);
  writeFileSync(
    path.join(site, "evil.pth"),
    `import os; open(${JSON.stringify(`${proof}-2`)}, "w").close()\n`,
  );
  const built = { bundle: bundleDir, environment: result.environment, python: null };
  const { path: python } = await servicePython();
  expect(await versionFault(built, python, place.dataDir)).toBeNull();
  expect(existsSync(`${proof}-2`)).toBe(false);
});

verifies(
  "walls.builds",
  "a link in the bundle tells the build log nothing of a file of the service",
  async (context) => {
    await requireOffered("landlock", context);
    const { place } = await placeWithNeighbour();
    const link = `ln -sf ${path.join(place.dataDir, "master.key")} stolen.py`;
    const toml = `[deployment]\nshell_commands = [${JSON.stringify(link)}]\n`;
    for (const level of WALL_LEVELS.filter((each) => each !== "process")) {
      const { lines } = await place.build({}, { toml, level });
      expect(lines.join("\n")).not.toContain(KEY);
    }
  },
);

verifies(
  ["builds.own-environment", "builds.own-cache"],
  "two projects with the same packages share neither the environment nor what was fetched for it",
  async () => {
    const place = await buildPlace();
    const wheels = { "": [{ name: "one", version: "1.0", module: "x = 'clean'" }] };
    const files = { "requirements.txt": "./one-1.0-py3-none-any.whl\n" };
    // Poisons whatever its project shares: its cache, and by a start file every later start of its own packages.
    const poison = "mkdir -p $PIP_CACHE_DIR; echo poison > $PIP_CACHE_DIR/poison; pip --version";
    const toml = `[deployment]\nshell_commands = [${JSON.stringify(poison)}]\n`;
    const first = await place.build(files, { wheels, toml, projectId: "p-first000" });
    const second = await place.build(files, { wheels, projectId: "p-second00" });
    const again = await place.build(files, { wheels, projectId: "p-second00" });
    expect(first.result.environment).not.toBe(second.result.environment);
    expect(again.result.environment).toBe(second.result.environment);
    expect(await evaluate(second.result.python!, "import one; print(one.x)")).toBe("clean");
    const caches = path.join(place.dataDir, "caches");
    expect(readdirSync(path.join(caches, "p-first000", "pip"))).toContain("poison");
    const own = path.join(caches, "p-second00");
    const ofSecond = existsSync(own) ? readdirSync(own, { recursive: true }) : [];
    expect(ofSecond.filter((name) => String(name).includes("poison"))).toEqual([]);
  },
);

verifies(
  "walls.builds",
  "what a build leaves that nobody may read is removed all the same",
  async (context) => {
    await requireOffered("userns", context);
    const place = await buildPlace();
    const command =
      "mkdir -p $HOME/deep/inner && echo x > $HOME/deep/inner/file && chmod 000 $HOME/deep/inner $HOME/deep";
    const toml = `[deployment]\nshell_commands = [${JSON.stringify(command)}]\n`;
    await place.build({}, { toml, level: "userns" });
    expect(readdirSync(path.join(place.dataDir, "scratch"))).toEqual([]);
    chmodSync(place.dataDir, 0o700);
  },
);
