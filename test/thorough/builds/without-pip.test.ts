import { execFile } from "node:child_process";
import { copyFile, mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { findInterpreter, type Interpreter } from "../../../src/host/interpreter.ts";
import { verifies } from "../../verifies.ts";
import { type BuildPlace, buildPlace, evaluate, servicePython } from "../../integration/builds/site.ts";
import { GREETING, testIndex, writeWheels } from "../../integration/builds/wheels.ts";

describe("a Python without pip and ensurepip", () => {
  verifies("deploy.pip", "gets a pip from the index, checked by its hash", async (context) => {
    const place = await buildPlace();
    const wheels = await writeWheels(path.join(place.directory, "wheels"), GREETING);
    const pip = await bundledPip();
    context.skip(pip === "", "NOT TESTED: this host has no wheel of pip to serve");
    await copyFile(pip, path.join(wheels, path.basename(pip)));
    const index = await testIndex(wheels);
    const python = await barePython(place);
    const options = { python, host: place.withIndex(index.url) };
    const { result, lines } = await place.build({ "requirements.txt": "polite==1.0\n" }, options);
    expect(await evaluate(result.python!, "import polite; print(polite.word)")).toBe("please");
    expect(lines.join("\n")).toMatch(/has no pip: fetching one from the package index/);
    expect(index.asked.slice(0, 2)).toEqual(["/simple/pip/", `/files/${path.basename(pip)}`]);

    const liar = await testIndex(wheels, { wrongHashes: true });
    const refused = await place.failure(
      { "requirements.txt": "polite==2.0\n" },
      { python, host: place.withIndex(liar.url) },
    );
    expect(refused.message).toMatch(/does not match the index's sha256/);
  });

  verifies("deploy.pip", "is told what to set or install where no index is chosen", async () => {
    const place = await buildPlace();
    const host = { ...place.host, PIP_NO_INDEX: undefined, PIP_CONFIG_FILE: "/dev/null" };
    const options = { python: await barePython(place), host };
    const { message } = await place.failure({ "requirements.txt": "polite\n" }, options);
    expect(message).toMatch(
      /^this host cannot install Python packages: no package index is set .*PIP_INDEX_URL/,
    );
    expect(message).toMatch(/Install uv, or pip for its Python/);
  });

  verifies("deploy.pip", "is told what to install where the index has none either", async () => {
    const place = await buildPlace();
    const index = await testIndex(await writeWheels(path.join(place.directory, "wheels"), GREETING));
    const { message } = await place.failure(
      { "requirements.txt": "polite\n" },
      { python: await barePython(place), host: place.withIndex(index.url) },
    );
    expect(message).toMatch(/^this host cannot install Python packages: cannot fetch .*404/);
    expect(message).toMatch(/Install uv, or pip for its Python/);
    expect(await place.environments()).toEqual([]);
  });

  test("uses the pip that ensurepip has, where that is there", async (context) => {
    const place = await buildPlace();
    context.skip((await bundledPip()) === "", "NOT TESTED: this host has no ensurepip");
    const index = await testIndex(await writeWheels(path.join(place.directory, "wheels"), GREETING));
    const options = { python: await barePython(place, true), host: place.withIndex(index.url) };
    const { result } = await place.build({ "requirements.txt": "polite==1.0\n" }, options);
    expect(await evaluate(result.python!, "import polite; print(polite.word)")).toBe("please");
    expect(index.asked).not.toContain("/simple/pip/");
  });
});

/** An interpreter as some systems ship it: no pip, and no ensurepip unless asked for. */
async function barePython(place: BuildPlace, withEnsurepip = false): Promise<Interpreter> {
  const folder = path.join(place.directory, "bare");
  const { path: python } = await servicePython();
  await promisify(execFile)(python, ["-m", "venv", "--without-pip", folder]);
  const bare = await findInterpreter(path.join(folder, "bin", "python3"));
  const packages = await evaluate(bare.path, "import sysconfig; print(sysconfig.get_path('purelib'))");
  await mkdir(packages, { recursive: true });
  if (!withEnsurepip) {
    // Not as sitecustomize.py: some systems have one of their own, which comes first.
    await writeFile(path.join(packages, "bare.pth"), "import sys; sys.modules['ensurepip'] = None\n");
  }
  return bare;
}

/** The wheel of pip that comes with ensurepip; empty where there is none. */
async function bundledPip(): Promise<string> {
  const { path: python } = await servicePython();
  const code =
    "import ensurepip, glob, os; print(*glob.glob(os.path.dirname(ensurepip.__file__) + '/_bundled/pip-*'))";
  return (await evaluate(python, code).catch(() => "")).split(" ")[0] ?? "";
}
