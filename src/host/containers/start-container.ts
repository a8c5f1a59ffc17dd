import path from "node:path";
import { type ChildProcess, spawn } from "node:child_process";
import type { Readable } from "node:stream";
import { mkdir, rm, writeFile } from "../../kit/files.ts";
import { withTimeout } from "../../kit/clock.ts";
import { type Limits, MAX_PROCESSES } from "../limits/limits.ts";
import { type Containers, ulimits } from "./containers.ts";
import type { ContainerTool } from "./container-tool.ts";
import { once } from "node:events";
import { withPipes } from "../processes.ts";

export type Mount = { readonly from: string; readonly to: string; readonly isReadOnly?: true };

export type ContainerStart = {
  readonly projectId: string;
  /** Unique among those of this service. */
  readonly id: string;
  readonly image: string;
  /** Replaces the image's entrypoint; null keeps it. */
  readonly program: string | null;
  /** Its arguments; the image's own if empty. */
  readonly args: readonly string[];
  readonly variables: Readonly<Record<string, string>>;
  readonly mounts: readonly Mount[];
  /** Null for the image's own. */
  readonly user: number | null;
  readonly limits: Limits;
  readonly runtime: "runc" | "runsc" | null;
  readonly hasNetwork: boolean;
  /** The GPUs that it may open, by UUID. */
  readonly gpus: readonly string[];
  /** A port of this machine that is forwarded to the container; null for none. */
  readonly port: { readonly outside: number; readonly inside: number } | null;
  readonly input: string | null;
};

export type StartedContainer = {
  /** Names of variables that were withheld, because the tool itself uses them. */
  readonly withheld: readonly string[];
  readonly stdout: Readable;
  readonly stderr: Readable;
  readonly exited: Promise<ContainerExit>;
  /** The id of its first process on this machine; 0 while there is none. */
  pid(): Promise<number>;
  /** The folders it writes to outside its mounts, and the volumes of its image, as far as known. */
  written(): Promise<string[]>;
  askToEnd(): void;
  end(): void;
};

type ContainerExit = { readonly code: number; readonly isOutOfMemory: boolean };

/** Removes the container as soon as its stdin closes, for example because the service died. Retries if the tool fails. */
const REMOVE = 'read -r _; for _ in 1 2 3 4 5; do "$0" "$@" >/dev/null 2>&1 && exit; sleep 1; done';
/** Capabilities that root in a container never gets. */
const NEVER = ["NET_RAW", "MKNOD", "AUDIT_WRITE"];
/** The exit code of a killed container. */
const KILLED = 137;
/** The default shared memory is too little for PyTorch. It counts as memory. */
const SHARED_MEMORY = "2g";
const MIN_SHARES = 2;
/** A removal that takes longer hangs; the next start retries. */
const HUNG_MS = 60_000;
/** How long the tool may take to report the end of a container. */
const LATE_MS = 5_000;
const MAX_WHY_CHARS = 500;
/** Including the anonymous volumes of its image. */
const REMOVAL = { podman: ["rm", "--ignore", "-f", "-v", "-t", "0"], docker: ["rm", "-f", "-v"] } as const;
const WRITTEN =
  '{{.GraphDriver.Data.UpperDir}}{{range .Mounts}}{{if eq .Type "volume"}}{{"\\n"}}{{.Source}}{{end}}{{end}}';

/** Starts a container. It is removed when it exits, when it is ended and when the service dies. */
export async function startContainer(
  containers: Containers,
  tool: ContainerTool,
  start: ContainerStart,
): Promise<StartedContainer> {
  const { projectId, input } = start;
  await containers.cleared;
  const name = containers.nameOf(start.id);
  const before = await containers.before(tool, projectId);
  const removal = ["-c", REMOVE, tool.program, ...before, ...REMOVAL[tool.kind], name];
  const remover = withPipes(
    spawn("/bin/sh", removal, { env: containers.env, stdio: ["pipe", "ignore", "ignore"], detached: true }),
  );
  remover.stdin.on("error", () => {});
  const removed = once(remover, "exit").catch(() => {});
  let clearing: Promise<void> | null = null;
  const clear = async (): Promise<void> => {
    clearing ??= (async () => {
      remover.stdin.end();
      await withTimeout(HUNG_MS, removed);
      // The remover was killed.
      if (remover.signalCode !== null || remover.pid === undefined)
        await containers.run(tool, projectId, [...REMOVAL[tool.kind], name]);
    })();
    await clearing;
  };
  const attach = [...before, "start", "--attach", ...(input === null ? [] : ["--interactive"]), name];
  const begin = async () => {
    const withheld = await create(containers, tool, start);
    return {
      withheld,
      child: withPipes(spawn(tool.program, attach, { env: containers.env, detached: true })),
    };
  };
  const { withheld, child } = await begin().catch(async (error: unknown) => {
    await clear();
    throw error;
  });
  child.stdin.on("error", () => {});
  child.stdin.end(input ?? "");
  const inspect = async (format: string): Promise<string> => {
    const { stdout } = await containers.run(tool, projectId, ["inspect", "--format", format, name]);
    return stdout.trim();
  };
  let pid = 0;
  const exited = exitOf(child).then(async (code): Promise<ContainerExit> => {
    const isOutOfMemory = code === KILLED && (await inspect("{{.State.OOMKilled}}")) === "true";
    await clear();
    return { code, isOutOfMemory };
  });
  return {
    withheld,
    stdout: child.stdout,
    stderr: child.stderr,
    exited,
    pid: async () => {
      if (pid === 0) pid = Number(await inspect("{{.State.Pid}}")) || 0;
      return pid;
    },
    written: async () => {
      const folders = (await inspect(WRITTEN)).split("\n");
      return folders.filter((each) => path.isAbsolute(each));
    },
    askToEnd: () => void containers.run(tool, projectId, ["kill", "--signal", "TERM", name]),
    end: () => {
      const ending = clear().then(async () => await withTimeout(LATE_MS, exited));
      // The attached process may hang after the container is gone.
      void ending.then(() => child.kill("SIGKILL"));
    },
  };
}

/** Resolves with 125, like a failed start, if the tool itself cannot be run. */
async function exitOf(child: ChildProcess): Promise<number> {
  return await new Promise((resolve) => {
    child.once("error", () => resolve(125));
    child.once("exit", (code) => resolve(code ?? KILLED));
  });
}

/**
 * Creates the container, and returns the names of withheld variables. Only this command has values of the app in its
 * environment: starting a container runs programs of the host as root, which obey variables such as `XTABLES_LIBDIR`.
 */
async function create(containers: Containers, tool: ContainerTool, start: ContainerStart) {
  const { projectId } = start;
  const network = start.hasNetwork && !tool.isRootless ? await containers.networkOf(tool, projectId) : null;
  const folder = path.join(containers.runFolder(projectId), start.id);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  try {
    const variables = await writeVariables(path.join(folder, "variables"), start.variables);
    const args = ["create", "--name", containers.nameOf(start.id), "--label", containers.label];
    // The host's proxy settings may hold a password.
    if (tool.kind === "podman") args.push("--http-proxy=false");
    args.push(
      ...optionsOf(start, network),
      ...gpuOptions(tool.kind, start.gpus),
      ...variables.args,
      start.image,
      ...start.args,
    );
    const { code, stderr } = await containers.run(tool, projectId, args, variables.env);
    const why = stderr.trim().split("\n").at(-1) ?? "";
    if (code !== 0)
      throw new Error(`${tool.kind} could not make its container: ${why.slice(0, MAX_WHY_CHARS)}`);
    return variables.withheld;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function optionsOf(
  { program, mounts, user, limits, runtime, hasNetwork, port, input }: ContainerStart,
  network: string | null,
): string[] {
  const { memoryBytes, cpus, cpuShare } = limits;
  const options = ["--security-opt", "no-new-privileges", "--pids-limit", String(MAX_PROCESSES)];
  // Images are pulled for builds, never for starts.
  options.push(...ulimits(), "--pull", "never", "--shm-size", SHARED_MEMORY, "--log-driver", "none");
  if (input !== null) options.push("--interactive");
  if (program !== null) options.push("--entrypoint", program);
  if (runtime !== null) options.push("--runtime", runtime);
  if (user === null) options.push(...NEVER.flatMap((name) => ["--cap-drop", name]));
  else options.push("--cap-drop", "all", "--user", `${user}:${user}`);
  if (!hasNetwork) options.push("--network", "none");
  else if (network !== null) options.push("--network", network);
  if (port !== null) options.push("--publish", `127.0.0.1:${port.outside}:${port.inside}`);
  if (memoryBytes !== null)
    options.push("--memory", String(memoryBytes), "--memory-swap", String(memoryBytes));
  if (cpus !== null) options.push("--cpus", String(cpus));
  options.push("--cpu-shares", String(Math.max(MIN_SHARES, Math.round(cpuShare * 1024))));
  for (const { from, to, isReadOnly } of mounts)
    options.push("--mount", `type=bind,source=${from},target=${to}${isReadOnly ? ",readonly" : ""}`);
  return options;
}

/** Podman takes devices of the Container Device Interface, which NVIDIA's toolkit describes; docker asks that toolkit itself. */
export function gpuOptions(kind: ContainerTool["kind"], uuids: readonly string[]): string[] {
  if (uuids.length === 0) return [];
  if (kind === "podman") return uuids.flatMap((uuid) => ["--device", `nvidia.com/gpu=${uuid}`]);
  // In quotes of its own, because it is read as a line of comma-separated values.
  return ["--gpus", `"device=${uuids.join(",")}"`];
}

/** Names that the tool, its loader or its libraries use. */
const ITS_OWN = new RegExp(
  [
    "^(?:LD|GLIBC|GCONV|MALLOC|G|GIO|OTEL|LISTEN|XDG|DBUS|NOTIFY|)_",
    "^(?:DOCKER|CONTAINER|PODMAN|BUILDAH)",
    "^GO(?:DEBUG|GC|MAXPROCS|MEMLIMIT|TRACEBACK|COVERDIR|RACE|ROOT)$",
    "^(?:STORAGE_(?:DRIVER|OPTS|TMPDIR)|REGISTRY_AUTH_FILE|GNUPGHOME|GPG_(?:TTY|AGENT_INFO))$",
    "^(?:OPENSSL_(?:CONF|MODULES|ENGINES)|SSL_CERT_(?:FILE|DIR)|LOCPATH|NLSPATH|TZDIR)$",
    "^(?:PATH|HOME|USER|TMPDIR|LANG|.*_PROXY)$",
  ].join("|"),
  "i",
);
/** A little below the tool's limit for a line. */
const MAX_LINE_BYTES = 64 * 1000;
const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

/**
 * Writes variables to a file for the tool: every user of the machine could see a command line. The file cannot hold
 * multi-line and very long values: these go through the tool's environment, unless the tool itself uses their name.
 * Returns the tool's arguments and environment, and the names of withheld variables.
 */
export async function writeVariables(file: string, variables: Readonly<Record<string, string>>) {
  const lines: string[] = [];
  const args = ["--env-file", file];
  const env: Record<string, string> = {};
  const withheld: string[] = [];
  for (const [name, value] of Object.entries(variables)) {
    if (!NAME.test(name) || value.includes("\0")) continue;
    const line = `${name}=${value}`;
    if (!/[\r\n]/.test(value) && Buffer.byteLength(line) < MAX_LINE_BYTES) lines.push(line);
    else if (!ITS_OWN.test(name)) {
      args.push("--env", name);
      env[name] = value;
    } else withheld.push(name);
  }
  await writeFile(file, `${lines.join("\n")}\n`, { mode: 0o600, flag: "wx" });
  return { args, env, withheld };
}
