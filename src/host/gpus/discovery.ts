import { existsSync } from "node:fs";
import type { GpuChoice } from "../../config/gpu-choice.ts";
import { type Clock, type Timer, withTimeout } from "../../kit/clock.ts";
import type { Log } from "../../kit/log.ts";
import type { Gpu, GpuReading, MachineGpus } from "../../model/gpu.ts";
import { type DriverFiles, hasGpus, mayHaveGpus, NVIDIA } from "./driver-files.ts";
import { FakeGpus } from "./fake.ts";
import { Reader, type Seen, type SeenFault, type SeenState } from "./reader.ts";
import { describeGpus, type GpuSource, modelOf, NO_GPUS, profileOf, without } from "./source.ts";

/** The driver of AMD's GPUs. */
const AMD = "/dev/kfd";

/** What the start of the service waits for a first reading. */
const OPEN_MS = 5_000;
const LOOK_EVERY_MS = 5_000;
/** GPUs, with those that are gone: more than any machine has, should the driver name others each time. */
const MAX_KNOWN = 2_048;
/** Before a faulty GPU, or a driver that does not work, is tried again; twice as long after each further time. */
const FIRST_RETRY_MS = 30_000;
const LONGEST_RETRY_MS = 30 * 60_000;
/** A GPU or a driver that has worked for so long starts again with the shortest pause. */
const FORGIVEN_MS = 60 * 60_000;

const RESET = "stop the service and reset it with nvidia-smi --gpu-reset, or reboot the machine";
const FAULTS: Readonly<Record<SeenFault, string>> = {
  lost: "it does not answer on the PCI bus: reboot the machine, and have it repaired if that happens again",
  reset: `the driver asks for a reset: ${RESET}`,
  reboot: "the driver asks for a reboot of the machine",
  drain: "the driver asks to end everything that uses NVLink",
  rows: "its memory has failed, and no spare rows are left: have it replaced",
  pages: `pages of its memory have failed and wait to be retired: ${RESET}`,
  ecc: `its memory has had uncorrectable errors: ${RESET}`,
};
const CHECK =
  "Check that nvidia-smi works for the service's user; MILLRACE_GPUS=none has apps run without GPUs";
const VANISHED =
  "the driver no longer lists it: reboot the machine, and have the GPU repaired if that happens again";
const NO_CAPS =
  "its device files below /dev/nvidia-caps are unknown: /proc/driver/nvidia/capabilities must be readable";

/** A GPU with what decides about it. */
type Found = { readonly gpu: Gpu; readonly parent: string; readonly reading: GpuReading };
/** A GPU that is out of service, or was a while ago. */
type Hold = {
  readonly reason: string;
  readonly times: number;
  readonly sinceMs: number;
  readonly timer: Timer;
};

type Driver = { readonly version: string | null } | { readonly failure: string };

type Host = { readonly python: string; readonly clock: Clock; readonly log: Log };

/**
 * Finds the GPUs that the service may use, and watches them until it is closed. Does nothing on a machine without any. A
 * driver that does not answer soon is not waited for: its GPUs come into service when it does.
 */
export async function openGpus(choice: GpuChoice, host: Host, files = NVIDIA): Promise<GpuSource> {
  const { log } = host;
  if (choice.kind === "none") return NO_GPUS;
  if (choice.kind === "fake") {
    const fake = new FakeGpus(choice.gpus);
    const detail = `${describeGpus(fake.current().gpus)}: MILLRACE_GPUS is for tests only here; apps are told of GPUs that do not exist`;
    log.warn({ detail }, "THE GPUS OF THIS SERVICE ARE FAKE");
    return fake;
  }
  if (!mayHaveGpus(files)) {
    const trouble = whyNone(choice);
    if (trouble !== null) log.warn({ detail: trouble }, "no GPU can be used");
    return without(trouble);
  }
  const gpus = new MachineWatch(choice, host, files);
  await gpus.open();
  return gpus;
}

function whyNone(choice: GpuChoice): string | null {
  if (existsSync(AMD)) return "AMD GPUs are not supported, only those of NVIDIA";
  if (choice.kind !== "some") return null;
  return `MILLRACE_GPUS names GPUs, but this machine has no NVIDIA driver: there is no ${NVIDIA.control}`;
}

/** GPUs behind NVIDIA's driver. One process reads them, and is replaced when it hangs or ends. */
class MachineWatch implements GpuSource {
  readonly #choice: GpuChoice;
  readonly #host: Host;
  readonly #files: DriverFiles;
  readonly #listeners = new Set<() => void>();
  readonly #holds = new Map<string, Hold>();
  readonly #beat: Timer;
  #reader: Reader | null = null;
  /** While a process is being replaced. */
  #restarting: Promise<void> | null = null;
  #retry: Timer | null = null;
  /** How often the driver has failed in a row, and since when it works. */
  #failures = 0;
  #sinceMs = 0;
  /** The driver's version, or why it does not answer. */
  #driver: Driver = { failure: "it may still be starting the GPUs" };
  #found: readonly Found[] = [];
  /** GPUs that the driver lists and cannot read. */
  #unread: readonly string[] = [];
  #current: MachineGpus = { driver: null, gpus: [], trouble: null };
  #readings: readonly GpuReading[] = [];
  /** What was logged last: each state is, once. */
  #said = "";
  #isClosed = false;

  constructor(choice: GpuChoice, host: Host, files: DriverFiles) {
    this.#choice = choice;
    this.#host = host;
    this.#files = files;
    this.#beat = host.clock.every(LOOK_EVERY_MS, () => void this.look());
  }

  async open(): Promise<void> {
    const { clock } = this.#host;
    const started = this.#start().then(() => true);
    if (!(await withTimeout(OPEN_MS, started, clock))) this.#update();
  }

  current(): MachineGpus {
    return this.#current;
  }

  readings(): readonly GpuReading[] {
    return this.#readings;
  }

  async look(): Promise<boolean> {
    for (;;) {
      await this.#restarting;
      const reader = this.#reader;
      await reader?.look();
      if (reader === this.#reader && this.#restarting === null) return this.#failure === null;
    }
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  get #failure(): string | null {
    return "failure" in this.#driver ? this.#driver.failure : null;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#beat.cancel();
    this.#retry?.cancel();
    for (const { timer } of this.#holds.values()) timer.cancel();
    this.#listeners.clear();
    await this.#reader?.end();
    await this.#restarting;
  }

  /** Resolves with the first reading, or when there will be none. */
  async #start(): Promise<void> {
    if (this.#isClosed) return;
    this.#sinceMs = this.#host.clock.monotonic();
    try {
      const reader: Reader = new Reader(this.#host, this.#files, {
        seen: (reading) => this.#see(reading),
        xid: (of, code) => {
          this.#hold(of, `the driver has reported XID ${code} (see dmesg): ${RESET}`);
          this.#update();
        },
        over: (why) => this.#lose(reader, why),
      });
      this.#reader = reader;
      await reader.look();
    } catch (error) {
      // It could not be started.
      this.#lose(null, (error as Error).message);
    }
  }

  /** Starts a process in place of another: only a new one sees that a GPU is back. */
  #replace(reader: Reader | null): void {
    this.#reader = null;
    const replace = async (): Promise<void> => {
      await reader?.end();
      // A process that hangs in the kernel cannot be ended, and the next one would hang, too.
      if (reader && !reader.isGone) this.#lose(reader, "its process cannot be ended");
      else await this.#start();
      this.#restarting = null;
    };
    this.#restarting = replace();
  }

  #lose(reader: Reader | null, why: string): void {
    if (this.#isClosed) return;
    const { clock } = this.#host;
    this.#reader = null;
    this.#failures = clock.monotonic() - this.#sinceMs > FORGIVEN_MS ? 1 : this.#failures + 1;
    this.#driver = { failure: why };
    this.#update();
    this.#retry = clock.after(pauseMs(this.#failures), () => this.#replace(reader));
  }

  #see(reading: Seen): void {
    const listed = reading.gpus.flatMap((each) => foundOf(each));
    const parents = new Set(reading.gpus.map((each) => each.uuid));
    for (const each of reading.gpus) if (each.fault !== null) this.#hold(each.uuid, FAULTS[each.fault]);
    // An instance of a GPU that is there was removed by the operator, and so was a GPU that has instances now.
    const vanished = this.#found.filter(({ parent }) => !parents.has(parent));
    for (const { parent } of vanished) this.#hold(parent, VANISHED);
    const names = new Set(listed.map(({ gpu: { uuid } }) => uuid));
    const gone = vanished
      .filter(({ gpu: { uuid } }) => !names.has(uuid))
      .map((each) => ({ ...each, reading: unknown(each.reading) }));
    this.#found = [...listed, ...gone].slice(0, MAX_KNOWN).toSorted(byPlace);
    this.#unread = reading.unread;
    this.#driver = { version: reading.driver };
    for (const [of, hold] of this.#holds) this.#settle(of, hold, reading);
    this.#update();
  }

  /** Takes a GPU out of service, with its instances, and plans the next look at it. */
  #hold(of: string, reason: string): void {
    const { clock } = this.#host;
    const now = clock.monotonic();
    const before = this.#holds.get(of);
    // Until its retry, whatever else it reports.
    if (before && now < before.sinceMs + pauseMs(before.times)) return;
    if (!before && this.#holds.size >= MAX_KNOWN) return;
    before?.timer.cancel();
    const times = before ? before.times + 1 : 1;
    const timer = clock.after(pauseMs(times), () => this.#tryAgain());
    this.#holds.set(of, { reason, times, sinceMs: now, timer });
  }

  #tryAgain(): void {
    // Without a process, one is about to be started anyway.
    if (this.#reader !== null && this.#restarting === null) this.#replace(this.#reader);
  }

  /** Forgets a GPU's faults when it has worked for long. */
  #settle(of: string, { sinceMs, times }: Hold, { gpus }: Seen): void {
    const isListed = gpus.some((each) => each.uuid === of && each.fault === null);
    const works = this.#host.clock.monotonic() - sinceMs - pauseMs(times);
    if (isListed && works > FORGIVEN_MS) this.#holds.delete(of);
  }

  #faultOf({ gpu: { fault }, parent }: Found): string | null {
    if (this.#failure !== null) return `the driver does not answer: ${this.#failure}`;
    const hold = this.#holds.get(parent);
    const isHeld = hold && this.#host.clock.monotonic() < hold.sinceMs + pauseMs(hold.times);
    return isHeld ? hold.reason : fault;
  }

  #update(): void {
    const { log } = this.#host;
    const unread = this.#unread;
    const chosen = this.#found.filter((each) => isChosen(this.#choice, each));
    const gpus = chosen.map((each) => ({ ...each.gpu, fault: this.#faultOf(each) }));
    const trouble = gpus.length > 0 ? null : this.#trouble();
    const before = this.#current;
    const isDown = trouble !== null && this.#isDown();
    const driver = "version" in this.#driver ? this.#driver.version : null;
    this.#current = { driver, gpus, trouble, ...(isDown && { isDown }) };
    this.#readings = chosen.map(({ reading }) => (this.#failure === null ? reading : unknown(reading)));
    if (JSON.stringify(before) === JSON.stringify(this.#current)) return;
    const faults = gpus
      .filter(({ fault }) => fault !== null)
      .map((each) => `GPU ${each.index} (${each.uuid}): ${each.fault}`);
    const missing = this.#failure === null ? missingOf(this.#choice, this.#found) : [];
    if (missing.length > 0) faults.push(`MILLRACE_GPUS names what is not there: ${missing.join(", ")}`);
    const detail = trouble ?? [describeGpus(gpus), ...faults, ...unread].join("; ");
    if (detail !== this.#said) {
      this.#said = detail;
      if (trouble !== null) log.warn({ detail }, "no GPU can be used");
      else if (faults.length + unread.length > 0) log.warn({ detail }, "some GPUs cannot be used");
      else log.info({ detail }, "GPUs of this machine");
    }
    for (const listener of this.#listeners) {
      try {
        listener();
      } catch (error) {
        // The driver's process is not to blame.
        log.error({ err: error }, "a change of GPUs was not taken note of");
      }
    }
  }

  /** Whether GPUs are there that only the driver does not answer for. */
  #isDown(): boolean {
    return this.#failure === null ? this.#unread.length > 0 : hasGpus(this.#files);
  }

  #trouble(): string {
    if (this.#failure !== null) return `the NVIDIA driver does not answer: ${this.#failure}. ${CHECK}`;
    if (this.#unread.length > 0) return this.#unread.join("; ");
    const missing = missingOf(this.#choice, this.#found);
    if (missing.length > 0)
      return `this machine does not have what MILLRACE_GPUS names: ${missing.join(", ")}`;
    return "the driver lists no GPU; one with MIG switched on needs instances (nvidia-smi mig -cgi)";
  }
}

function pauseMs(times: number): number {
  return Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** Math.min(times - 1, 20));
}

/** A GPU, or its MIG instances: then the GPU is none itself. */
function foundOf({ instances, ...each }: Seen["gpus"][number]): Found[] {
  const files = each.minor === null ? [] : [`/dev/nvidia${each.minor}`];
  const common = { index: each.index, busId: each.bus_id };
  const fault = each.fault && FAULTS[each.fault];
  if (instances === null) {
    const { uuid: id, name: title } = each;
    const whole = { ...common, uuid: id, name: title, model: modelOf(title), files, isMig: false, fault };
    return [{ gpu: { ...whole, memoryBytes: each.total_bytes ?? 0 }, parent: id, reading: readingOf(each) }];
  }
  return instances.map((one) => {
    const profile = profileOf(one.name, one.slices, each.total_bytes ?? 0);
    const caps = one.caps?.map((number) => `/dev/nvidia-caps/nvidia-cap${number}`) ?? [];
    const part: Gpu = {
      ...common,
      uuid: one.uuid,
      name: `${each.name} MIG ${profile}`,
      model: modelOf(each.name, profile),
      memoryBytes: one.total_bytes ?? 0,
      files: [...files, ...caps],
      isMig: true,
      fault: fault ?? (one.caps === null ? NO_CAPS : null),
    };
    return { gpu: part, parent: each.uuid, reading: readingOf({ ...one, watts: null, celsius: null }) };
  });
}

function readingOf(each: SeenState): GpuReading {
  const { uuid: id, used_bytes: usedBytes, free_bytes: freeBytes, utilization, watts, celsius } = each;
  const processes = each.processes?.map((one) => ({ pid: one.pid, usedBytes: one.used_bytes })) ?? null;
  return { uuid: id, usedBytes, freeBytes, utilization, watts, celsius, processes };
}

function unknown({ uuid: id }: GpuReading): GpuReading {
  const none = { usedBytes: null, freeBytes: null, utilization: null, watts: null, celsius: null };
  return { uuid: id, ...none, processes: null };
}

/** In the order of PCI bus ids; instances as the driver lists them. */
function byPlace(a: Found, b: Found): number {
  return a.gpu.busId < b.gpu.busId ? -1 : a.gpu.busId > b.gpu.busId ? 1 : 0;
}

/** The number or UUID of a GPU means its instances, too. */
function isChosen(choice: GpuChoice, { gpu: { index, uuid: id }, parent }: Found): boolean {
  if (choice.kind !== "some") return true;
  return choice.names.some((each) => each === id || each === parent || Number(each) === index);
}

function missingOf(choice: GpuChoice, found: readonly Found[]): string[] {
  if (choice.kind !== "some") return [];
  return choice.names.filter((each) => !found.some((one) => isChosen({ kind: "some", names: [each] }, one)));
}
