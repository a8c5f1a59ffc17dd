import { existsSync } from "node:fs";
import { readdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { buildPlace, servicePython } from "./site.ts";
import { verifies } from "../../verifies.ts";

describe("a bundle", () => {
  test("is compiled", async () => {
    const place = await buildPlace();
    const { bundleDir } = await place.build({ "main.py": "x = 1", "lib/deep/other.py": "y = 2" });
    expect(await readdir(path.join(bundleDir, "__pycache__"))).toHaveLength(1);
    expect(await readdir(path.join(bundleDir, "lib/deep/__pycache__"))).toHaveLength(1);
  });

  test("with a mistake in main.py fails with the line; elsewhere it is a warning", async () => {
    const place = await buildPlace();
    const { message, lines } = await place.failure({
      "main.py": "def run():\n    return (1 +\n",
      "tests/old.py": "print 'hello'\n",
      "bytes.py": "x = '\0'\n",
    });
    expect(message).toMatch(/^main\.py, line 2: SyntaxError: .*: return \(1 \+$/);
    expect(lines.toSorted()).toEqual([
      expect.stringMatching(/^warning: bytes\.py.*: (SyntaxError|ValueError): .*null/),
      expect.stringMatching(/^warning: tests\/old\.py, line 1: SyntaxError: .*: print 'hello'$/),
    ]);
  });

  verifies(
    "deploy.syntax",
    "with a Python file of its own that does not parse is refused before its first command",
    async () => {
      const place = await buildPlace();
      const broken = "def run(:\n";
      const files = {
        "lib/one.py": "x = 1\n\ndef f(:\n",
        "lib/two.py": "print 'hello'\n",
        "env/pyvenv.cfg": "",
        "env/lib/python3/mine.py": broken,
        "lib/site-packages/theirs.py": broken,
        "node_modules/gyp/old.py": broken,
        ".hidden/mine.py": broken,
        "notes.txt": broken,
      };
      const toml = '[deployment]\npre_build_commands = ["echo begun"]\n';
      const { message, lines } = await place.failure(files, { toml, checksSyntax: true });
      expect(message).toMatch(
        /^lib\/one\.py, line 3: SyntaxError: .* \(and 1 more\)\. Fix it or exclude the file, or deploy with --disable-syntax-check$/,
      );
      expect(lines).toEqual([
        expect.stringMatching(/^lib\/one\.py, line 3: /),
        expect.stringMatching(/^lib\/two\.py, line 1: /),
      ]);
      const { "lib/one.py": _, "lib/two.py": __, ...others } = files;
      await place.build(others, { toml, checksSyntax: true });
      // A file that breaks the parser is none that does not parse.
      await place.build({ "deep.py": `x = ${"-".repeat(100_000)}1\n` }, { checksSyntax: true });
      expect((await place.build(files, { toml })).lines).toContain("begun");
    },
  );

  verifies("deploy.syntax", "is read with the Python that it will run on", async () => {
    const place = await buildPlace();
    // Stands for a Python with another syntax: what it says counts, and not what the service's own would.
    const reader = path.join(place.directory, "python");
    const { path: own, version } = await servicePython();
    await writeFile(
      reader,
      `#!/bin/sh\ncase "$*" in *ast.parse*) echo '{"file":"new.py","line":7,"text":null,"message":"SyntaxError: too new"}'; echo done; exit;; esac\nexec ${own} "$@"\n`,
      { mode: 0o755 },
    );
    const python = { path: reader, version };
    const { message } = await place.failure({ "new.py": "x = 1\n" }, { python, checksSyntax: true });
    expect(message).toMatch(/^new\.py, line 7: SyntaxError: too new\. /);
  });

  test("without main.py, or with one that cannot be read as text, is told so", async () => {
    const place = await buildPlace();
    const { message } = await place.failure({}, { toml: '[deployment]\nshell_commands = ["rm main.py"]\n' });
    expect(message).toBe("there is no main.py at the root of the bundle");
    const odd = await place.failure({ "main.py": "# coding: no-such-code\n" });
    expect(odd.message).toMatch(/^main\.py.*no-such-code/);
  });

  test("that breaks the compiler is left to its first replica", async () => {
    const place = await buildPlace();
    const { result } = await place.build({ "main.py": "x = 1", "deep.py": `x = ${"(".repeat(100_000)}` });
    expect(result.python).toBeNull();
  });

  test("with links to nowhere and folders named like files is compiled past them", async () => {
    const place = await buildPlace();
    const toml = '[deployment]\nshell_commands = ["ln -s /nowhere gone.py; mkdir folder.py"]\n';
    const { bundleDir } = await place.build({}, { toml });
    expect(existsSync(path.join(bundleDir, "__pycache__"))).toBe(true);
  });
});

describe("what this host cannot give", () => {
  verifies(
    "config.runtime-custom.refused",
    "a Dockerfile and a server without a command are refused",
    async () => {
      const place = await buildPlace();
      const toml = '[runtime.custom]\ndockerfile_path = "Dockerfile"\n';
      const lacking = await place.failure({}, { toml });
      expect(lacking.message).toBe("dockerfile_path: there is no Dockerfile in the bundle");
      const given = await place.failure({ Dockerfile: "FROM x" }, { toml });
      expect(given.message).toMatch(/^a Dockerfile needs podman or docker on this host: .*\. Install podman/);
      const empty = await place.failure({}, { toml: "[runtime.custom]\nport = 8000\n" });
      expect(empty.message).toMatch(/^runtime\.custom\.entrypoint is missing: /);
    },
  );

  verifies("hosted.images", "system and Conda packages are named, with what would install them", async () => {
    const place = await buildPlace();
    const wish = '[dependencies.apt]\n"no-such-thing" = "latest"\n';
    const needed = "[deployment]\nrequire_image = true\n";
    const apt = await place.failure({}, { toml: wish + needed });
    expect(apt.message).toMatch(
      /missing on this host: no-such-thing\. .* runs: apt-get install no-such-thing\. Install/,
    );
    const list = { "pkglist.txt": "no-such-thing\n", "conda_pkglist.txt": "\n" };
    const generated = await place.failure(list, { toml: needed });
    expect(generated.message).toBe(apt.message);
    const { lines } = await place.build(list);
    expect(lines).toEqual([
      expect.stringMatching(
        /^warning: system packages are missing on this host: no-such-thing\..* require_image = true$/,
      ),
    ]);
    const image = `${needed}docker_base_image_url = "debian:12"\n`;
    expect((await place.failure({}, { toml: image })).message).toMatch(
      /^require_image is set, but docker_base_image_url needs podman or docker/,
    );
    const conda = await place.failure({}, { toml: '[dependencies.conda]\ncuda = "12"\n' });
    expect(conda.message).toMatch(/^Conda packages are not supported on this host \(cuda\)/);
  });

  verifies("app.storage.named", "the hosted original's path of storage is warned of, once", async () => {
    const place = await buildPlace();
    const files = { "lib/load.py": 'WEIGHTS = "/persistent-storage/w"', "again.py": "# /persistent-storage" };
    const { lines } = await place.build(files);
    expect(lines).toEqual([
      expect.stringMatching(
        /^warning: (?:lib\/load|again)\.py names \/persistent-storage, .* PERSISTENT_STORAGE$/,
      ),
    ]);
    expect((await place.build({ "data.bin": "/persistent-storage" })).lines).toEqual([]);
  });

  verifies("config.hardware.absent-on-host", "hardware and an image it has not are warnings", async () => {
    const place = await buildPlace();
    const { lines } = await place.build(
      {},
      {
        toml: `
[deployment]
docker_base_image_url = "debian:12"
[hardware]
cpu = 500
memory = 16000
`,
      },
    );
    expect(lines).toEqual([
      expect.stringMatching(/^warning: cpu = 500, but this host has \d+$/),
      expect.stringMatching(/^warning: memory = 16000 GB, but this host has [\d.]+ GB$/),
      expect.stringMatching(
        /^warning: docker_base_image_url needs podman or docker on this host: .* without it/,
      ),
    ]);
  });
});
