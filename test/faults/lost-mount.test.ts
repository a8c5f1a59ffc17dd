import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished, type TestContext } from "vitest";
import { KillableService } from "../support/killable-service.ts";
import { until } from "../support/until.ts";
import { verifies } from "../verifies.ts";

/** It needs nothing from the data directory while it runs. */
const APP = { main: "def run(n):\n    return 2 * n\n", toml: "[scaling]\nmax_replicas = 2\n" };

/** A folder on a file system of its own, which can be taken away and brought back while files in it are open. */
class Mount {
  readonly directory: string;
  readonly #disk: string;

  constructor(context: TestContext) {
    const place = mkdtempSync(path.join(tmpdir(), "millrace-mount-"));
    this.directory = path.join(place, "data");
    this.#disk = path.join(place, "disk");
    for (const folder of [this.directory, this.#disk]) mkdirSync(folder, { mode: 0o700 });
    onTestFinished(() => rmSync(place, { recursive: true, force: true }));
    try {
      perform("mount", "-t", "tmpfs", "-o", "mode=700", "none", this.#disk);
    } catch (error) {
      console.warn("A LOST MOUNT IS NOT TESTED ON THIS MACHINE, which lets nobody mount one");
      context.skip(String(error));
    }
    onTestFinished(() => perform("umount", "-l", this.#disk));
    this.attach();
    onTestFinished(() => this.detach());
  }

  attach(): void {
    perform("mount", "--bind", this.#disk, this.directory);
  }

  /** As a network disk is lost: open files go on, the path leads to the empty folder below. */
  detach(): void {
    perform("umount", "-l", this.directory);
  }

  /** Another file system over it, as by a mount in the wrong place. */
  cover(): void {
    perform("mount", "-t", "tmpfs", "none", this.directory);
  }
}

function perform(program: string, ...args: string[]): void {
  execFileSync(program, args, { stdio: "pipe" });
}

/** Calls one after the other, and what became of each. */
class Load {
  readonly accepted: string[] = [];
  readonly refusals: string[] = [];
  readonly faults: unknown[] = [];
  sync = 0;
  readonly #service: KillableService;
  #isOver = false;

  constructor(service: KillableService) {
    this.#service = service;
  }

  async run(): Promise<void> {
    const callers = [0, 1, 2, 3].map(async () => {
      while (!this.#isOver) {
        await this.submit();
        const { status } = await this.#service.post({ n: 1 });
        if (status === 200) this.sync += 1;
        else this.faults.push(status);
      }
    });
    await Promise.all(callers);
  }

  async submit(): Promise<void> {
    const { status, json } = await this.#service.post({ n: 2 }, { query: "?async=true" });
    if (status === 202) this.accepted.push(json.run_id as string);
    else if (status === 503) this.refusals.push(json.message as string);
    else this.faults.push(json);
  }

  finish(): void {
    this.#isOver = true;
  }
}

verifies(
  "storage.lost",
  "under load, no run is accepted while the data directory's mount is lost or covered, and none is lost",
  async (context) => {
    const mount = new Mount(context);
    const database = { databaseUrl: null, dataDir: mount.directory };
    const service = await KillableService.deploy(database, APP, { MILLRACE_ISOLATION: "none" });
    expect(await service.start()).toBe(true);
    const load = new Load(service);
    const running = load.run();
    onTestFinished(() => load.finish());
    const readiness = async () => (await fetch(`${service.baseUrl}/readyz`)).status;
    for (const [lose, bringBack] of [
      [() => mount.detach(), () => mount.attach()],
      [() => mount.cover(), () => mount.detach()],
    ] as const) {
      const before = load.accepted.length;
      await until("runs are accepted", () => load.accepted.length > before + 20);
      lose();
      const { status, json } = await service.post({ n: 1 }, { query: "?async=true" });
      expect([status, json.code]).toEqual([503, "storage_unavailable"]);
      expect(json.message).toContain("`millrace restore`");
      await until("it is not ready", async () => (await readiness()) === 503);
      // Those that were on their way when it was lost have been answered by now.
      const [accepted, refused] = [load.accepted.length, load.refusals.length];
      await until("more are refused", () => load.refusals.length > refused + 20);
      expect(load.accepted).toHaveLength(accepted);
      bringBack();
      await until("it is ready again", async () => (await readiness()) === 200);
    }
    const before = load.accepted.length;
    await until("runs are accepted again", () => load.accepted.length > before + 20);
    load.finish();
    await running;
    expect(load.faults).toEqual([]);
    for (const id of load.accepted)
      expect(await service.ended(id)).toMatchObject({ status: "success", result: 4 });
    console.log(`${load.accepted.length} accepted, ${load.refusals.length} refused, ${load.sync} sync calls`);
    await service.stop();
  },
);
