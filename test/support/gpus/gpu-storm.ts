import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { onTestFinished } from "vitest";
import { storageFolder } from "../../../src/host/data-folders.ts";
import { FakeGpus } from "../../../src/host/gpus/fake.ts";
import type { MachineRecord } from "../../../src/shapes/hardware.ts";
import { asOwner } from "../as-owner.ts";
import { DeployClient } from "../deploy-client.ts";
import type { Roll } from "../dice.ts";
import { explains } from "../explain.ts";
import { descendantsOf } from "../process-tree.ts";
import { secondProject } from "../second-project.ts";
import { type TestService, testService } from "../service.ts";
import { until } from "../until.ts";
import { zipOf } from "../zip.ts";
import { shownGpus } from "./holders.ts";

/** The GPUs that the apps compete for. */
const MACHINE = [
  { count: 4, model: "H100", memoryGb: 80 },
  { count: 2, model: "T4", memoryGb: 16 },
];

/** What apps ask for. Minimums of one replica of each that may have one fit in whichever order they are placed. */
const APPS = [
  { name: "whole", mine: true, hardware: 'compute = "H100"', max: 2, least: 1 },
  { name: "pair", mine: true, hardware: 'compute = "H100"\ngpu_count = 2', max: 1, least: 0 },
  { name: "small", mine: true, hardware: 'compute = "H100"\ngpu_memory = 20', max: 4, least: 1 },
  { name: "large", mine: true, hardware: 'compute = "H100"\ngpu_memory = 60', max: 2, least: 0 },
  { name: "either", mine: true, hardware: 'compute = ["T4", "ANY"]\ngpu_memory = 8', max: 3, least: 0 },
  { name: "theirs", mine: false, hardware: 'compute = "H100"\ngpu_memory = 30', max: 3, least: 1 },
  { name: "t4", mine: false, hardware: 'compute = "T4"', max: 2, least: 1 },
] as const;
/** Asks for everything, to see that everything is free. */
const ALL = {
  name: "all",
  mine: true,
  hardware: 'compute = "H100"\ngpu_count = 4',
  max: 1,
  least: 0,
} as const;

type StormApp = (typeof APPS)[number] | typeof ALL;

/**
 * The replicas' own book: each writes down what it was granted of which GPU, in a file that it keeps locked until the
 * kernel has ended it, and adds up what others that live have of the same GPU.
 */
const main = (ledger: string, projectId: string, app: string, version: string): string => `
import fcntl, json, os, time

LEDGER = ${JSON.stringify(ledger)} or os.path.join(os.environ["PERSISTENT_STORAGE"], "ledger")
KEPT = []


def note(uuid, share, memory):
    folder = os.path.join(LEDGER, uuid)
    os.makedirs(folder, exist_ok=True)
    own = {"pid": os.getpid(), "project": ${JSON.stringify(projectId)}, "app": ${JSON.stringify(app)}, "bytes": share}
    with open(folder + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        others = []
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), "r+") as entry:
                try:
                    fcntl.flock(entry, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(os.path.join(folder, name))
                except BlockingIOError:
                    others.append(json.load(entry))
        entry = open(os.path.join(folder, str(os.getpid())), "w")
        fcntl.flock(entry, fcntl.LOCK_EX)
        entry.write(json.dumps(own))
        entry.flush()
        KEPT.append(entry)
        if share + sum(other["bytes"] for other in others) > memory or any(
            other["project"] != own["project"] for other in others
        ):
            with open(folder + ".twice", "a") as twice:
                twice.write(json.dumps([own, others]) + "\\n")


def setup():
    memory = 2**30 * (16 if ${JSON.stringify(app)} == "t4" else 80)
    share = int(os.environ["MILLRACE_GPU_MEMORY"])
    for uuid in os.environ["NVIDIA_VISIBLE_DEVICES"].split(","):
        note(uuid, share, memory)


def run(ms: int = 0):
    time.sleep(ms / 1000)
    return {"version": ${JSON.stringify(version)}, "gpus": os.environ["NVIDIA_VISIBLE_DEVICES"].split(",")}
`;

type Ended = { readonly status: number; readonly code: string | null; readonly text: string };
type Counts = Record<"call" | "abandon" | "kill" | "deploy" | "scale" | "fail" | "crowd", number>;

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has ended meanwhile.
  }
}

/** A service with fake GPUs and real replicas, to which anything happens. */
export class GpuStorm {
  readonly gpus: FakeGpus;
  readonly done: Counts = { call: 0, abandon: 0, kill: 0, deploy: 0, scale: 0, fail: 0, crowd: 0 };
  /** What must not have happened. */
  readonly faults: string[] = [];
  readonly #test: TestService;
  readonly #ledgers: readonly string[];
  readonly #hasWalls: boolean;
  readonly #roll: Roll;
  readonly #places: ReadonlyMap<boolean, { readonly projectId: string; readonly token: string }>;
  readonly #calls = new Map<Promise<void>, string>();
  /** Callers that go away without an answer, and in which step. */
  #leaving: readonly { readonly step: number; readonly leave: () => void }[] = [];
  readonly #deploys = new Map<string, Promise<void>>();
  readonly #minimums = new Map<string, number>();
  /** When a replica of an app was killed last, in steps. */
  readonly #killed = new Map<string, number>();
  /** Who had a GPU when it failed, by its number. */
  readonly #failed = new Map<number, ReadonlySet<string>>();
  #step = 0;
  evictions = 0;

  private constructor(
    test: TestService,
    roll: Roll,
    their: { projectId: string; token: string },
    gpus: FakeGpus,
  ) {
    this.gpus = gpus;
    this.#test = test;
    this.#roll = roll;
    this.#places = new Map([
      [true, test.service.owner],
      [false, their],
    ]);
    this.#hasWalls = test.settings.isolation !== "none";
    // Behind walls apps of two projects have no place in common.
    this.#ledgers = this.#hasWalls
      ? [...this.#places.values()].map(({ projectId }) =>
          path.join(storageFolder(projectId, test.settings.dataDir), "ledger"),
        )
      : [path.join(test.directory, "ledger")];
    // Behind walls it has to belong to the user of the apps.
    if (!this.#hasWalls) for (const ledger of this.#ledgers) mkdirSync(ledger);
  }

  static async open(roll: Roll, isolation: "none" | "userns"): Promise<GpuStorm> {
    const gpus = new FakeGpus(MACHINE);
    const test = await testService({}, { isolation, gpuHold: "50ms" }, { gpus });
    const storm = new GpuStorm(test, roll, await secondProject(test, "p-theirs"), gpus);
    onTestFinished(explains(() => storm.#told()));
    for (const app of [...APPS, ALL]) await storm.#deploy(app, "0", false);
    await storm.#look();
    return storm;
  }

  /** Has one thing happen, and looks whether everything is right. */
  async step(): Promise<void> {
    this.#step += 1;
    for (const { step, leave } of this.#leaving) if (step <= this.#step) leave();
    this.#leaving = this.#leaving.filter(({ step }) => step > this.#step);
    const chance = this.#roll(100);
    if (chance < 55) this.#call(this.#any(APPS), Math.floor(this.#roll(120)), false);
    else if (chance < 60) this.#call(this.#any(APPS), 0, true);
    else if (chance < 76) this.#kill();
    else if (chance < 82) this.#begin(this.#any(APPS));
    else if (chance < 90) await this.#scale(this.#any(APPS));
    else if (chance < 95) await this.#fail(Math.floor(this.#roll(6)));
    else this.#crowd(Math.floor(this.#roll(6)));
    // As many as callers of a busy service, so that not all of them wait all the time.
    while (this.#calls.size >= 16) await Promise.race(this.#calls.keys());
    await this.#look();
  }

  /** All GPUs work, and without minimums all calls and deploys end; then all apps reach their minimums. */
  async settle(): Promise<void> {
    for (const { index } of this.gpus.current().gpus) {
      this.#mend(index);
      this.#use(index, 0);
    }
    for (const app of APPS) await this.#setMinimum(app, 0);
    await Promise.all(this.#deploys.values());
    for (const app of APPS) await this.#setMinimum(app, 0);
    await Promise.all(this.#calls.keys());
    await this.#look();
    for (const app of APPS) await this.#setMinimum(app, Math.floor(this.#roll(app.least + 1)));
    for (const app of APPS)
      await until(`${app.name} has its minimum`, async () => (await this.#ready(app)) >= this.#minimum(app));
    await this.#look();
  }

  /** Nothing is left: an app gets all GPUs. */
  async end(): Promise<void> {
    await this.settle();
    for (const app of APPS) await this.#setMinimum(app, 0);
    await until("the GPUs are given back", async () =>
      (await shownGpus(this.#test)).every(({ holders }) => holders.length === 0),
    );
    this.#call(ALL, 0, false);
    await Promise.all(this.#calls.keys());
    await this.#look();
    this.evictions = this.#test.logs.filter(({ text }) => text.includes("was evicted for")).length;
  }

  /** Calls an app; a caller that abandons it goes away some steps later. */
  #call(app: StormApp, ms: number, isAbandoned: boolean): void {
    this.done[isAbandoned ? "abandon" : "call"] += 1;
    const from = this.#step;
    const leaving = new AbortController();
    const { projectId, token } = this.#place(app);
    const ask = async (): Promise<Ended> => {
      const response = await fetch(`${this.#test.service.apiUrl}/v4/${projectId}/${app.name}/run`, {
        method: "POST",
        headers: { "content-type": "application/json", authorization: `Bearer ${token}` },
        body: JSON.stringify({ ms }),
        signal: leaving.signal,
      });
      const text = await response.text();
      const code = response.ok ? null : (JSON.parse(text) as { code: string }).code;
      return { status: response.status, code, text };
    };
    const judged = async (): Promise<void> => {
      try {
        const ended = await ask();
        if (!this.#isRight(app, from, ended))
          this.#wrong(`a call of ${app.name} in step ${from} was answered ${ended.status} ${ended.text}`);
      } catch (error) {
        if (!isAbandoned) this.#wrong(`a call of ${app.name} in step ${from} was lost: ${String(error)}`);
      }
    };
    const call: Promise<void> = judged().finally(() => this.#calls.delete(call));
    this.#calls.set(call, `a call of ${app.name} since step ${from}`);
    if (isAbandoned) {
      const step = from + 1 + Math.floor(this.#roll(4));
      this.#leaving = [...this.#leaving, { step, leave: () => leaving.abort() }];
    }
  }

  /** A call may only fail because its replica, or one that was starting for it, was killed. */
  #isRight({ name }: StormApp, from: number, { status, code }: Ended): boolean {
    const killed = this.#killed.get(name) ?? Number.NEGATIVE_INFINITY;
    // A replica that was killed is sent calls until the kernel tells of its end.
    if (code === "app_crashed") return killed >= from - 5;
    // Starts that were killed twice are taken for the fault of the app.
    if (code === "app_not_ready") return killed >= from - 100;
    return status === 200;
  }

  /** Kills a replica; behind walls, where ids are others, any process of an app: templates and their keepers too. */
  #kill(): void {
    if (this.#hasWalls) {
      const processes = descendantsOf(process.pid);
      if (processes.length === 0) return;
      for (const { name } of APPS) this.#killed.set(name, this.#step);
      this.done.kill += 1;
      kill(this.#any(processes));
      return;
    }
    const [ledger = ""] = this.#ledgers;
    const entries = readdirSync(ledger, { recursive: true, withFileTypes: true });
    const files = entries.filter((entry) => entry.isFile() && /^\d+$/.test(entry.name));
    // An id in the book may be that of another process by now.
    const ours = new Set(descendantsOf(process.pid));
    const living = files.filter(({ name }) => ours.has(Number(name)));
    if (living.length === 0) return;
    const chosen = this.#any(living);
    const written = readFileSync(path.join(chosen.parentPath, chosen.name), "utf8");
    if (written === "") return;
    const { app } = JSON.parse(written) as { app: string };
    this.done.kill += 1;
    this.#killed.set(app, this.#step);
    kill(Number(chosen.name));
  }

  #begin(app: StormApp): void {
    if (this.#deploys.has(app.name)) return;
    this.done.deploy += 1;
    const deploy = this.#deploy(app, String(this.#step), this.#roll(4) < 1).finally(() =>
      this.#deploys.delete(app.name),
    );
    this.#deploys.set(app.name, deploy);
  }

  async #deploy(app: StormApp, version: string, isBroken: boolean): Promise<void> {
    const from = this.#step;
    const { name, hardware, max } = app;
    const place = this.#place(app);
    const client = new DeployClient({ baseUrl: this.#test.service.baseUrl, ...place }, name);
    const minimum = this.#minimum(app);
    const scaling = `cooldown = "3s"\nmax_queue_seconds = "600s"\nmin_replicas = ${minimum}\nmax_replicas = ${max}`;
    const toml = `[hardware]\n${hardware}\n[scaling]\n${scaling}\n`;
    const code = isBroken
      ? "1 / 0\n"
      : main(this.#hasWalls ? "" : (this.#ledgers[0] ?? ""), place.projectId, name, version);
    const zip = await zipOf({ "main.py": code, "millrace.toml": toml });
    const { status, buildId } = await client.deploy(zip, { cerebrium_toml: toml });
    if (status === (isBroken ? "init_failure" : "success")) return;
    if (status === "init_failure" && (this.#killed.get(name) ?? -1) >= from) return;
    const log = await client.log(buildId);
    this.#wrong(`the deploy of ${name} in step ${from} ended as ${status}:\n${log.join("\n")}`);
  }

  async #scale(app: StormApp): Promise<void> {
    if (this.#deploys.has(app.name)) return;
    this.done.scale += 1;
    await this.#setMinimum(app, Math.floor(this.#roll(app.least + 1)));
  }

  async #setMinimum(app: StormApp, minReplicaCount: number): Promise<void> {
    this.#minimums.set(app.name, minReplicaCount);
    await asOwner(this.#test)("PATCH", this.#path(app), { minReplicaCount }, this.#place(app).token);
  }

  /** A GPU fails, or works again. */
  async #fail(index: number): Promise<void> {
    this.done.fail += 1;
    if (this.#failed.has(index)) return this.#mend(index);
    this.gpus.fail(index, "a test took it out");
    const [gpu] = (await shownGpus(this.#test)).filter((each) => each.index === index);
    this.#failed.set(index, new Set(gpu?.holders.map(({ containerId }) => containerId)));
  }

  #mend(index: number): void {
    this.#failed.delete(index);
    this.gpus.fail(index, null);
  }

  /** Another program uses some of a GPU, or no longer does. */
  #crowd(index: number): void {
    this.done.crowd += 1;
    this.#use(index, this.#roll(2) < 1 ? 0 : Math.floor(this.#roll(0.5) * this.#memory(index)));
  }

  #use(index: number, usedBytes: number): void {
    const processes = usedBytes > 0 ? [{ pid: process.pid, usedBytes }] : [];
    this.gpus.show(index, { usedBytes, freeBytes: this.#memory(index) - usedBytes, processes });
  }

  /** What the service says and what replicas wrote down. */
  async #look(): Promise<void> {
    const gpus = await shownGpus(this.#test);
    for (const gpu of gpus) this.#check(gpu);
    const grants = gpus.flatMap(({ model, holders }) =>
      holders.map(({ containerId, appId }) => ({ containerId, appId, model })),
    );
    for (const [id, [grant, ...more]] of Map.groupBy(grants, ({ containerId }) => containerId)) {
      const app = [...APPS, ALL].find(({ name }) => grant?.appId.endsWith(`-${name}`));
      const count = /gpu_count = (\d)/.exec(app?.hardware ?? "")?.[1] ?? "1";
      if (more.length + 1 !== Number(count)) this.#wrong(`${id} of ${app?.name} has ${more.length + 1} GPUs`);
      if (more.some(({ model }) => model !== grant?.model)) this.#wrong(`${id} has GPUs of several models`);
    }
    for (const ledger of this.#ledgers.filter((each) => existsSync(each)))
      for (const name of readdirSync(ledger).filter((each) => each.endsWith(".twice")))
        this.#wrong(`granted twice: ${readFileSync(path.join(ledger, name), "utf8")}`);
    if (this.faults.length > 0) throw new Error(`in step ${this.#step}: ${this.faults.join("\n")}`);
  }

  #check({ index, memoryBytes, grantedBytes, holders }: MachineRecord["gpus"][number]): void {
    if (grantedBytes > memoryBytes) this.#wrong(`GPU ${index} is granted twice: ${JSON.stringify(holders)}`);
    if (new Set(holders.map(({ projectId }) => projectId)).size > 1)
      this.#wrong(`GPU ${index} has apps of two projects: ${JSON.stringify(holders)}`);
    const before = this.#failed.get(index);
    const late = holders.filter(({ containerId }) => before && !before.has(containerId));
    if (late.length > 0) this.#wrong(`GPU ${index} was granted while it was out: ${JSON.stringify(late)}`);
  }

  #wrong(what: string): void {
    this.faults.push(what);
  }

  async #ready(app: StormApp): Promise<number> {
    const ask = asOwner(this.#test);
    type Container = { readonly containerState: string };
    const url = `${this.#path(app)}/containers`;
    const containers = await ask<Container[]>("GET", url, undefined, this.#place(app).token);
    return containers.filter(({ containerState }) => containerState === "RUNNING").length;
  }

  #path(app: StormApp): string {
    const { projectId } = this.#place(app);
    return `/v2/projects/${projectId}/apps/${projectId}-${app.name}`;
  }

  #place({ mine }: StormApp): { readonly projectId: string; readonly token: string } {
    return this.#places.get(mine)!;
  }

  #minimum({ name }: StormApp): number {
    return this.#minimums.get(name) ?? 0;
  }

  #memory(index: number): number {
    return this.gpus.current().gpus[index]?.memoryBytes ?? 0;
  }

  #any<T>(all: readonly T[]): T {
    return all[Math.floor(this.#roll(all.length))]!;
  }

  async #told(): Promise<string> {
    const held = (await shownGpus(this.#test)).map(
      ({ index, fault, usedBytes, holders }) =>
        `GPU ${index} ${fault ?? ""} ${usedBytes} ${holders.map(({ appId, containerId }) => `${appId} ${containerId}`).join()}`,
    );
    const waiting = await Promise.all(
      [...APPS, ALL].map(async (app) => {
        const url = `${this.#path(app)}/containers`;
        const all = await asOwner(this.#test)<object[]>("GET", url, undefined, this.#place(app).token);
        return `${app.name} (minimum ${this.#minimum(app)}): ${JSON.stringify(all)}`;
      }),
    );
    return [
      `step ${this.#step}: ${JSON.stringify(this.done)}`,
      ...held,
      ...waiting,
      ...this.#calls.values(),
      ...Array.from(this.#deploys.keys(), (name) => `a deploy of ${name}`),
    ].join("\n");
  }
}
