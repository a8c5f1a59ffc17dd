import { chmod, mkdir, symlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { describe, expect } from "vitest";
import { fetchPython } from "../../../src/apps/builds/choose-python.ts";
import { readAppConfig } from "../../../src/config/app-config.ts";
import { PYTHON_ELSEWHERE } from "../../../src/host/app-python.ts";
import { pythonFor } from "../../../src/host/host-pythons.ts";
import { verifies } from "../../verifies.ts";
import { type BuildPlace, buildPlace, servicePython } from "./site.ts";

/** A service that runs on a Python nobody asks for. */
const other = async () => ({ path: (await servicePython()).path, version: "3.1.4" });

/** The minor version that is at hand. */
async function minorHere(): Promise<number> {
  return Number((await servicePython()).version.split(".")[1]);
}

/** A link to the Python at hand, as `python3.X` in a folder of the place. */
async function installIn(place: BuildPlace, folder: string): Promise<string> {
  const bin = path.join(place.directory, folder);
  await mkdir(bin, { recursive: true });
  const command = path.join(bin, `python3.${await minorHere()}`);
  await symlink((await servicePython()).path, command);
  return command;
}

/** A PATH with a program that is called uv, and nothing else. */
async function withUv(place: BuildPlace, script: string): Promise<NodeJS.ProcessEnv> {
  const bin = path.join(place.directory, "uv-bin");
  await mkdir(bin, { recursive: true });
  await writeFile(path.join(bin, "uv"), `#!/bin/sh\n[ "$1" = --version ] && exit 0\n${script}\n`);
  await chmod(path.join(bin, "uv"), 0o755);
  return { ...place.host, PATH: bin, UV_PYTHON_INSTALL_DIR: path.join(place.directory, "uv-pythons") };
}

const wants = (version: string, more = ""): string => `[deployment]\npython_version = "${version}"\n${more}`;

describe("where a Python is looked for", () => {
  verifies("python.places", "on the PATH, and among those of pyenv, uv, mise and conda", async () => {
    const minor = await minorHere();
    const places: readonly (readonly [folder: string, host: (dir: string) => NodeJS.ProcessEnv])[] = [
      ["on-path", (dir) => ({ PATH: path.join(dir, "on-path") })],
      ["home/.pyenv/versions/3.9.1/bin", () => ({})],
      ["pyenv/versions/3.9.1/bin", (dir) => ({ PYENV_ROOT: path.join(dir, "pyenv") })],
      ["home/.local/share/uv/python/cpython-3.9.1-linux/bin", () => ({})],
      ["data/uv/python/cpython-3.9.1-linux/bin", (dir) => ({ XDG_DATA_HOME: path.join(dir, "data") })],
      ["home/.local/share/mise/installs/python/3.9.1/bin", () => ({})],
      ["mise/installs/python/3.9.1/bin", (dir) => ({ MISE_DATA_DIR: path.join(dir, "mise") })],
      ["home/miniconda3/bin", () => ({})],
      ["home/miniforge3/envs/work/bin", () => ({})],
      ["conda/envs/work/bin", (dir) => ({ CONDA_EXE: path.join(dir, "conda/bin/conda") })],
    ];
    for (const [folder, host] of places) {
      const place = await buildPlace();
      const command = await installIn(place, folder);
      const env = { ...place.host, PATH: "", ...host(place.directory) };
      const options = { toml: wants(`3.${minor}`), python: await other(), host: env };
      const { result, lines } = await place.build({}, options);
      expect([folder, result.python]).toEqual([folder, command]);
      expect(lines).toEqual([]);
    }
  });
});

describe("a Python that the host lacks", () => {
  verifies("python.fetched", "is fetched with uv", async () => {
    const place = await buildPlace();
    const minor = await minorHere();
    const own = await servicePython();
    const host = await withUv(
      place,
      `bin="$UV_PYTHON_INSTALL_DIR/cpython-3.${minor}.9/bin"; /bin/mkdir -p "$bin"
[ "$1 $2 $UV_PYTHON_INSTALL_BIN" = "python install 0" ] && echo "for $PWD" && /bin/ln -s ${own.path} "$bin/python3.${minor}"`,
    );
    const options = { toml: wants(`3.${minor}`), python: await other(), host };
    const { result, lines } = await place.build({}, options);
    expect(result.python).toBe(
      path.join(place.directory, `uv-pythons/cpython-3.${minor}.9/bin/python3.${minor}`),
    );
    expect(lines).toEqual([`Python 3.${minor} is not on this host: fetching it with uv…`, "for /"]);
  });

  verifies("python.fetched", "and its absence for long, a failure or a cancel end that", async () => {
    const place = await buildPlace();
    const hanging = await withUv(place, "echo begun; exec /bin/sleep 1000");
    const site = {
      buildId: "b",
      projectId: "p-builds00",
      bundleDir: place.directory,
      asideDir: `${place.directory}.aside`,
      walls: null,
      limits: null,
      user: null,
      scratch: null,
      images: null,
      storage: { userOf: () => null },
      config: readAppConfig({ host: { cpuCount: 1 } }).config,
      appPython: PYTHON_ELSEWHERE,
      dataDir: place.dataDir,
      python: await servicePython(),
      host: hanging,
      say: () => undefined,
      signal: new AbortController().signal,
    };
    expect(await fetchPython("3.99", site, 200)).toEqual({
      python: null,
      why: "uv did not fetch it within 0.2 s",
    });

    const cancel = new AbortController();
    const build = await place.begin(
      {},
      {
        toml: wants("3.99"),
        host: hanging,
        signal: cancel.signal,
        onLine: (line) => line === "begun" && cancel.abort(new Error("cancelled by a person")),
      },
    );
    await expect(build.done).rejects.toThrow("cancelled by a person");

    const failing = await withUv(place, "echo 'error: no network'; exit 2");
    const { message } = await place.failure({}, { toml: wants("3.99"), host: failing });
    expect(message).toContain("uv could not fetch it: error: no network. Install it");
  });

  verifies("python.newer", "gives way to the nearest newer one, with what to install", async () => {
    const place = await buildPlace();
    const minor = await minorHere();
    const command = await installIn(place, "bin");
    const host = { ...place.host, PATH: path.dirname(command) };
    const wanted = `3.${minor - 1}`;
    const { result, lines } = await place.build({}, { toml: wants(wanted), python: await other(), host });
    expect(result.python).toBe(command);
    expect(lines).toEqual([
      expect.stringMatching(
        `^warning: python_version = "${wanted}" is not installed on this host: using 3\\.${minor}\\..* uv python install ${wanted}$`,
      ),
    ]);
  });

  verifies("python.strict", "is refused where a newer one will not do", async () => {
    const place = await buildPlace();
    const minor = await minorHere();
    const command = await installIn(place, "bin");
    const host = { ...place.host, PATH: path.dirname(command) };
    const toml = wants(`3.${minor - 1}`, "python_version_strict = true\n");
    const { message } = await place.failure({}, { toml, python: await other(), host });
    expect(message).toBe(
      `python_version = "3.${minor - 1}" is not installed on this host, which has 3.1, 3.${minor}; uv, which could fetch it, is not on the PATH. Install it (for example: uv python install 3.${minor - 1}), or remove python_version_strict`,
    );
  });

  verifies("python.start", "is looked for in the same way when a version starts", async () => {
    const place = await buildPlace();
    const own = await servicePython();
    const host = { ...place.host, PATH: "" };
    const older = `3.${(await minorHere()) - 1}`;
    const find = async (version: string, isStrict: boolean) =>
      (await pythonFor({ version, isStrict }, own.path, host))?.version ?? null;
    expect(await find(older, false)).toBe(own.version);
    expect(await find(older, true)).toBeNull();
    expect(await find(own.version, true)).toBe(own.version);
    expect(await find("3.99", false)).toBeNull();
  });
});
