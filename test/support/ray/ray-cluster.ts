import { execFile } from "node:child_process";
import { readFileSync, readdirSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { heldBelow, listenersSeenBy } from "../listeners.ts";
import { nearestBelow } from "../../../src/host/processes.ts";
import { groupOf, isAlive, parentOf } from "../process-tree.ts";
import { until } from "../until.ts";

/** An actor of the cluster, as its dashboard tells it. */
export type RayActor = { readonly name: string; readonly state: string; readonly pid: number };

/** What a Ray cluster has on this machine. */
export type RayInside = {
  readonly ports: readonly number[];
  /** Paths of unix sockets. */
  readonly sockets: readonly string[];
  readonly folders: readonly string[];
  readonly pids: readonly number[];
};

/** A Ray cluster of this machine. */
export class RayCluster {
  /** Of its dashboard. */
  readonly address: string;
  readonly #script: string | null;
  readonly #folder: string | null;

  private constructor(address: string, script: string | null = null, folder: string | null = null) {
    this.address = address;
    this.#script = script;
    this.#folder = folder;
  }

  /**
   * The one at MILLRACE_RAY_ADDRESS, or a new one by `ray-up.sh` in the folder that MILLRACE_TEST_CLUSTER names; null
   * where neither is set, and says so.
   */
  static async find(env: NodeJS.ProcessEnv): Promise<RayCluster | null> {
    const { MILLRACE_RAY_ADDRESS: address, MILLRACE_TEST_CLUSTER: tools } = env;
    if (address) return new RayCluster(address);
    if (!tools) {
      process.stderr.write(
        "\nskipped: set MILLRACE_RAY_ADDRESS to the dashboard of a Ray cluster on this machine, or MILLRACE_TEST_CLUSTER to a folder with ray-up.sh\n",
      );
      return null;
    }
    const script = path.join(tools, "ray-up.sh");
    const folder = await mkdtemp(path.join(tmpdir(), "ray-"));
    const { stdout } = await promisify(execFile)(script, [folder, "up"], { env });
    const [, made] = /dashboard (\S+), 2 nodes/.exec(stdout) ?? [];
    if (made === undefined) throw new Error(`${script} made no cluster of two nodes: ${stdout}`);
    return new RayCluster(made, script, folder);
  }

  /** Whether its second node can be killed: not where it is somebody else's. */
  get isOwn(): boolean {
    return this.#folder !== null;
  }

  /** What starts one more node, with that address of its own, on a machine that reaches the head at the other one. */
  nodeCommand(own: string, head: string): string[] {
    const words = readFileSync(`/proc/${this.#groupOf("head")}/cmdline`, "utf8").split("\0");
    const port = words[words.indexOf("--port") + 1] ?? "";
    const ray = words.slice(0, words.indexOf("start"));
    const flags = ["--temp-dir", path.join(this.#folder ?? "", "tmp"), "--object-store-memory", "80000000"];
    const place = ["--address", `${head}:${port}`, "--node-ip-address", own, "--num-cpus", "1"];
    return [...ray, "start", "--block", "--disable-usage-stats", ...flags, ...place];
  }

  /** kill -9 of the second node, with everything that runs on it; gives the pids of those that ended. */
  killNode(): number[] {
    const top = this.#groupOf("worker");
    // The node itself first: it would tell the others of the end of what it has started.
    const all = [top, ...nearestBelow(top)];
    for (const pid of all) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // It has just ended.
      }
    }
    return all;
  }

  /** What of its own it keeps on this machine, for those who try to get at it. */
  async inside(): Promise<RayInside> {
    const sockets = path.join(this.#folder ?? "", "tmp", "session_latest", "sockets");
    const tops = this.isOwn ? ["head", "worker"].map((node) => this.#groupOf(node)) : [];
    const listeners = await listenersSeenBy(process.pid);
    const inodes = new Set(listeners.map(({ inode }) => inode));
    const held = new Set<string>();
    for (const top of tops) for (const inode of await heldBelow(top, inodes)) held.add(inode);
    const ports = listeners.filter(({ inode }) => held.has(inode)).map(({ port }) => port);
    return {
      ports: [...new Set([Number(new URL(this.address).port), ...ports])],
      sockets: this.isOwn ? readdirSync(sockets).map((name) => path.join(sockets, name)) : [],
      folders: this.isOwn ? [path.dirname(sockets)] : [],
      pids: tops.flatMap((top) => [top, ...nearestBelow(top)]),
    };
  }

  /** The addresses of its living nodes; several may have the same. */
  async nodes(): Promise<string[]> {
    const found = (await this.read("/api/v0/nodes")) as {
      data: { result: { result: { node_ip: string; state: string }[] } };
    };
    return found.data.result.result.flatMap(({ node_ip: ip, state }) => (state === "ALIVE" ? [ip] : []));
  }

  /** The actors of seats that are not dead. */
  async seats(): Promise<RayActor[]> {
    const found = (await this.read("/api/v0/actors?limit=10000")) as {
      data: { result: { result: (RayActor & { class_name: string })[] } };
    };
    const all = found.data.result.result;
    return all.filter((actor) => actor.class_name === "Seat" && actor.state !== "DEAD");
  }

  /** The processes of the only seat: its actor, and the agent that this has started. */
  async seatProcesses(): Promise<readonly [actor: number, agent: number]> {
    const [seat, ...others] = await this.seats();
    const agents =
      seat &&
      readdirSync("/proc")
        .map(Number)
        .filter((pid) => parentOf(pid) === seat.pid);
    if (!seat || others.length > 0 || agents?.length !== 1) throw new Error("there is not just one seat");
    return [seat.pid, agents[0]!];
  }

  /** kill -9 of the only supervisor; gives its pid. */
  async killSupervisor(): Promise<number> {
    const [pid, ...others] = await this.supervisors();
    if (pid === undefined || others.length > 0) throw new Error("there is not just one supervisor");
    process.kill(pid, "SIGKILL");
    return pid;
  }

  /** The supervisors that run: the processes of our jobs. */
  async supervisors(): Promise<number[]> {
    const jobs = (await this.read("/api/jobs/")) as {
      status: string;
      submission_id: string | null;
      driver_info: { pid: string } | null;
    }[];
    return jobs
      .filter(({ status, submission_id: id }) => status === "RUNNING" && id?.startsWith("millrace-"))
      .flatMap(({ driver_info: driver }) => (driver ? [Number(driver.pid)] : []));
  }

  async read(what: string): Promise<unknown> {
    return await (await fetch(`${this.address}${what}`)).json();
  }

  /** Ends what `find` has started. */
  async down(): Promise<void> {
    if (this.#script === null || this.#folder === null) return;
    const groups = ["head", "worker"].map((node) => this.#groupOf(node));
    await promisify(execFile)(this.#script, [this.#folder, "down"]);
    await until("the cluster has ended", () => groups.every((pid) => !isAlive(pid) || groupOf(pid) !== pid));
    await rm(this.#folder, { recursive: true, force: true });
  }

  #groupOf(node: string): number {
    return Number(readFileSync(path.join(this.#folder ?? "", `${node}.pid`), "utf8"));
  }
}
