import { readdir } from "node:fs/promises";
import path from "node:path";
import { expect } from "vitest";
import { verifies } from "../../verifies.ts";
import { buildPlace, servicePython } from "./site.ts";
import { GREETING, testIndex, writeWheels } from "./wheels.ts";

verifies("deploy.dry-run", "it says where an app would run, on what, and with which packages", async () => {
  const place = await buildPlace();
  const index = await testIndex(await writeWheels(path.join(place.directory, "wheels"), GREETING));
  const toml = `
[deployment]
pre_build_commands = ["touch made"]
[dependencies.pip]
Greeting = "1.2"
[hardware]
cpu = 512
`;
  const { plan, problems, lines } = await place.inspect({}, { toml, host: place.withIndex(index.url) });
  const { version, path: python } = await servicePython();
  expect(problems).toEqual([]);
  expect(plan).toEqual([
    "run as a process of this host",
    `use Python ${version} (${python})`,
    "install from [dependencies.pip]: greeting==1.2",
    "run of pre_build_commands: touch made",
    expect.stringMatching(/^run 0 to \d+ replicas, each with 512 cores and \d/),
  ]);
  expect(lines).toEqual([expect.stringMatching(/^warning: cpu = 512, but this host has \d+$/)]);
  // Nothing was installed, and no command has run.
  expect(await place.environments()).toEqual([]);
  const [bundle = ""] = await readdir(path.join(place.directory, "work"));
  expect(await readdir(path.join(place.directory, "work", bundle))).toEqual(["main.py"]);
});

verifies("deploy.dry-run", "it finds every problem at once, and asks the index for names alone", async () => {
  const place = await buildPlace();
  const index = await testIndex(await writeWheels(path.join(place.directory, "wheels"), GREETING));
  const toml = `
[deployment]
python_version = "3.99"
[dependencies.pip]
Greeting = "99.0"
no-such-package-here = "latest"
[dependencies.conda]
cuda = "12"
`;
  const host = place.withIndex(index.url);
  const found = await place.inspect({ "main.py": "def f(:\n" }, { toml, host, checksSyntax: true });
  expect(found.problems).toEqual([
    expect.stringMatching(/^Conda packages are not supported on this host \(cuda\)/),
    expect.stringMatching(/^python_version = "3\.99" is not installed on this host/),
    "[dependencies.pip]: the package index has no no-such-package-here; check its spelling",
  ]);
  const broken = await place.inspect({ "main.py": "def f(:\n" }, { checksSyntax: true });
  expect(broken.problems).toEqual([expect.stringMatching(/^main\.py, line 1: SyntaxError.*\. Fix it or/)]);
  // Each of several is named: a dry run has no log where the others could be.
  const many = Object.fromEntries(Array.from({ length: 30 }, (_, at) => [`f${at + 10}.py`, "("]));
  expect((await place.inspect(many, { checksSyntax: true })).problems).toEqual([
    ...Array.from({ length: 20 }, (_, at) => expect.stringContaining(`f${at + 10}.py, line 1: SyntaxError`)),
    "… and 10 more",
    expect.stringMatching(/^Fix it or exclude the file/),
  ]);
  const lines = "--trusted-host x\nfoo @ https://me:s3cret@example.com/foo.whl\n/etc/passwd\n";
  expect((await place.inspect({ "requirements.txt": lines }, {})).problems).toEqual([
    expect.stringContaining("requirements.txt line 1: "),
    expect.stringContaining("requirements.txt line 3: "),
  ]);
  // Folders that pip looks into count too, with and without an index.
  const folder = path.join(place.directory, "wheels");
  const wish = '[dependencies.pip]\ngreeting = "latest"\nno-such-package-here = "latest"\n';
  for (const offline of [
    { ...place.host, PIP_FIND_LINKS: folder },
    { ...host, PIP_FIND_LINKS: folder },
  ]) {
    expect((await place.inspect({}, { toml: wish, host: offline })).problems).toEqual([
      "[dependencies.pip]: the package index has no no-such-package-here; check its spelling",
    ]);
  }
  // The password of an address is not shown, wherever a long line is cut off.
  const secret = `foo @ https://${"u".repeat(180)}:s3cret@example.com/foo.whl\n`;
  expect((await place.inspect({ "requirements.txt": secret }, {})).plan).toContain(
    "install from requirements.txt: foo @ https://…@example.com/foo.whl",
  );
  // An index that does not answer proves nothing.
  const silent = place.withIndex("http://127.0.0.1:1/simple");
  const pip = '[dependencies.pip]\ngreeting = "latest"\n';
  expect(await place.inspect({}, { toml: pip, host: silent })).toMatchObject({
    problems: [],
    lines: ["warning: could not ask the package index for greeting"],
  });
});
