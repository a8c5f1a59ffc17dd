import {
  chmodSync,
  chownSync,
  mkdirSync,
  realpathSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { hostPythonBehind, hostPythons } from "../../src/host/host-pythons.ts";
import { findInterpreter } from "../../src/host/interpreter.ts";
import { testService } from "../support/service.ts";
import { copyPython } from "../support/walls/copied-python.ts";
import { TRIED_RUNGS } from "../support/walls/tried-rungs.ts";
import { onlyUpTo, requireOffered } from "../support/walls/walled.ts";
import { verifies } from "../verifies.ts";
import { type BuildPlace, buildPlace, servicePython } from "../integration/builds/site.ts";
import { OnceClient } from "../integration/once/site.ts";

/** A command that tells which interpreter it gets by each name. */
const TELL = `for name in python python3; do $name -c 'import sys; print(sys.version.split()[0], sys.base_prefix)'; done`;
const NOBODY = 65_534;

/** Where a host may have an interpreter. */
type Layout = {
  readonly name: string;
  /** Makes a copy of one in a home; gives the folder that it will call its own, and what the host's variables say. */
  readonly make: (
    home: string,
    base: string,
  ) => { readonly prefix: string; readonly host?: NodeJS.ProcessEnv };
};

const inHome = (name: string, folder: string): Layout => ({
  name,
  make: (home, base) => {
    const prefix = path.join(home, folder);
    copyPython(base, prefix, false);
    return { prefix };
  },
});

const LAYOUTS: readonly Layout[] = [
  inHome("pyenv", ".pyenv/versions/3.99.1"),
  inHome("mise", ".local/share/mise/installs/python/3.99.1"),
  inHome("a conda environment", "miniconda3/envs/work"),
  {
    name: "uv, by the link of a minor version",
    make: (home, base) => {
      const folder = path.join(home, ".local/share/uv/python");
      copyPython(base, path.join(folder, "builds/cpython-3.99.1-linux"), false);
      const prefix = path.join(folder, "cpython-3.99-linux");
      symlinkSync("builds/cpython-3.99.1-linux", prefix);
      return { prefix };
    },
  },
  {
    name: "below a folder that is a link",
    make: (home, base) => {
      copyPython(base, path.join(home, "disk/versions/3.99.1"), false);
      symlinkSync("disk", path.join(home, ".pyenv"));
      return { prefix: path.join(home, ".pyenv/versions/3.99.1") };
    },
  },
  {
    name: "one name in a folder of links",
    make: (home, base) => {
      const prefix = path.join(home, "python");
      const program = copyPython(base, prefix, false);
      const links = path.join(home, ".local/bin");
      mkdirSync(links, { recursive: true });
      symlinkSync(program, path.join(links, path.basename(program)));
      return { prefix, host: { PATH: links } };
    },
  },
];

/** Each takes seconds: `npm test` tries one. */
const TRIED_LAYOUTS = LAYOUTS.filter(({ name }) => TRIED_RUNGS.length > 1 || name.startsWith("uv"));

/** A home that nobody but the service's user may pass. */
function closedHome(place: BuildPlace): string {
  const home = path.join(place.directory, "home");
  chmodSync(home, 0o700);
  writeFileSync(path.join(home, "private"), "");
  return home;
}

const minorOf = (version: string): string => version.split(".").slice(0, 2).join(".");

for (const rung of TRIED_RUNGS) {
  verifies(
    "walls.interpreters",
    `on ${rung} build commands run on an interpreter in a closed home, wherever version managers put it`,
    async (context) => {
      await requireOffered(rung, context);
      const { path: own, version, base } = await findInterpreter("python3");
      for (const { name, make } of TRIED_LAYOUTS) {
        const place = await buildPlace();
        const home = closedHome(place);
        const { prefix, host } = make(home, base);
        // The first level hides no files.
        const look = rung === "process" ? "/bin/cat" : "! /bin/cat";
        const toml = [
          "[deployment]",
          `python_version = "${minorOf(version)}"`,
          `pre_build_commands = [${JSON.stringify(TELL)}]`,
          `shell_commands = [${JSON.stringify(TELL)}, "python -c 'import one'", "${look} ${home}/private"]`,
        ];
        const options = {
          toml: toml.join("\n"),
          level: rung,
          wheels: { "": [{ name: "one", version: "1.0" }] },
          // As if the service itself ran on another one.
          python: { path: own, version: "3.1.4" },
          host: { ...place.host, PATH: "", ...host },
        };
        const { lines } = await place.build({ "requirements.txt": "./one-1.0-py3-none-any.whl\n" }, options);
        const told = lines.filter((line) => line.startsWith(`${version} `));
        expect([name, told]).toEqual([name, Array(4).fill(`${version} ${prefix}`)]);
      }
    },
  );

  verifies(
    "walls.interpreters",
    `on ${rung} an interpreter that is out of an app's reach is named with what keeps it there`,
    async (context) => {
      await requireOffered(rung, context);
      if (process.getuid?.() !== 0) context.skip("only root reads what is closed to others");
      const { path: own, version, base } = await findInterpreter("python3");
      const place = await buildPlace();
      const prefix = path.join(place.directory, "home/.pyenv/versions/3.99.1");
      const program = copyPython(base, prefix, false);
      const options = {
        toml: `[deployment]\npython_version = "${minorOf(version)}"\n`,
        level: rung,
        python: { path: own, version: "3.1.4" },
        host: { ...place.host, PATH: "" },
      };
      // Root may pass it, and gives that up behind walls.
      const closed = path.join(place.directory, "home/.pyenv");
      chownSync(closed, NOBODY, NOBODY);
      chmodSync(closed, 0o700);
      const { message } = await place.failure({}, options);
      expect(message).toContain(`Python ${version} (${program}) cannot run apps here: `);
      expect(message).toContain(`${closed} has mode 0700 and belongs to another user; install it where`);
    },
  );
}

verifies(
  "walls.interpreters",
  "on uid an interpreter whose library other users may not read is named",
  async (context) => {
    await requireOffered("uid", context);
    const { path: own, version, base } = await findInterpreter("python3");
    const place = await buildPlace();
    const prefix = path.join(place.directory, "home/.pyenv/versions/3.99.1");
    copyPython(base, prefix, false);
    chmodSync(path.join(prefix, "lib"), 0o700);
    const options = {
      toml: `[deployment]\npython_version = "${minorOf(version)}"\n`,
      level: "uid",
      python: { path: own, version: "3.1.4" },
      host: { ...place.host, PATH: "" },
    } as const;
    const { message } = await place.failure({}, options);
    expect(message).toContain(`${prefix}/lib has mode 0700 and belongs to another user`);
    chmodSync(path.join(prefix, "lib"), 0o755);
    await place.build({}, options);
  },
);

verifies(
  "walls.interpreters.linked",
  "of what an environment links to only a Python that the service looks for is taken for one",
  async () => {
    const { base, path: own } = await findInterpreter("python3");
    const place = await buildPlace();
    const link = path.join(place.directory, "python");
    const behind = async (target: string): Promise<string | null> => {
      symlinkSync(target, link);
      const found = await hostPythonBehind(link, own, place.host);
      unlinkSync(link);
      return found;
    };
    const installed = copyPython(base, path.join(place.directory, "home/.pyenv/versions/3.99.1"), false);
    const hidden = copyPython(base, path.join(place.directory, "home/private"), false);
    expect(await behind(base)).toBe(realpathSync(base));
    expect(await behind(installed)).toBe(installed);
    expect(await behind(hidden)).toBeNull();
    expect(await behind(path.join(place.directory, "home/bin/python3.12"))).toBeNull();
    // A script that starts one, as shims do: what it starts is found by asking it.
    const shim = path.join(place.directory, `bin/${path.basename(hidden)}`);
    mkdirSync(path.dirname(shim));
    writeFileSync(shim, `#!/bin/sh\nexec ${hidden} "$@"\n`, { mode: 0o755 });
    symlinkSync(hidden, link);
    const host = { ...place.host, PATH: path.dirname(shim) };
    expect(await hostPythonBehind(link, own, host)).toBe(hidden);
  },
);

const SERVER = `
import json, os, subprocess, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        told = [sys.version.split()[0], open("told").read().strip()]
        told.append(subprocess.run(["python", "-V"], stdout=subprocess.PIPE, text=True).stdout.split()[-1])
        body = json.dumps(told).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
`;

const FILE =
  "import subprocess, sys\nprint(sys.version.split()[0], flush=True)\nsubprocess.run(['python', '-V'])\n";

for (const rung of TRIED_RUNGS) {
  verifies(
    ["walls.interpreters", "run-once.python"],
    `on ${rung} a server, its build commands and files that run once have the version that the app names`,
    async (context) => {
      await requireOffered(rung, context);
      const own = minorOf((await servicePython()).version);
      const other = (await hostPythons(process.env)).find(({ version }) => minorOf(version) !== own);
      if (!other) {
        process.stderr.write("\nNOT TESTED: this host has one version of Python only\n");
        context.skip("this host has one version of Python only");
        return;
      }
      const toml = `
[runtime.custom]
entrypoint = ["sh", "-c", "exec python main.py"]
port = 8000
[deployment]
python_version = "${minorOf(other.version)}"
shell_commands = ["python -c 'import sys; print(sys.version.split()[0])' > told"]
`;
      const site = await testService({ web: { main: SERVER, toml } }, await onlyUpTo(rung));
      const { status, json, text } = await site.call("web");
      expect([status, json ?? text]).toEqual([200, Array(3).fill(other.version)]);
      const client = new OnceClient(site, "web");
      const runId = await client.run("filename=main.py", { "main.py": FILE });
      expect((await client.ended(runId)).status).toBe("success");
      const lines = [other.version, `Python ${other.version}`];
      expect(await client.lines(runId)).toEqual(lines.map((line) => `stdout: ${line}`));
    },
  );
}
