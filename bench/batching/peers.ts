import { access } from "node:fs/promises";
import { join } from "node:path";
import { type Child, runTool, startChild } from "../processes.ts";
import { makeScratchDir } from "../scratch.ts";
import { type Running, Skipped } from "../subject.ts";
import { type BatchSetting, cross } from "./settings.ts";

export const PEER_IDS = ["ray", "litserve", "bentoml"] as const;
export type PeerId = (typeof PEER_IDS)[number];

/** One way to run a peer. */
export type PeerWay = BatchSetting & { readonly variant: string };

/** A server of batched functions that ours is compared with. */
export type Peer = {
  readonly id: PeerId;
  readonly name: string;
  readonly variants: readonly string[];
  readonly settings: readonly BatchSetting[];
  readonly body: string;
  readonly expects: string;
  readonly start: (way: PeerWay) => Promise<Running>;
  /** Gives a server another setting; absent if it has to be started again. */
  readonly change?: (server: Running, setting: BatchSetting) => Promise<void>;
};

const VENV = join(import.meta.dirname, "../../.cache/bench-peers");
const PYTHON = join(VENV, "bin/python");
const SUBJECTS = join(import.meta.dirname, "../subjects");
const PACKAGES: Readonly<Record<PeerId, string>> = {
  ray: "ray[serve]",
  litserve: "litserve",
  bentoml: "bentoml",
};

/** Its own settings for throughput. Callers would reach replicas on ports of their own; they come through the proxy. */
const RAY_FOR_THROUGHPUT = ["RAY_SERVE_THROUGHPUT_OPTIMIZED=1", "RAY_SERVE_ENABLE_DIRECT_INGRESS=0"];

export const PEERS: readonly Peer[] = [
  {
    id: "ray",
    name: "Ray Serve",
    variants: ["thread", "loop", "optimized"],
    settings: cross([16, 32, 64], [1, 5, 20]),
    body: '{"n":3}',
    expects: '{"result":3}',
    start: async ({ size, waitMs, variant }) => {
      const variables = variant === "optimized" ? RAY_FOR_THROUGHPUT : [];
      const script = join(SUBJECTS, "ray_app.py");
      const args = [makeScratchDir(), `${size}`, `${waitMs}`, variant];
      return await announced(startChild("env", [...variables, PYTHON, script, ...args]));
    },
    change: async ({ url }, { size, waitMs }) => {
      const body = JSON.stringify({ size, wait_ms: waitMs });
      const { status } = await fetch(url, { method: "POST", body });
      if (status !== 200) throw new Error(`Ray Serve answered other settings with ${status}`);
    },
  },
  {
    id: "litserve",
    name: "LitServe",
    variants: ["queue", "fast"],
    settings: cross([16, 32, 64], [1, 5, 20]),
    body: '{"n":3}',
    expects: '{"result":3}',
    start: async ({ size, waitMs, variant }) =>
      await announced(
        startChild(PYTHON, [join(SUBJECTS, "litserve_app.py"), `${size}`, `${waitMs}`, variant]),
      ),
  },
  {
    id: "bentoml",
    name: "BentoML",
    variants: [""],
    // It is told a latency instead, and waits as long as it thinks best.
    settings: cross([16, 32, 64], [100, 1000, 60_000]),
    body: '{"n":[3]}',
    expects: "[3]",
    start: async ({ size, waitMs }) => {
      const script = join(SUBJECTS, "bentoml_app.py");
      return await announced(startChild(PYTHON, [script, makeScratchDir(), `${size}`, `${waitMs}`]));
    },
  },
];

/** Which version of a peer is installed; throws `Skipped`, with the commands that install it, if none is. */
export async function versionOf({ id, name }: Peer): Promise<string> {
  const [packageName = ""] = PACKAGES[id].split("[");
  try {
    await access(PYTHON);
    const code = `from importlib.metadata import version; print(version("${packageName}"))`;
    return `${name} ${await runTool(PYTHON, ["-c", code])}`;
  } catch (error) {
    throw new Skipped(`it is not installed: ${INSTALL}`, { cause: error });
  }
}

const INSTALL = `python3 -m venv .cache/bench-peers && .cache/bench-peers/bin/pip install ${Object.values(
  PACKAGES,
)
  .map((name) => `'${name}'`)
  .join(" ")}`;

/** A server that says where it listens when it is ready. */
async function announced(child: Child): Promise<Running> {
  const { url } = JSON.parse(await child.nextLine()) as { url: string };
  return { url, headers: {}, pid: child.pid, stop: child.stop };
}
