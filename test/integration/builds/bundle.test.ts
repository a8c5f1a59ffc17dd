import { existsSync } from "node:fs";
import { readdir } from "node:fs/promises";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { buildPlace } from "./site.ts";
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
