import { expect } from "vitest";
import { MissingTools, usesApt } from "../../../../src/apps/builds/missing-tools.ts";
import type { BuildSite } from "../../../../src/apps/builds/site.ts";
import { readAppConfig } from "../../../../src/config/app-config.ts";
import { verifies } from "../../../verifies.ts";

function siteOf(toml: string, isElsewhere = false): BuildSite {
  const { config } = readAppConfig({
    toml: { text: toml, fileName: "millrace.toml" },
    host: { cpuCount: 1 },
  });
  const seat = isElsewhere ? { seat: {} } : {};
  return { config, bundleDir: "/nowhere", ...seat } as unknown as BuildSite;
}

async function advice(line: string, toml = "", isElsewhere = false): Promise<string> {
  const tools = new MissingTools();
  tools.take("Collecting something");
  tools.take(line);
  return await tools.advice(siteOf(toml, isElsewhere));
}

/** As pip and what it runs print them. */
const SAID: readonly (readonly [string, string])[] = [
  ["      /bin/sh: 1: pkg-config: not found", "add pkg-config to"],
  ["      Modules/common.h:15:10: fatal error: lber.h: No such file or directory", "add libldap-dev to"],
  ["  error: command 'gcc' failed: No such file or directory", "add build-essential to"],
  ["      error: command 'x86_64-linux-gnu-gcc' failed: No such file or directory", "add build-essential to"],
  ["error: [Errno 2] No such file or directory: 'cmake'", "add cmake to"],
  ["      unable to execute 'g++': No such file or directory", "add build-essential to"],
  ["src/x.c:1:10: fatal error: Python.h: No such file or directory", "add python3-dev to"],
  ["      ./psycopg/psycopg.h:35:10: fatal error: libpq-fe.h: No such file or directory", "add libpq-dev to"],
  ["      Error: pg_config executable not found.", "add libpq-dev to"],
  ["ERROR: Cannot find command 'git' - do you have 'git' installed and in your PATH?", "add git to"],
  ["../meson.build:1:0: ERROR: Unknown compiler(s): [['cc'], ['gcc'], ['clang']]", "add build-essential to"],
  ["x.c:1:10: fatal error: rare/thing.h: No such file or directory", "add its system package to"],
];

verifies("deploy.compiler", "what is missing is read from what compilers and installers say", async () => {
  for (const [line, part] of SAID)
    expect([line, await advice(line)]).toEqual([line, expect.stringContaining(part)]);
  for (const line of ["error: subprocess-exited-with-error", "command 'gcc' succeeded", "cmake 3.2 found"])
    expect([line, await advice(line)]).toEqual([line, ""]);
});

verifies("deploy.compiler", "a package that the app lists is named, with the engine it needs", async () => {
  const toml = '[dependencies.apt]\nlibpq-dev = "latest"\nrare-dev = "latest"\n';
  expect(await advice("Error: pg_config executable not found.", toml)).toBe(
    ". A package has to be compiled, and pg_config is missing: [dependencies.apt] lists libpq-dev, which needs podman or docker on this host (docs/images.md)",
  );
  expect(await advice("fatal error: rare.h: No such file or directory", toml)).toContain(
    "[dependencies.apt] lists libpq-dev, rare-dev, which needs podman",
  );
  expect(await advice("error: command 'gcc' failed: No such file or directory", toml, true)).toContain(
    "add build-essential to [dependencies.apt], which needs images to be built in the cluster",
  );
});

verifies("deploy.compiler", "in an image, what is missing goes into the image", async () => {
  const said = async (packagesBy: "apt" | "dockerfile", ...lines: string[]): Promise<string> => {
    const tools = new MissingTools();
    for (const line of lines) tools.take(line);
    return await tools.advice({ ...siteOf(""), packagesBy });
  };
  const gcc = "  error: command 'gcc' failed: No such file or directory";
  expect(await said("apt", "STEP 4/9: RUN pip", gcc)).toBe(
    ". A package has to be compiled, and gcc is missing: add build-essential to [dependencies.apt]",
  );
  expect(await said("dockerfile", "#9 [3/4] RUN pip", `#9 1.204 ${gcc}`)).toBe(
    ". gcc is missing in the image: have the Dockerfile install build-essential before this step",
  );
  expect(await said("dockerfile", "#9 0.1 /bin/sh: 1: rare: not found")).toContain(
    "install its system package before",
  );
  // A step that went on without it was not the one that failed.
  for (const next of ["STEP 5/9: RUN exit 7", "#10 [4/4] RUN exit 7"])
    expect(await said("apt", "STEP 4/9: RUN ./configure", gcc, next)).toBe("");
});

verifies("deploy.apt", "a command that installs system packages is told from one that only says so", () => {
  for (const text of [
    "apt-get install -y ffmpeg",
    "apt update",
    "sudo apt-get -qq update",
    "true && apt-get -y install x",
    "set -e\napt install x\n",
    'sh -c "apt-get install x"',
  ])
    expect([text, usesApt(text)]).toEqual([text, true]);
  for (const text of ["echo adapt install", "apt-get --version", "cat apt/install", "pip install apt"])
    expect([text, usesApt(text)]).toEqual([text, false]);
});
