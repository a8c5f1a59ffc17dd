import { type ChildProcess, spawn } from "node:child_process";
import type { Readable, Writable } from "node:stream";
import { z } from "zod";
import { afterRunning, type Clock, withTimeout } from "../../kit/clock.ts";
import { LineCutter } from "../../kit/line-cutter.ts";
import { startOf } from "../interpreter.ts";
import { withPipes } from "../processes.ts";
import type { DriverFiles } from "./driver-files.ts";

/** A first reading may have to start the GPUs, which takes a second or two for each. */
const FIRST_LOOK_MS = 60_000;
const LOOK_MS = 20_000;
/** A killed process whose GPU hangs in the kernel may stay forever. */
const CLOSE_MS = 2_000;
const MAX_LINE_BYTES = 4 * 1024 * 1024;
const MAX_WORDS_CHARS = 500;

/** What the process says of a GPU that must not be used. */
const SEEN_FAULTS = ["lost", "reset", "reboot", "drain", "rows", "pages", "ecc"] as const;
export type SeenFault = (typeof SEEN_FAULTS)[number];

const bytes = z.int().min(0).nullable();
const uuid = z.string().regex(/^(?:GPU|MIG)-[0-9A-Za-z/-]{1,80}$/);
const name = z.string().max(96);
const minor = z.int().min(0).max(1_000_000);
const pid = z
  .int()
  .min(0)
  .max(2 ** 32);
const state = {
  uuid,
  name,
  total_bytes: bytes,
  used_bytes: bytes,
  free_bytes: bytes,
  utilization: z.int().min(0).max(100).nullable().catch(null),
  processes: z
    .array(z.object({ pid, used_bytes: bytes }))
    .max(1_024)
    .nullable(),
};
const slices = z
  .object({ gpu: z.int().min(0), compute: z.int().min(0), memory_mb: z.int().min(0) })
  .transform(({ memory_mb: memoryMb, ...rest }) => ({ ...rest, memoryMb }));
const instance = z.object({
  ...state,
  caps: z.array(minor).max(2).nullable(),
  slices: slices.nullable(),
});
const gpu = z.object({
  ...state,
  index: z.int().min(0).max(1_000),
  bus_id: z.string().max(32),
  minor: minor.nullable(),
  instances: z.array(instance).max(16).nullable(),
  watts: z.number().min(0).max(100_000).nullable().catch(null),
  celsius: z.int().min(0).max(1_000).nullable().catch(null),
  fault: z.enum(SEEN_FAULTS).nullable(),
});
const seen = z.object({
  id: z.int().min(0),
  driver: z.string().max(80).nullable(),
  gpus: z.array(gpu).max(64).refine(areDifferent),
  unread: z.array(z.string().max(300)).max(64),
});
/** Otherwise one GPU would be granted twice. */
function areDifferent(gpus: readonly z.output<typeof gpu>[]): boolean {
  const uuids = gpus.flatMap((each) => [each.uuid, ...(each.instances ?? []).map((one) => one.uuid)]);
  const files = gpus.flatMap(({ minor: number }) => number ?? []);
  return new Set(uuids).size === uuids.length && new Set(files).size === files.length;
}

const message = z.union([
  z.strictObject({ seen }),
  z.strictObject({ failed: z.string().max(300) }),
  z.strictObject({ xid: z.object({ uuid, code: z.int().min(0).max(1_000_000), is_fatal: z.boolean() }) }),
]);

/** A reading of all GPUs. */
export type Seen = z.output<typeof seen>;
export type SeenState = Pick<Seen["gpus"][number], keyof typeof state | "watts" | "celsius">;

type Hears = {
  readonly seen: (reading: Seen) => void;
  readonly xid: (uuid: string, code: number) => void;
  /** Called once, when it has ended or must not be used any more; not after `end`. */
  readonly over: (why: string) => void;
};

/** The process that reads. It is asked for one reading at a time. */
export class Reader {
  readonly #child: ChildProcess;
  readonly #stdin: Writable;
  readonly #hears: Hears;
  readonly #clock: Clock;
  readonly #gone: Promise<void>;
  /** Resolved by the reading that was asked for, and by the one after it. */
  #asked: (() => void)[] = [];
  #waiting: (() => void)[] = [];
  #cancelLimit: (() => void) | null = null;
  #asks = 0;
  #words = "";
  #isOver = false;
  isGone = false;

  constructor(
    { python, clock }: { readonly python: string; readonly clock: Clock },
    { library, capabilities }: DriverFiles,
    hears: Hears,
  ) {
    const { LD_LIBRARY_PATH: path } = process.env;
    const child = spawn(python, startOf("millrace_agent.gpus"), {
      cwd: "/",
      env: path === undefined ? {} : { LD_LIBRARY_PATH: path },
      stdio: "pipe",
      detached: true,
    });
    this.#child = child;
    this.#hears = hears;
    this.#clock = clock;
    this.#gone = new Promise((resolve) => {
      const gone = (why: string): void => {
        this.isGone = true;
        resolve();
        this.#finish(this.#words.trim().split("\n").at(-1) || why);
      };
      child.once("error", (error) => gone(error.message));
      child.once("close", (code, signal) => gone(`its process has ended with ${signal ?? `code ${code}`}`));
    });
    const [stdin, stdout, stderr] = withPipes(child).stdio as [Writable, Readable, Readable, ...unknown[]];
    this.#stdin = stdin;
    stdin.on("error", () => {}); // It has ended, which is told otherwise.
    stderr.on(
      "data",
      (data: Buffer) => (this.#words = (this.#words + data.toString()).slice(-MAX_WORDS_CHARS)),
    );
    this.#listen(stdout);
    this.#write({ library, capabilities });
  }

  /** Resolves with a reading that began after this call, or when there will be none. */
  look(): Promise<void> {
    if (this.#isOver) return Promise.resolve();
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      if (this.#asked.length === 0) this.#ask();
    });
  }

  /** Ends it; resolves when it is gone, or hangs so that it cannot be. */
  async end(): Promise<void> {
    const resolves = this.#settle();
    this.#child.kill("SIGKILL");
    for (const resolve of resolves) resolve();
    await withTimeout(CLOSE_MS, this.#gone, this.#clock);
  }

  #ask(): void {
    this.#asked = this.#waiting;
    this.#waiting = [];
    const limitMs = this.#asks === 0 ? FIRST_LOOK_MS : LOOK_MS;
    this.#asks += 1;
    const late = `no answer within ${limitMs / 1000} s`;
    this.#cancelLimit = afterRunning(limitMs, () => this.#finish(late), this.#clock);
    this.#write({ look: this.#asks });
  }

  #listen(stdout: Readable): void {
    const cutter = new LineCutter({ maxBytes: MAX_LINE_BYTES }, (line, isPiece) => {
      if (isPiece) throw new Error("its line is too long");
      const heard = message.parse(JSON.parse(line.toString()));
      if ("failed" in heard) this.#finish(heard.failed);
      else if ("seen" in heard) this.#answer(heard.seen);
      else this.#report(heard.xid);
    });
    stdout.on("data", (data: Buffer) => {
      if (this.#isOver) return;
      try {
        cutter.push(data);
        cutter.cut(() => !this.#isOver);
      } catch {
        this.#finish("its process sends what cannot be read");
      }
    });
  }

  #answer(reading: Seen): void {
    if (reading.id !== this.#asks || this.#asked.length === 0) throw new Error("an answer to no question");
    this.#cancelLimit?.();
    const asked = this.#asked;
    this.#asked = [];
    this.#hears.seen(reading);
    for (const resolve of asked) resolve();
    if (this.#waiting.length > 0 && !this.#isOver) this.#ask();
  }

  #report({ uuid: of, code, is_fatal: isFatal }: { uuid: string; code: number; is_fatal: boolean }): void {
    if (isFatal) this.#hears.xid(of, code);
    // The recovery action has changed: a reading shows it.
    else if (this.#waiting.length === 0) void this.look();
  }

  /** It has failed. */
  #finish(why: string): void {
    if (this.#isOver) return;
    this.#child.kill("SIGKILL");
    const resolves = this.#settle();
    this.#hears.over(why);
    for (const resolve of resolves) resolve();
  }

  #settle(): (() => void)[] {
    this.#isOver = true;
    this.#cancelLimit?.();
    const resolves = [...this.#asked, ...this.#waiting];
    this.#asked = [];
    this.#waiting = [];
    return resolves;
  }

  #write(line: object): void {
    this.#stdin.write(`${JSON.stringify(line)}\n`);
  }
}
