import { execFile, execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished } from "vitest";
import { makeImage, makeWorkerImage, neededModules } from "../../scripts/worker-image.ts";
import { REPOSITORY } from "../support/source-files.ts";
import { verifies } from "../verifies.ts";

type Config = { config: Record<string, unknown>; rootfs: { diff_ids: string[] } };

function scratch(): string {
  const folder = mkdtempSync(path.join(tmpdir(), "millrace-image-test-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** What is in an archive of an image. */
function unpacked(archive: string) {
  const folder = scratch();
  execFileSync("tar", ["-C", folder, "-xf", archive]);
  const read = (name: string): Buffer => readFileSync(path.join(folder, name));
  const [image] = JSON.parse(read("manifest.json").toString()) as {
    Config: string;
    RepoTags: string[];
    Layers: string[];
  }[];
  const config = JSON.parse(read(image!.Config).toString()) as Config;
  const files = image!.Layers.map((layer) =>
    execFileSync("tar", ["-tf", path.join(folder, layer)], { encoding: "utf8" }).split("\n"),
  );
  const hashes = image!.Layers.map(
    (layer) => `sha256:${createHash("sha256").update(read(layer)).digest("hex")}`,
  );
  return { image: image!, config, files, hashes };
}

verifies(
  "kubernetes.image",
  "the script lays the agent and the harness over an image, the same each time",
  async () => {
    const folder = scratch();
    const root = path.join(folder, "root");
    mkdirSync(path.join(root, "etc"), { recursive: true });
    writeFileSync(path.join(root, "etc", "base"), "base");
    const [base, out, again] = ["base.tar", "out.tar", "again.tar"].map((name) => path.join(folder, name));
    await makeImage({ base: null, layers: [root], name: "base:1", out: base! });
    const plan = { base: base!, layers: [], name: "worker:1" };
    await makeWorkerImage({ ...plan, out: out! });
    await makeWorkerImage({ ...plan, out: again! });
    expect(readFileSync(out!).equals(readFileSync(again!))).toBe(true);
    const { image, config, files, hashes } = unpacked(out!);
    expect(image.RepoTags).toEqual(["worker:1"]);
    expect(config.rootfs.diff_ids).toEqual(hashes);
    expect(files[0]).toContain("./etc/base");
    expect(files[1]).toContain("./opt/millrace/python/millrace_agent/__main__.py");
    expect(files[1]?.some((name) => name.includes("__pycache__"))).toBe(false);
  },
);

verifies("kubernetes.image", "the Dockerfile makes the same of a Python image", async () => {
  const folder = scratch();
  const out = path.join(folder, "out.tar");
  await makeWorkerImage({ base: null, layers: [], name: "worker:1", out });
  const { config, files } = unpacked(out);
  const text = readFileSync(path.join(REPOSITORY, "packaging/worker/Dockerfile"), "utf8");
  const copied = [...text.matchAll(/^COPY python\/(\S+) \/opt\/millrace\/python\/(\S+)$/gm)];
  expect(copied.map(([, from]) => from)).toEqual(copied.map(([, , to]) => to));
  const packages = files[0]?.flatMap((name) => /^\.\/opt\/millrace\/python\/(\w+)\/$/.exec(name)?.[1] ?? []);
  expect(packages).toEqual(copied.map(([, from]) => from));
  expect(/^USER (.*)$/m.exec(text)?.[1]).toBe(config.config["User"]);
  expect(/^WORKDIR (.*)$/m.exec(text)?.[1]).toBe(config.config["WorkingDir"]);
  expect(JSON.parse(/^CMD (.*)$/m.exec(text)?.[1] ?? "")).toEqual(config.config["Cmd"]);
});

verifies(
  "kubernetes.tools",
  "the Dockerfile installs a compiler, git and uv, and the document says so",
  () => {
    const read = (file: string): string => readFileSync(path.join(REPOSITORY, file), "utf8");
    const text = read("packaging/worker/Dockerfile");
    const [, packages = ""] = /apt-get install --yes --no-install-recommends (.*) \\$/m.exec(text) ?? [];
    expect(packages.split(" ")).toEqual(expect.arrayContaining(["gcc", "g++", "libc6-dev", "make", "git"]));
    expect(text).toMatch(/^ARG UV=\d+\.\d+\.\d+$/m);
    expect(text).toContain("uv==${UV}");
    // As root, before the files that change with each release: the layer is kept.
    expect(text.indexOf("apt-get")).toBeLessThan(text.indexOf("COPY "));
    expect(read("docs/kubernetes.md")).toContain("a C and C++ compiler, `make`, `git` and `uv`");
  },
);

verifies(
  "kubernetes.image-checked",
  "a Python that lacks a module of the agent's makes no worker image",
  async () => {
    const folder = scratch();
    const library = path.join(folder, "root", "usr/lib/python3.12");
    const told = execFileSync("python3", ["-I", "-c", "import sys; print(*sorted(sys.stdlib_module_names))"]);
    for (const name of told.toString().trim().split(" ")) {
      mkdirSync(path.join(library, name), { recursive: true });
      writeFileSync(path.join(library, name, "__init__.py"), "");
    }
    const plan = { base: null, layers: [path.join(folder, "root")], name: "worker:1" };
    const out = path.join(folder, "out.tar");
    await makeWorkerImage({ ...plan, out });
    rmSync(path.join(library, "json"), { recursive: true });
    rmSync(path.join(library, "ssl"), { recursive: true });
    await expect(makeWorkerImage({ ...plan, out })).rejects.toThrow(
      "worker:1: its Python lacks json, ssl, which",
    );
  },
);

verifies(
  "kubernetes.image-checked",
  "the agent finds out what its image lacks, and what it cannot reach",
  async () => {
    const agent = path.join(REPOSITORY, "python/millrace_agent");
    const check = async (...addresses: string[]): Promise<string> =>
      await promisify(execFile)("python3", ["-I", agent, "--check", ...addresses]).then(
        ({ stderr }) => stderr,
        ({ stderr }: { stderr: string }) => stderr,
      );
    const server = createServer((socket) => socket.destroy()).listen(0, "127.0.0.1");
    onTestFinished(() => void server.close());
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    expect(await check(`127.0.0.1:${port}`)).toBe("");
    expect(await check("127.0.0.1:1")).toMatch(/^127\.0\.0\.1:1 cannot be reached: .*refused\n$/);
    // A Python without json, which the agent imports only later.
    const lacking = async (...args: string[]): Promise<string> => {
      const lame = `import sys
sys.modules["json"] = None
sys.argv = ["agent", *${JSON.stringify(args)}]
import runpy
runpy.run_path(${JSON.stringify(agent)}, run_name="__main__")`;
      const { stderr } = await promisify(execFile)("python3", ["-I", "-c", lame]).catch(
        (error: unknown) => error as { stderr: string },
      );
      return stderr;
    };
    expect(await lacking("--check")).toMatch(/^the image's Python 3\.\d+ lacks a module: .*json/m);
    // Without the check it says the same on one line, and shows no traceback.
    expect(await lacking("order.json")).toMatch(
      /^Python 3\.\d+ lacks a module that the agent needs: .*json.*\n$/,
    );
  },
);

verifies(
  "kubernetes.image",
  "each module that is looked for in a base image is a file in a whole Python",
  () => {
    const needed = neededModules(path.join(REPOSITORY, "python"));
    expect(needed).toContain("socket");
    const program = `import os, sys
library = os.path.dirname(os.__file__)
files = lambda name: (os.path.join(library, name + ".py"), os.path.join(library, name, "__init__.py"))
print(*[name for name in sys.argv[1:] if not any(map(os.path.exists, files(name)))])`;
    expect(execFileSync("python3", ["-c", program, ...needed], { encoding: "utf8" }).trim()).toBe("");
  },
);
