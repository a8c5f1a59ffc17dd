import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { verifies } from "../../verifies.ts";
import { SEARCH_PATH, buildPlace, evaluate } from "./site.ts";
import { GREETING, testIndex, writeWheels } from "./wheels.ts";

describe("packages", () => {
  verifies(
    "deploy.pip",
    "packages of the table come from the host's index, with what they need",
    async () => {
      const place = await buildPlace();
      const index = await testIndex(await writeWheels(path.join(place.directory, "wheels"), GREETING));
      const { result, lines } = await place.build(
        {},
        {
          toml: '[dependencies.pip]\nGreeting = "1.2"\npolite = "latest"\n',
          host: place.withIndex(index.url),
        },
      );
      const { environment, python } = result;
      expect(python).toBe(path.join(environment!, "bin", "python"));
      expect(await evaluate(python!, "import greeting; greeting.main()")).toBe("thanks");
      // A script names the interpreter by its final path.
      const greet = await promisify(execFile)(path.join(environment!, "bin", "greet"), []);
      expect(greet.stdout).toBe("thanks\n");
      expect(lines[0]).toMatch(/^installing 2 packages from \[dependencies\.pip\] with pip…$/);
      expect(lines.at(-1)).toMatch(/^environment ready in \d+\.\d s$/);
      expect(lines.join("\n")).toMatch(/greeting/i);
      const compiled = await evaluate(
        python!,
        "import importlib.util, os; print(os.path.exists(importlib.util.find_spec('polite').cached))",
      );
      expect(compiled).toBe("True");
    },
  );

  verifies(
    "deploy.compiler",
    "a package whose build finds no compiler is told the system package",
    async () => {
      const place = await buildPlace();
      // Builds as setuptools does, as far as a missing compiler is concerned, and needs nothing but the standard library.
      const backend = `
import subprocess, sys

def build_wheel(folder, settings=None, metadata=None):
    try:
        subprocess.run(["mr-no-such-dir/gcc"])
    except OSError:
        sys.exit("error: command 'gcc' failed: No such file or directory")
`;
      const project =
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n' +
        '[project]\nname = "needs-c"\nversion = "1"\n';
      const files = {
        "requirements.txt": "./needs-c\n",
        "needs-c/pyproject.toml": project,
        "needs-c/backend.py": backend,
      };
      const paths = '[dependencies.paths]\npip = "requirements.txt"\n';
      const bare = await place.failure(files, { toml: paths });
      expect(bare.message).toMatch(
        /^pip could not install the packages from requirements\.txt: .*\. A package has to be compiled, and gcc is missing: add build-essential to \[dependencies\.apt\], which needs podman or docker on this host /,
      );
    },
  );

  verifies("deploy.pip", "a file with wheels of the bundle needs no index", async () => {
    const place = await buildPlace();
    const files = {
      "requirements.txt": [
        "# what we need",
        "--find-links ./wheels  # beside this file",
        "-r more/others.txt",
        'nothing-at-all ; python_version < "3"',
      ].join("\n"),
      "more/others.txt": "greeting \\\n  >= 1\n-c limits.txt\n",
      "more/limits.txt": "polite<2\n",
    };
    const { result } = await place.build(files, { wheels: { wheels: GREETING } });
    expect(await evaluate(result.python!, "import greeting; greeting.main()")).toBe("please");
  });

  verifies("deploy.pip", "paths.pip names the file, and a wheel in the bundle is a requirement", async () => {
    const place = await buildPlace();
    const { result } = await place.build(
      { "deps.txt": "./polite-1.0-py3-none-any.whl\n", "requirements.txt": "never-asked-for\n" },
      {
        toml: '[dependencies.pip]\nnot_this = "1"\n[dependencies.paths]\npip = "deps.txt"\n',
        wheels: { "": GREETING.slice(1, 2) },
      },
    );
    expect(await evaluate(result.python!, "import polite; print(polite.word)")).toBe("please");
  });

  verifies("deploy.pip", "a package that does not exist ends the build with its name", async () => {
    const place = await buildPlace();
    const index = await testIndex(await writeWheels(path.join(place.directory, "wheels"), GREETING));
    const { message } = await place.failure(
      { "requirements.txt": "polite\nno-such-package==3\n" },
      { host: place.withIndex(index.url) },
    );
    expect(message).toMatch(/could not install the packages from requirements\.txt: .*no-such-package/);
    expect(await place.environments()).toEqual([]);
  });

  verifies(
    "deploy.pip",
    "lines that would do more than install are refused before anything runs",
    async () => {
      const place = await buildPlace();
      const { message, lines } = await place.failure({
        "requirements.txt": "--index-url https://elsewhere.test/\npolite\ngit+ssh://git@host.test/x\n",
      });
      expect(message).toMatch(/^requirements\.txt line 1: "--index-url .*" .* \(and 1 more\)$/);
      expect(lines).toEqual([
        expect.stringMatching(/^requirements\.txt line 1: /),
        expect.stringMatching(/^requirements\.txt line 3: /),
      ]);
      const missing = await place.failure({}, { toml: '[dependencies.paths]\npip = "none.txt"\n' });
      expect(missing.message).toBe("none.txt: there is no such file in the bundle");
      expect(await place.environments()).toEqual([]);
    },
  );

  test("uv installs them where it is on the path, from the index that pip is told of", async (context) => {
    const place = await buildPlace();
    const folder = SEARCH_PATH.find((some) => existsSync(path.join(some, "uv")));
    context.skip(folder === undefined, "NOT TESTED: this host has no uv");
    const index = await testIndex(await writeWheels(path.join(place.directory, "wheels"), GREETING));
    const known = place.withIndex(index.url);
    const host = { ...known, PATH: `${known["PATH"]}:${folder}` };
    const { result, lines } = await place.build({ "requirements.txt": "greeting\n" }, { host });
    expect(await evaluate(result.python!, "import greeting; greeting.main()")).toBe("thanks");
    expect(lines[0]).toBe("installing 1 package from requirements.txt with uv…");
    const { message } = await place.failure({ "requirements.txt": "no-such-package\n" }, { host });
    expect(message).toMatch(/^uv could not install .*no-such-package/);
  });

  test("no dependencies: no environment", async () => {
    const place = await buildPlace();
    const { result, lines } = await place.build({ "requirements.txt": "# nothing yet\n" });
    expect(result).toEqual({ environment: null, python: null });
    expect(lines).toEqual([]);
    expect(await place.environments()).toEqual([]);
  });
});
