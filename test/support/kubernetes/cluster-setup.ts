import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import path from "node:path";
import type { TestProject } from "vitest/node";
import { compileBytecode, makeImage, makeWorkerImage } from "../../../scripts/worker-image.ts";
import { findInterpreter } from "../../../src/host/interpreter.ts";
import { fill } from "../images/base-image.ts";
import { STAND_IN } from "./stand-in.ts";
import { prepareRegistry, type RegistryFolder, serveRegistry, type TestRegistry } from "./test-registry.ts";

/** A real cluster that tests may use. */
export type TestCluster = {
  /** The operator's kubeconfig. */
  readonly kubeconfig: string;
  /** How a pod reaches this machine. */
  readonly hostAddress: string;
  /** A worker image, and one whose agent does what its ticket says. */
  readonly workerImage: string;
  readonly standInImage: string;
  /** Holds a `NAME.pid` for each part of the control plane; null where that is not ours to break. */
  readonly folder: string | null;
  /** What builds images, and a registry for them; null where there is none, which was said aloud. */
  readonly images: TestRegistry | null;
};

declare module "vitest" {
  // oxlint-disable-next-line consistent-type-definitions
  interface ProvidedContext {
    /** Null where there is none. */
    readonly testCluster: TestCluster | null;
  }
}

const WORKER = "localhost/millrace-worker:test";
const STANDING_IN = "localhost/millrace-stand-in:test";
/** Of the first machine, which is this one. That of its bridge comes only with the first pod there. */
const ADDRESS = "10.88.78.1";

/**
 * The cluster of `MILLRACE_TEST_CLUSTER`, a folder with a `kube-up.sh`, which is started unless it runs; else that of
 * `KUBECONFIG`, whose images somebody has pushed before. Vitest calls this before the first test, and what it returns
 * after the last.
 */
export async function setup({ provide }: TestProject): Promise<() => void> {
  const { MILLRACE_TEST_CLUSTER: folder, KUBECONFIG: kubeconfig } = process.env;
  if (folder) {
    const { cluster, stop } = await startCluster(path.join(folder, "kube-up.sh"));
    provide("testCluster", cluster);
    return stop;
  }
  provide("testCluster", kubeconfig ? given(kubeconfig) : null);
  if (!kubeconfig) {
    process.stderr.write(
      "\nskipped: there is no Kubernetes. Set KUBECONFIG, or MILLRACE_TEST_CLUSTER to a folder with kube-up.sh\n",
    );
  }
  return () => {};
}

function given(kubeconfig: string): TestCluster {
  const need = (name: string): string => {
    const value = process.env[name];
    if (!value) throw new Error(`with KUBECONFIG, tests need ${name}: see CONTRIBUTING.md`);
    return value;
  };
  return {
    kubeconfig,
    hostAddress: need("MILLRACE_TEST_HOST"),
    workerImage: need("MILLRACE_TEST_WORKER_IMAGE"),
    standInImage: need("MILLRACE_TEST_STAND_IN_IMAGE"),
    folder: null,
    images: null,
  };
}

async function startCluster(script: string): Promise<{ cluster: TestCluster; stop: () => void }> {
  const cache = process.env["XDG_CACHE_HOME"] ?? path.join(homedir(), ".cache");
  const home = process.env["KUBE_HOME"] ?? path.join(cache, "millrace-cluster");
  const folder = path.join(home, "kr");
  const kubeconfig = path.join(folder, "admin.conf");
  const isOurs = !existsSync(kubeconfig);
  // Its machines trust a registry only if they are started after it was prepared.
  const prepared = isOurs ? prepareRegistry(ADDRESS) : null;
  if (isOurs) execFileSync("bash", [script, "up"], { stdio: "inherit" });
  await importImages(home);
  const started = prepared && startRegistry(prepared, ADDRESS, home);
  const stop = (): void => {
    started?.stop();
    if (isOurs) execFileSync("bash", [script, "down"], { stdio: "inherit" });
  };
  const images = { workerImage: WORKER, standInImage: STANDING_IN, images: started?.registry ?? null };
  return { cluster: { kubeconfig, folder, hostAddress: ADDRESS, ...images }, stop };
}

/** Makes both images of this host's own Python, and gives them to every machine of the cluster. */
async function importImages(home: string): Promise<void> {
  const folder = mkdtempSync(path.join(tmpdir(), "millrace-cluster-images-"));
  try {
    const root = path.join(folder, "root");
    mkdirSync(root);
    await fill(root);
    const { path: python } = await findInterpreter("python3");
    const library = execFileSync(python, ["-I", "-c", "import os; print(os.path.dirname(os.__file__))"]);
    compileBytecode(python, root, library.toString().trim());
    const layers = [root];
    const out = (name: string): string => path.join(folder, `${name}.tar`);
    await makeWorkerImage({ base: null, layers, name: WORKER, out: out("worker"), python });
    await makeImage({ base: null, layers: [root, STAND_IN], name: STANDING_IN, out: out("stand-in") });
    for (const name of ["worker", "stand-in"]) giveToMachines(home, out(name));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Gives an image to every machine of a cluster that `kube-up.sh` keeps in this folder. */
export function giveToMachines(home: string, archive: string): void {
  for (const machine of socketsOf(home)) importImage(home, machine, archive);
}

/** Of the containerd of each machine. */
export function socketsOf(home: string): string[] {
  return [1, 2, 3]
    .map((n) => path.join(home, "kr", `n${n}`, "containerd.sock"))
    .filter((each) => existsSync(each));
}

function importImage(home: string, socket: string, archive: string): void {
  ctr(home, socket, ["import", archive]);
}

/** Does something with the images of a machine. */
function ctr(home: string, socket: string, words: readonly string[]): void {
  const program = path.join(home, "dtool", "usr/bin/ctr");
  execFileSync(program, ["-a", socket, "-n", "k8s.io", "images", ...words], {
    stdio: ["ignore", "ignore", "inherit"],
  });
}

/** Starts a registry with an image to build on. */
function startRegistry(prepared: RegistryFolder, address: string, home: string) {
  const [machine = ""] = socketsOf(home);
  giveToMachines(home, path.join(prepared.tools, "buildkit.tar"));
  return serveRegistry(prepared, address, (name, words) => {
    ctr(home, machine, ["tag", "--force", WORKER, name]);
    ctr(home, machine, ["push", ...words, name]);
  });
}
