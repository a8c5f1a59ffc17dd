import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { PYTHON_DIR } from "../../../config/package-files.ts";
import { storageFolder } from "../../../host/data-folders.ts";
import { below, readStat } from "../../../host/processes.ts";
import { SERVER_PORTS } from "../../../host/walls/network.ts";
import { randomTicket } from "../../../kit/ids.ts";
import { runtimeDir } from "../../../kit/runtime-dir.ts";
import type { Api } from "../../client/api.ts";
import { errorOf } from "../../client/explain.ts";
import { textOf } from "../../client/http.ts";
import { readEnvelope } from "../../client/print-answer.ts";
import { deploySources } from "../../client/upload-app.ts";
import { CliFailure } from "../../failure.ts";
import { METADATA_STAND_IN, PRIVATE_STAND_IN, StandIns, startVictim, type Victim } from "./victims.ts";

/** A service to be attacked, and where it is on this machine. */
export type Target = {
  /** As the project's owner. */
  readonly api: Api;
  readonly dataDir: string;
  readonly masterKey: string;
  readonly pid: number;
  readonly python: string;
  /** Not used by others: bombs may go off there, and it knows the addresses that stand in for others. */
  readonly isScratch: boolean;
  /** The host can judge what apps connect to. */
  readonly judgesNetwork: boolean;
};

/** What a function of an app returned, or how the call ended otherwise. */
type CallEnd = { readonly status: number; readonly result: unknown; readonly code: string };

type Who = { readonly bundle: string; readonly customized: string | null };

/** For an app to recover from an attack: files are measured again, and a replica starts. */
const RECOVERY_MS = 60_000;
const LOOK_MS = 250;

/** A service with a hostile app and its victims in place. After `clear` nothing of them is left. */
export class Stage {
  readonly target: Target;
  readonly #tag = randomTicket().slice(0, 8);
  /** The folder of the project's storage that the hostile app plants in. */
  readonly ownFolder = `escape-${this.#tag}`;
  readonly #folder = mkdtempSync(path.join(tmpdir(), "millrace-escape-"));
  readonly #otherStorage: string;
  readonly #deployed: Part[] = [];
  readonly #standIns = new StandIns();
  #victim: Victim | null = null;
  /** What a hostile app could know or guess of the machine. */
  facts: Readonly<Record<string, unknown>> = {};

  constructor(target: Target) {
    this.target = target;
    this.#otherStorage = storageFolder(`p-${this.#tag}`, target.dataDir);
    process.once("exit", this.#removeFolders);
  }

  /** Deploys the apps and puts everything in place. */
  async prepare(signal: AbortSignal): Promise<void> {
    const { api, dataDir, masterKey, pid, python, isScratch, judgesNetwork } = this.target;
    this.#victim = await startVictim(python, signal);
    mkdirSync(this.#otherStorage, { recursive: true, mode: 0o700 });
    writeFileSync(path.join(this.#otherStorage, "secret"), "of another project", { mode: 0o600 });
    writeFileSync(path.join(this.#otherStorage, "program"), "#!/bin/sh\nexit 0\n", { mode: 0o700 });
    const parts: Part[] = ["hostile", "neighbour", "offline"];
    if (judgesNetwork) parts.push("egress", "sockets", "server", "rival");
    if (isScratch) parts.push("bomber");
    const gpus = gpuFiles();
    if (gpus.length > 1) parts.push("gpu");
    for (const part of parts) await this.#deploy(part, null);
    const bundle = await this.#customize();
    const { bundle: otherBundle } = (await this.call("neighbour", "who")).result as Who;
    const storage = storageFolder(await api.project(), dataDir);
    const { hostname: host, port } = new URL(api.site.baseUrl);
    const metadataPort = await this.#standIns.listen(METADATA_STAND_IN);
    const privatePort = await this.#standIns.listen(PRIVATE_STAND_IN);
    this.facts = {
      tag: this.#tag,
      data_dir: dataDir,
      master_key: masterKey,
      storage,
      own: path.join(storage, this.ownFolder),
      other_storage: this.#otherStorage,
      bundle,
      other_bundle: otherBundle,
      harness_dir: PYTHON_DIR,
      sockets: runtimeDir(dataDir),
      service_pid: pid,
      service_user: process.getuid?.() ?? 0,
      service_group: process.getgid?.() ?? 0,
      outer_pid: outermost(replicaIn(bundle, pid), pid),
      neighbour_pid: replicaIn(otherBundle, pid),
      neighbour_port: (await this.call("neighbour", "listen")).result,
      // At the end: those in use are anywhere between, and the service gives them out one after the other.
      server_ports: [SERVER_PORTS.last, SERVER_PORTS.last - 20],
      management_host: host,
      management_port: Number(port),
      ...(isScratch && { metadata_host: METADATA_STAND_IN, metadata_port: metadataPort }),
      ...(judgesNetwork && {
        private_host: PRIVATE_STAND_IN,
        private_port: privatePort,
        declared_port: SERVER_PORT_IN_CODE,
        rival_port: (await this.call("rival", "port")).result,
      }),
      ...(gpus.length > 0 && {
        gpu_files: gpus,
        gpu_numbers: Object.fromEntries(gpus.map((node) => [node, statSync(node).rdev])),
      }),
      // All may be in use.
      ...(gpus.length > 1 && (await this.call("gpu", "who")).status === 200 && { other_gpus: true }),
      ...this.#victim.facts,
    };
    await this.call("hostile", "attack", { code: "os.makedirs(own)", facts: this.facts });
  }

  async call(part: Part, functionName: string, body: object = {}): Promise<CallEnd> {
    const { api } = this.target;
    const answer = await api.open("POST", await api.appUrl(this.#nameOf(part), functionName), { body });
    const text = await textOf(answer);
    const envelope = answer.status === 200 ? readEnvelope(text) : null;
    if (envelope) return { status: 200, result: JSON.parse(envelope.result), code: "" };
    return { status: answer.status, result: null, code: errorOf(text).code ?? "no code" };
  }

  /** Runs attacks in a build, each in a process of its own, and gives what the build's log says of them. */
  async build(codes: readonly string[]): Promise<string[]> {
    const lines = await this.#deploy("builder", { codes, facts: this.facts });
    return lines.flatMap((line) => /^attack \d+: (.*)$/m.exec(line)?.[1] ?? []);
  }

  /** Why an app does not give right answers, after the time that it may need for that; null if it does. */
  async faultOf(part: Part): Promise<string | null> {
    // A filler that was killed could not remove it.
    rmSync(path.join(String(this.facts["own"]), "filler"), { force: true });
    const n = 21;
    const deadline = performance.now() + RECOVERY_MS;
    for (;;) {
      const { status, result, code } = await this.call(part, "answer", { n });
      if (status === 200 && result === 2 * n + 1) return null;
      if (status === 200 || performance.now() > deadline) return `${status} ${code}`;
      await sleep(LOOK_MS, undefined, { signal: this.target.api.signal });
    }
  }

  /** Why the neighbour cannot connect to a server that is new to it; null if it can. */
  async whyNoConnection(): Promise<string | null> {
    const code = `dial(${JSON.stringify(PRIVATE_STAND_IN)}, ${await this.#standIns.listen(PRIVATE_STAND_IN)})`;
    const { status, result, code: failure } = await this.call("neighbour", "attack", { code, facts: {} });
    if (status !== 200) return `${status} ${failure}`;
    return result === "escaped" ? null : String(result);
  }

  async clear(): Promise<void> {
    const { api } = this.target;
    const remove = "import shutil; shutil.rmtree(own, ignore_errors=True)";
    if (this.#deployed.length > 0 && !api.signal.aborted)
      await this.call("hostile", "attack", { code: remove, facts: this.facts }).catch(() => {});
    for (const part of this.#deployed) {
      const address = await api.appPath(this.#nameOf(part));
      const answer = await api.open("DELETE", address, { isParting: true }).catch(() => null);
      answer?.body.resume();
    }
    this.#standIns.close();
    await this.#victim?.end();
    this.#removeFolders();
    process.off("exit", this.#removeFolders);
  }

  #nameOf(part: Part): string {
    return `escape-${this.#tag}-${part}`;
  }

  async #deploy(part: Part, order: object | null): Promise<string[]> {
    const sources = path.join(this.#folder, part);
    writePart(part, this.#nameOf(part), sources, order);
    this.#deployed.push(part);
    return await deploySources(this.target.api, this.#nameOf(part), sources);
  }

  /** Has Python run the hostile app's `sitecustomize.py` at its start; resolves with the app's bundle when it has. */
  async #customize(): Promise<string> {
    const { api } = this.target;
    const address = await api.appPath(this.#nameOf("hostile"), "/secrets");
    const answer = await api.open("PATCH", address, { body: { PYTHONPATH: "." } });
    answer.body.resume();
    // Replicas that are up already keep what they were started with.
    await this.call("hostile", "attack", { code: "os._exit(3)", facts: {} });
    const { bundle, customized } = (await this.call("hostile", "who")).result as Who;
    if (customized === null) throw new CliFailure("the hostile app does not start again with its new secret");
    return bundle;
  }

  /** Also for a second Ctrl-C, which waits for nothing. */
  readonly #removeFolders = (): void => {
    for (const folder of [this.#folder, this.#otherStorage]) rmSync(folder, { recursive: true, force: true });
  };
}

/** The apps that are deployed, all of the same code, with what their files say. */
const CAST = {
  hostile: {},
  /** It is attacked by the others, and must notice nothing. */
  neighbour: {},
  offline: { deployment: "network = false" },
  egress: { deployment: 'network = "egress"' },
  sockets: { deployment: "unix_sockets = true" },
  gpu: { hardware: 'compute = "ANY"' },
  bomber: { hardware: "cpu = 0.25\nmemory = 0.25" },
  /** Servers with the same port in their code; the second is attacked by the first. */
  server: { server: true },
  rival: { server: true },
  builder: { deployment: `shell_commands = ["python3 -c 'import main; main.run_file()'"]` },
} as const;
export type Part = keyof typeof CAST;

const SERVER_PORT_IN_CODE = 8000;

const SOURCES = path.join(PYTHON_DIR, "millrace_escape");

/** Writes the folder of one of the apps; `order` is for the app that attacks while it is built. */
function writePart(part: Part, name: string, folder: string, order: object | null): void {
  const told: { deployment?: string; hardware?: string; server?: boolean } = CAST[part];
  const { deployment = "", hardware = "", server = false } = told;
  mkdirSync(folder);
  copyFileSync(path.join(SOURCES, "hostile.py"), path.join(folder, "main.py"));
  for (const name of ["hostile.py", "network_tricks.py", "server.py", "sitecustomize.py"])
    copyFileSync(path.join(SOURCES, name), path.join(folder, name));
  const toml = [
    `[deployment]\nname = "${name}"\n${deployment}`,
    `[hardware]\n${hardware}`,
    // A server's port is attacked, so the server stays.
    `[scaling]\nmin_replicas = ${server ? 1 : 0}\nmax_replicas = 1`,
  ];
  if (server)
    toml.push(`[runtime.custom]\nentrypoint = ["python", "server.py"]\nport = ${SERVER_PORT_IN_CODE}`);
  writeFileSync(path.join(folder, "millrace.toml"), `${toml.join("\n")}\n`);
  if (order !== null) writeFileSync(path.join(folder, "order.json"), JSON.stringify(order));
}

/** The device files of this machine's GPUs. */
function gpuFiles(): string[] {
  const names = readdirSync("/dev").filter((name) => /^nvidia\d+$/.test(name));
  return names.map((name) => `/dev/${name}`);
}

/** The replica that works in a bundle: the innermost process below the service that does. */
function replicaIn(bundle: string, service: number): number {
  const isThere = (pid: number): boolean => {
    try {
      return readlinkSync(`/proc/${pid}/cwd`) === bundle;
    } catch {
      return false;
    }
  };
  const found = below(service).living.findLast(isThere);
  if (found === undefined) throw new CliFailure(`no process below ${service} works in ${bundle}`);
  return found;
}

/** Of those above a process, the one that the service itself has started: its outer keeper, if it has walls. */
function outermost(pid: number, service: number): number {
  const { parent } = readStat(pid);
  return parent === service ? pid : outermost(parent, service);
}
