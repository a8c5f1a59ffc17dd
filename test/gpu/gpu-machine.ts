import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import path from "node:path";
import { createInterface } from "node:readline";
import { onTestFinished, type TestContext } from "vitest";
import { z } from "zod";
import { Condition } from "../../src/kit/concurrency.ts";
import { REPOSITORY } from "../support/source-files.ts";
import { until } from "../support/until.ts";

/** What an app writes that is to have a GPU, or a part of one, in GB. */
export function hardware(gpuMemory?: number, more = ""): string {
  const part = gpuMemory === undefined ? "" : `gpu_memory = ${gpuMemory}\n`;
  return `[hardware]\ncompute = "ANY"\ngpu_count = 1\n${part}${more}`;
}

/** A Python that has PyTorch; the tests' own has no packages. */
const torch = (process.env["PATH"] ?? "")
  .split(path.delimiter)
  .map((folder) => path.join(folder, "python3"))
  .find((python) => spawnSync(python, ["-c", "import torch"]).status === 0);

/** Gives the Python with PyTorch. Skips the test, and says why, where there is none, or no GPU. */
export function requireGpu(context: TestContext): string {
  const lack = !existsSync("/dev/nvidiactl")
    ? "this machine has no NVIDIA GPU"
    : "no python3 on the path has PyTorch";
  if (existsSync("/dev/nvidiactl") && torch !== undefined) return torch;
  process.stderr.write(`\nNOT TESTED: ${lack}\n`);
  context.skip(lack);
  throw new Error(lack);
}

/** A GPU as `nvidia-smi` lists it. */
type ListedGpu = { readonly index: number; readonly name: string; readonly uuid: string };

/** The first GPU of the machine, and what a service has to be told to use no other. */
export function firstGpu(): ListedGpu & {
  readonly memoryBytes: number;
  readonly flags: { readonly gpus?: string };
} {
  const listed = [...ask("-L").matchAll(/^GPU (\d+): (.+) \(UUID: (GPU-[\w-]+)\)$/gm)];
  const [[, index, name = "", uuid = ""] = []] = listed;
  const megabytes = ask("--query-gpu=memory.total", "--format=csv,noheader,nounits", `--id=${uuid}`);
  const flags = listed.length > 1 ? { gpus: uuid } : {};
  return { index: Number(index), name, uuid, memoryBytes: Number(megabytes) * 2 ** 20, flags };
}

function ask(...args: string[]): string {
  return execFileSync("nvidia-smi", args, { encoding: "utf8" });
}

/** The device files of the machine's GPUs. */
export function gpuFiles(): string[] {
  return readdirSync("/dev")
    .filter((name) => /^nvidia\d+$/.test(name))
    .map((name) => `/dev/${name}`);
}

const SEEN = z.object({
  at: z.number(),
  used: z.optional(z.number()),
  gone: z.optional(z.int()),
});

/** What happens on a GPU, seen from outside; ends with the test. */
export class GpuWatch {
  /** Used when the watch began. */
  #baseBytes: number | null = null;
  usedBytes = 0;
  mostUsedBytes = 0;
  readonly #seen: z.infer<typeof SEEN>[] = [];
  readonly #child: ChildProcess;
  readonly #news = new Condition();

  private constructor(python: string, uuid: string) {
    const program = path.join(REPOSITORY, "test/gpu/watch.py");
    this.#child = spawn(python, [program, uuid], { stdio: ["pipe", "pipe", "inherit"] });
    createInterface({ input: this.#child.stdout! }).on("line", (line) => {
      const seen = SEEN.parse(JSON.parse(line));
      this.#seen.push(seen);
      this.usedBytes = seen.used ?? this.usedBytes;
      this.#baseBytes ??= this.usedBytes;
      this.mostUsedBytes = Math.max(this.mostUsedBytes, this.usedBytes);
      this.#news.notify();
    });
    this.#child.once("exit", () => this.#news.notify());
    onTestFinished(() => {
      this.#child.kill("SIGKILL");
    });
  }

  static async begin(python: string, uuid: string): Promise<GpuWatch> {
    const watch = new GpuWatch(python, uuid);
    const isOver = (): boolean => watch.#child.exitCode !== null;
    await until("the GPU is watched", () => isOver() || watch.#baseBytes !== null, watch.#news);
    if (isOver()) throw new Error(`${uuid} cannot be watched: see what watch.py has printed`);
    return watch;
  }

  get baseBytes(): number {
    return this.#baseBytes ?? 0;
  }

  /** Have the end of a process noticed. */
  follow(pid: number): void {
    this.#child.stdin?.write(`${pid}\n`);
  }

  /** When a process that is followed has ended, in seconds since the epoch. */
  async endOf(pid: number): Promise<number> {
    const find = () => this.#seen.find(({ gone }) => gone === pid);
    await until(`the process ${pid} has ended`, () => find() !== undefined, this.#news);
    return find()!.at;
  }

  /** When less than that was used for the first time since then; null if it was never seen. */
  firstBelow(bytes: number, sinceSeconds: number): number | null {
    return this.#seen.find(({ at, used = Infinity }) => at >= sinceSeconds && used < bytes)?.at ?? null;
  }

  /** Until no more than a gigabyte is used beside what was used at the beginning. */
  async untilFree(): Promise<void> {
    const isFree = (): boolean => this.usedBytes < this.baseBytes + 1e9;
    await until("the memory of the GPU is free again", isFree, this.#news);
  }
}
