import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, expect, type TestContext } from "vitest";
import { hostPythons } from "../../src/host/host-pythons.ts";
import { findInterpreter } from "../../src/host/interpreter.ts";
import { WALL_LEVELS, type WallLevel } from "../../src/host/walls/walls.ts";
import { writeWheels } from "../integration/builds/wheels.ts";
import { OnceClient } from "../integration/once/site.ts";
import { type BootstrapFields, BUILT_PACKAGE, Command, MILLRACE, run } from "../support/command-line.ts";
import { DeployClient } from "../support/deploy-client.ts";
import { chownTree } from "../../src/kit/files.ts";
import type { TestService } from "../support/service.ts";
import { REPOSITORY } from "../support/source-files.ts";
import { copyPython } from "../support/walls/copied-python.ts";
import { offered, onlyUpTo } from "../support/walls/walled.ts";
import { zipOf } from "../support/zip.ts";
import { verifies } from "../verifies.ts";

// Every interpreter of this host × every kind of process × every level of isolation, for services of root and of an
// ordinary user. Each starts on the interpreter that its app names.

const IS_ROOT = process.getuid?.() === 0;
/** A user that owns nothing here. */
const NOBODY = 65_534;
const LACKING = path.join(REPOSITORY, "test/support/walls/lacking.py");
const SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin";
const SYSTEM = "/usr/bin";

type Level = WallLevel | "none";
const LEVELS: readonly Level[] = ["none", ...WALL_LEVELS];

/** A host that a service finds: its own Python, and others by minor version, such as "3.12". */
type Host = {
  readonly own: string;
  readonly env: Readonly<Record<string, string>>;
  readonly others: readonly { readonly name: string; readonly minor: string }[];
};

const minorOf = (version: string): string => version.split(".").slice(0, 2).join(".");

function notTested(why: string): void {
  process.stderr.write(`\nNOT TESTED: ${why}\n`);
}

/** The real programs of the interpreters at hand, by minor version, the one of the tests first. */
async function atHand(): Promise<Map<string, string>> {
  const commands = ["python3", ...(await hostPythons(process.env)).map((python) => python.path)];
  const found = await Promise.all(commands.map((command) => findInterpreter(command)));
  return new Map(found.map(({ base, version }) => [minorOf(version), base]));
}

/** The minor versions that the system itself has. */
function ofSystem(): string[] {
  return readdirSync(SYSTEM).flatMap((name) => /^python(3\.(?:9|1\d))$/.exec(name)?.[1] ?? []);
}

/** What builds of uv's look like: a folder for each release, and a link by its minor version. */
function asUv(base: string, data: string): void {
  const folder = path.join(data, "uv", "python");
  const release = `cpython-${minorOf(path.basename(base).replace("python", ""))}.99-linux-x86_64-gnu`;
  copyPython(base, path.join(folder, release), true);
  symlinkSync(release, path.join(folder, release.replace(".99", "")));
}

/** As pyenv has it. */
function asPyenv(base: string, root: string): void {
  const minor = path.basename(base).replace("python", "");
  copyPython(base, path.join(root, "versions", `${minor}.99`), true);
}

/** Those of the machine as they are, for root. */
function rootHosts(found: ReadonlyMap<string, string>, folder: string): Host[] {
  const own = [...found.values()][0] ?? "";
  const root = process.env["PYENV_ROOT"] ?? path.join(process.env["HOME"] ?? "/", ".pyenv");
  const installed = [...found].filter(([, base]) => base.startsWith(root));
  const hosts: Host[] = [];
  const env = { HOME: path.join(folder, "none"), PATH: SYSTEM_PATH };
  if (installed.length === 0) notTested("this host has no pyenv");
  hosts.push({
    own,
    env: { ...env, PYENV_ROOT: root },
    others: installed
      .filter(([, base]) => base !== own)
      .map(([minor]) => ({ name: `pyenv ${minor}`, minor })),
  });
  // Beside them, as if the host had no pyenv: one by uv, and those of the system.
  const system = ofSystem();
  const [first, second] = [...found].filter(([minor]) => !system.includes(minor));
  if (!first || !second) {
    notTested("uv and the system's Python: this host has too few versions that are not the system's");
    return hosts;
  }
  const data = path.join(folder, "closed", "data");
  asUv(first[1], data);
  chmodSync(path.join(folder, "closed"), 0o700);
  hosts.push({
    own: second[1],
    env: { ...env, PYENV_ROOT: "/nonexistent", XDG_DATA_HOME: data },
    others: [
      { name: `uv ${first[0]} (a copy)`, minor: first[0] },
      ...system.map((minor) => ({ name: `system ${minor}`, minor })),
    ],
  });
  return hosts;
}

/** For a user who sees nothing of root's: the system's own, and copies in a home that is closed to others. */
async function ordinaryHosts(found: ReadonlyMap<string, string>, folder: string): Promise<Host[]> {
  const system = ofSystem();
  const [first, second] = [...found].filter(([minor]) => !system.includes(minor));
  const own = path.join(SYSTEM, "python3");
  if (!existsSync(own)) {
    notTested("an ordinary user: the system has no Python");
    return [];
  }
  const home = path.join(folder, "home");
  mkdirSync(home);
  if (first) asPyenv(first[1], path.join(home, ".pyenv"));
  if (second) asUv(second[1], path.join(home, ".local/share"));
  await chownTree(home, NOBODY);
  chmodSync(home, 0o700);
  const others = [
    ...(first ? [{ name: `pyenv ${first[0]} (a copy)`, minor: first[0] }] : []),
    ...(second ? [{ name: `uv ${second[0]} (a copy)`, minor: second[0] }] : []),
  ];
  return [{ own, env: { HOME: home, PATH: SYSTEM_PATH }, others }];
}

const COMMAND = "python -c 'import sys; print(sys.version.split()[0])' > told && python3 -c 'import sys' ";
const TOLD = `[sys.version.split()[0], open("told").read().strip()]`;

const FUNCTION = `import sys
def run():
    return ${TOLD}
`;

const SERVER = `import json, os, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
if "one" in sys.argv:
    import one

class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.dumps({"result": ${TOLD}}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
`;

const PIP = '[dependencies.pip]\none = "1.0"\n';
const deployment = (minor: string | null): string =>
  `[deployment]\n${minor === null ? "" : `python_version = "${minor}"\n`}shell_commands = [${JSON.stringify(COMMAND)}]\n`;
const serving = (words: string): string => `[runtime.custom]\nport = 8000\nentrypoint = ${words}\n`;

/** The apps that are deployed for each interpreter, with their build commands. */
const KINDS = {
  function: { main: FUNCTION, toml: "" },
  "function, packages": { main: `import one\n${FUNCTION}`, toml: PIP },
  server: { main: SERVER, toml: serving('["python", "main.py"]') },
  "server, packages": { main: SERVER, toml: PIP + serving('["sh", "-c", "exec python main.py one"]') },
} as const;

const FILE = "import sys\nprint(sys.version.split()[0])\n";

/** A service of a user, on a level. */
class Site {
  readonly #command: Command;
  readonly #apiUrl: string;
  readonly #baseUrl: string;
  readonly #fields: BootstrapFields;

  private constructor(command: Command, apiUrl: string, baseUrl: string, fields: BootstrapFields) {
    this.#command = command;
    this.#apiUrl = apiUrl;
    this.#baseUrl = baseUrl;
    this.#fields = fields;
  }

  static async start(host: Host, level: Level, uid: number | null, folder: string): Promise<Site> {
    const { isolation, python } =
      level === "none" ? { isolation: level, python: host.own } : await onlyUpTo(level, host.own);
    const own = mkdtempSync(path.join(folder, "service-"));
    if (uid !== null) chownSync(own, uid, uid);
    const env = {
      ...host.env,
      TMPDIR: own,
      XDG_RUNTIME_DIR: own,
      MILLRACE_DATA_DIR: path.join(own, "data"),
      MILLRACE_API_PORT: "0",
      MILLRACE_BASE_PORT: "0",
      MILLRACE_ISOLATION: isolation,
      MILLRACE_PYTHON: python,
      MILLRACE_CONTAINER_ENGINE: "none",
      PIP_NO_INDEX: "1",
      PIP_FIND_LINKS: path.join(folder, "wheels"),
    };
    const as = (...args: string[]): string[] => [LACKING, "nothing", String(uid ?? "-"), MILLRACE, ...args];
    const bootstrap = await run("python3", as("bootstrap", "--json"), { env });
    if (bootstrap.code !== 0) throw new Error(bootstrap.stderr);
    const service = new Command("python3", as("serve"), { env });
    const [line] = await service.printed(/^.*"millrace is up".*$/m);
    const { apiUrl, baseUrl } = JSON.parse(line) as { apiUrl: string; baseUrl: string };
    return new Site(service, apiUrl, baseUrl, JSON.parse(bootstrap.stdout) as BootstrapFields);
  }

  async stop(): Promise<void> {
    await this.#command.interrupt();
  }

  /** Deploys an app and calls it; what it answers, or why it does not. */
  async #deployed(name: string, main: string, toml: string): Promise<string> {
    const { project_id: projectId, token } = this.#fields;
    const client = new DeployClient({ baseUrl: this.#baseUrl, projectId, token }, name);
    const { buildId, status } = await client.deploy(await zipOf({ "main.py": main, "millrace.toml": toml }));
    if (status !== "success") return `${status}: ${(await client.log(buildId)).join(" / ")}`;
    const answer = await fetch(`${this.#apiUrl}/v4/${projectId}/${name}/run`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: "{}",
    });
    const text = await answer.text();
    return answer.status === 200 ? (JSON.parse(text) as { result: string[] }).result.join("\n") : text;
  }

  async #ran(name: string, dependencies: object | null): Promise<string> {
    const { project_id: projectId, token } = this.#fields;
    const service = { baseUrl: this.#baseUrl, owner: { projectId, token } };
    const client = new OnceClient({ service } as TestService, name);
    let query = "filename=main.py";
    if (dependencies !== null) {
      const { json, text } = await client.post("base-image", { dependencies });
      const { digest } = (json ?? {}) as { digest?: string };
      if (!digest) return text;
      query += `&imageDigest=${digest}`;
    }
    const files = { "main.py": dependencies === null ? FILE : `import one\n${FILE}` };
    const runId = await client.run(query, files);
    await client.ended(runId);
    return (await client.lines(runId)).join(" / ");
  }

  /** What each kind of process on an interpreter tells of itself; null for the service's own. */
  async tried(minor: string | null): Promise<Record<string, string>> {
    const told: Record<string, string> = {};
    const id = minor === null ? "own" : minor.replace(".", "-");
    let number = 0;
    for (const [kind, { main, toml }] of Object.entries(KINDS)) {
      const both = await this.#deployed(`a${number++}-${id}`, main, toml + deployment(minor));
      const [own, command] = both.split("\n");
      told[kind] = command === undefined ? both : (own ?? "");
      if (kind.startsWith("function")) told[kind.replace("function", "command")] = command ?? both;
    }
    told["file"] = await this.#ran(`a0-${id}`, null);
    told["file, packages"] = await this.#ran(`a0-${id}`, { pip: { one: "1.0" } });
    return told;
  }
}

/** Whether each of them tells that version. */
function judged(told: Record<string, string>, minor: string): Record<string, string> {
  const version = /^(?:stdout: )?(\d+\.\d+)\.\d+$/;
  return Object.fromEntries(
    Object.entries(told).map(([kind, text]) => [kind, version.exec(text)?.[1] === minor ? "starts" : text]),
  );
}

const matrix: string[] = [];
afterAll(() => process.stderr.write(`\n${matrix.join("\n")}\n`));

async function requireLevel(level: Level, uid: number | null, context: TestContext): Promise<void> {
  const reason =
    uid !== null && !IS_ROOT
      ? "only root can become an ordinary user"
      : level === "none"
        ? null
        : (await offered())[level];
  if (reason === null) return;
  notTested(`${level} as ${uid ?? "whoever runs this"}: ${reason}`);
  context.skip(reason);
}

for (const [user, uid] of [
  ["whoever runs this", null],
  ["an ordinary user", NOBODY],
] as const) {
  for (const level of LEVELS.filter((each) => each !== "uid" || uid === null)) {
    verifies(
      "walls.interpreters",
      `as ${user}, on ${level}, all kinds of processes start on every interpreter of the host`,
      async (context) => {
        await requireLevel(level, uid, context);
        const folder = mkdtempSync(path.join(tmpdir(), "millrace-interpreters-"));
        context.onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
        chmodSync(folder, 0o755);
        if (uid !== null) chmodSync(BUILT_PACKAGE, 0o755);
        await writeWheels(path.join(folder, "wheels"), [{ name: "one", version: "1.0" }]);
        const found = await atHand();
        const hosts = uid === null ? rootHosts(found, folder) : await ordinaryHosts(found, folder);
        const faults: Record<string, unknown> = {};
        for (const host of hosts) {
          const site = await Site.start(host, level, uid, folder);
          const { version } = await findInterpreter(host.own);
          const own = { name: `own ${minorOf(version)}`, minor: null };
          for (const { name, minor } of [own, ...host.others]) {
            const row = judged(await site.tried(minor), minor ?? minorOf(version));
            matrix.push(
              [user, level, name, ...Object.entries(row).map(([kind, text]) => `${kind}: ${text}`)].join(
                " | ",
              ),
            );
            const wrong = Object.entries(row).filter(([, text]) => text !== "starts");
            if (wrong.length > 0) faults[name] = Object.fromEntries(wrong);
          }
          await site.stop();
        }
        expect(faults).toEqual({});
      },
    );
  }
}
