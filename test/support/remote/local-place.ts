import { type ChildProcess, spawn } from "node:child_process";
import type { ImageBuilds } from "../../../src/engines/build-seats.ts";
import path from "node:path";
import { PYTHON_DIR } from "../../../src/config/package-files.ts";
import { describeExit, type Exit, type Workload } from "../../../src/engines/engine.ts";
import { systemClock } from "../../../src/kit/clock.ts";
import type {
  AdoptedSeat,
  PlacedSeat,
  SeatOrder,
  SeatPlace,
  SeatPlaceEvents,
} from "../../../src/engines/agent/seat-place.ts";
import { isAlive } from "../process-tree.ts";

const AGENT = path.join(PYTHON_DIR, "millrace_agent");

const NAME = "process ";
const LOOK_MS = 50;

/** Whoever started it may be gone, so that nobody tells of its end. */
function untilGone(pid: number): Promise<void> {
  return new Promise((resolve) => {
    const look = (): void => {
      if (isAlive(pid)) return;
      timer.cancel();
      resolve();
    };
    const timer = systemClock.every(LOOK_MS, look);
    look();
  });
}

/** One agent of such a place. */
export type LocalSeat = PlacedSeat & { readonly pid: number; readonly order: SeatOrder };

export type LocalPlaceOptions = {
  readonly python?: string;
  /** Where agents keep their files; `assertNothingLeft` finds what was left there. */
  readonly folder: string;
  /** Others use the machine too. */
  readonly isShared?: boolean;
  /** What an agent is told instead. */
  readonly change?: (order: SeatOrder) => SeatOrder;
  /** Environments are built there, too. */
  readonly builds?: boolean;
  /** Images are built there, too. */
  readonly images?: ImageBuilds;
};

/** A place for seats on this machine: each agent is a process, and reaches the service by TLS as any other does. */
export class LocalPlace implements SeatPlace {
  readonly name = "this machine";
  readonly isShared: boolean;
  readonly builds?: true;
  readonly images: ImageBuilds | null;
  /** All that were begun, the oldest first. */
  readonly seats: LocalSeat[] = [];
  /** The pids of those that were begun by another service. */
  readonly adopted: number[] = [];
  /** What agents have said on stderr. */
  readonly words: string[] = [];
  change: (order: SeatOrder) => SeatOrder;
  /** It ends nothing that it is asked to end, as a machine that nobody reaches. */
  isDeaf = false;
  /** What agents run on. */
  python: string;
  readonly #folder: string;

  constructor({
    folder,
    python = "python3",
    isShared = false,
    change = (order) => order,
    builds,
    images,
  }: LocalPlaceOptions) {
    this.images = images ?? null;
    if (builds) this.builds = true;
    this.#folder = folder;
    this.isShared = isShared;
    this.python = python;
    this.change = change;
  }

  begin(given: SeatOrder, _workload: Workload, events: SeatPlaceEvents): PlacedSeat {
    const order = this.change(given);
    const child = spawn(this.python, ["-I", AGENT], {
      cwd: this.#folder,
      env: { PATH: process.env["PATH"], TMPDIR: this.#folder },
      stdio: ["pipe", "ignore", "pipe"],
      detached: true,
    });
    child.once("spawn", () => events.onPhase("scheduled", Date.now()));
    child.stdin.on("error", () => {}).end(`${JSON.stringify(order)}\n`);
    child.stderr.setEncoding("utf8").on("data", (text: string) => this.words.push(text));
    const seat = { ...this.#placed(child), order };
    this.seats.push(seat);
    return seat;
  }

  adopt({ placeName }: AdoptedSeat): PlacedSeat {
    const pid = Number(placeName.slice(NAME.length));
    this.adopted.push(pid);
    const exited = untilGone(pid).then((): Exit => ({ detail: "gone", initFailure: null }));
    const kill = (): void => {
      if (!this.isDeaf && isAlive(pid)) process.kill(pid, "SIGTERM");
    };
    return { placeName, exited, kill, letGo: () => {}, obstacle: () => null };
  }

  #placed(child: ChildProcess): Omit<LocalSeat, "order"> {
    const exited = new Promise<Exit>((resolve) => {
      const end = (detail: string): void => resolve({ detail, initFailure: null });
      child.once("exit", (code, signal) => end(describeExit(code, signal)));
      child.once("error", ({ message }) => end(message));
    });
    const pid = child.pid ?? 0;
    const kill = (): void => void (this.isDeaf || child.kill("SIGTERM"));
    return { pid, placeName: `${NAME}${pid}`, exited, kill, obstacle: () => null };
  }
}
