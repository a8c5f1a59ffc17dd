import { chmod, mkdir, symlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { describe, expect } from "vitest";
import { findInterpreter } from "../../../src/host/interpreter.ts";
import { findPythons } from "../../support/pythons.ts";
import { verifies } from "../../verifies.ts";
import { buildPlace, evaluate, servicePython } from "./site.ts";

describe("the Python of an app", () => {
  verifies("deploy.python", "a version the host has not is told with those it has", async () => {
    const place = await buildPlace();
    const own = await servicePython();
    const bin = path.join(place.directory, "bin");
    await mkdir(bin);
    await symlink(own.path, path.join(bin, `python${minorOf(own.version)}`));
    const { message } = await place.failure(
      {},
      {
        toml: '[deployment]\npython_version = "3.99"\n',
        python: { path: own.path, version: "3.8.1" },
        host: { ...place.host, PATH: bin },
      },
    );
    expect(message).toBe(
      `python_version = "3.99" is not installed on this host, which has 3.8, ${minorOf(own.version)}; ` +
        "uv, which could fetch it, is not on the PATH. " +
        "Install it (for example: uv python install 3.99), or name a version that is there",
    );
  });

  verifies("deploy.python", "the first python3.X of the path that runs is used", async () => {
    const place = await buildPlace();
    const own = await servicePython();
    const name = `python${minorOf(own.version)}`;
    const broken = path.join(place.directory, "broken");
    const bin = path.join(place.directory, "bin");
    await mkdir(broken);
    await mkdir(bin);
    await writeFile(path.join(broken, name), "#!/bin/sh\nexit 127\n");
    await chmod(path.join(broken, name), 0o755);
    await symlink(own.path, path.join(bin, name));
    // As if the service itself ran on another one.
    const python = { path: path.join(bin, "service-python"), version: "3.1.4" };
    await symlink(own.path, python.path);
    const { result, lines } = await place.build(
      {},
      {
        toml: `[deployment]\npython_version = "${minorOf(own.version)}"\nshell_commands = ["command -v ${name}"]\n`,
        python,
        host: { ...place.host, PATH: `${broken}:${bin}:/usr/bin:/bin` },
      },
    );
    expect(result).toEqual({ environment: null, python: (await findInterpreter(path.join(bin, name))).path });
    // Its commands find it first.
    expect(path.dirname(lines.at(-1) ?? "")).toBe(path.dirname(result.python!));
  });

  verifies("deploy.python", "packages are installed for the version that was named", async (context) => {
    const place = await buildPlace();
    const own = await servicePython();
    const others = findPythons().filter(({ version }) => minorOf(version) !== minorOf(own.version));
    context.skip(others.length === 0, "NOT TESTED: this host has one version of Python only");
    const { command, version } = others[0]!;
    const bin = path.join(place.directory, "bin");
    await mkdir(bin);
    await symlink((await findInterpreter(command)).path, path.join(bin, `python${minorOf(version)}`));
    const { result } = await place.build(
      { "requirements.txt": "./one-1.0-py3-none-any.whl\n" },
      {
        toml: `[deployment]\npython_version = "${minorOf(version)}"\n`,
        wheels: { "": [{ name: "one", version: "1.0" }] },
        host: { ...place.host, PATH: `${bin}:${place.host["PATH"]}` },
      },
    );
    const code = "import one, sys; print('%d.%d' % sys.version_info[:2])";
    expect(await evaluate(result.python!, code)).toBe(minorOf(version));
  });

  verifies("deploy.python", "the service's own serves its version, whichever the third number", async () => {
    const place = await buildPlace();
    const { version } = await servicePython();
    const asked = `${minorOf(version)}.99`;
    const { result, lines } = await place.build({}, { toml: `[deployment]\npython_version = "${asked}"\n` });
    expect(result).toEqual({ environment: null, python: null });
    expect(lines).toEqual([
      `warning: python_version = "${asked}" is not installed on this host; using ${version}`,
    ]);
  });
});

function minorOf(version: string): string {
  return version.split(".").slice(0, 2).join(".");
}
