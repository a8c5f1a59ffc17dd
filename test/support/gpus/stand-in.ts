import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";
import type { GpuChoice } from "../../../src/config/gpu-choice.ts";
import { openGpus } from "../../../src/host/gpus/discovery.ts";
import type { DriverFiles } from "../../../src/host/gpus/driver-files.ts";
import type { GpuSource } from "../../../src/host/gpus/source.ts";
import { createLog } from "../../../src/kit/log.ts";
import { HandClock } from "../clocks.ts";

const SOURCE = fileURLToPath(new URL("./nvml.c", import.meta.url));

/** Whether this host can compile the stand-in. */
export function hasCompiler(): boolean {
  try {
    execFileSync("cc", ["--version"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

/** A driver with an H100 and an A100 in two MIG instances, whose behaviour a test changes: see `nvml.c`. */
export class StandInDriver {
  readonly files: DriverFiles;
  readonly clock = new HandClock();
  /** What was logged: level and detail. */
  readonly logged: string[] = [];
  readonly #folder: string;

  constructor() {
    this.#folder = mkdtempSync(path.join(tmpdir(), "millrace-nvml-"));
    onTestFinished(() => rmSync(this.#folder, { recursive: true, force: true }));
    this.files = {
      library: path.join(this.#folder, "libnvidia-ml.so.1"),
      control: this.#folder,
      capabilities: path.join(this.#folder, "capabilities"),
      devices: path.join(this.#folder, "dev"),
      pci: path.join(this.#folder, "pci"),
    };
    mkdirSync(this.files.devices);
    for (const file of ["nvidia3", "nvidia4"]) writeFileSync(path.join(this.files.devices, file), "");
    const state = `-DSTATE="${this.#folder}"`;
    execFileSync("cc", ["-shared", "-fPIC", "-Wall", "-Werror", state, "-o", this.files.library, SOURCE]);
    for (const [instance, minor] of Object.entries({ gi1: 21, "gi1/ci0": 22, gi2: 30, "gi2/ci0": 31 })) {
      const folder = path.join(this.files.capabilities, "gpu4/mig", instance);
      mkdirSync(folder, { recursive: true });
      writeFileSync(
        path.join(folder, "access"),
        `DeviceFileMinor: ${minor}\nDeviceFileMode: 292\nDeviceFileModify: 1\n`,
      );
    }
  }

  /** Has it behave so from now on. */
  set(behaviour: string, value = ""): void {
    writeFileSync(path.join(this.#folder, behaviour), value);
  }

  unset(behaviour: string): void {
    rmSync(path.join(this.#folder, behaviour));
  }

  has(behaviour: string): boolean {
    return existsSync(path.join(this.#folder, behaviour));
  }

  /** A program in place of Python, which says that and nothing else, whatever it is asked. */
  saying(message: unknown): string {
    const program = path.join(this.#folder, "says");
    writeFileSync(`${program}.txt`, `${JSON.stringify(message)}\n`);
    writeFileSync(program, `#!/bin/sh\nread order\nread question\ncat ${program}.txt\ncat >/dev/null\n`);
    chmodSync(program, 0o755);
    return program;
  }

  /** Opens its GPUs; they are closed when the test is over. */
  async open(
    choice: GpuChoice = { kind: "all" },
    files: Partial<DriverFiles> = {},
    python = "python3",
  ): Promise<GpuSource> {
    const { clock } = this;
    const write = (line: string): void => {
      const { level, detail } = JSON.parse(line) as { level: number; detail: string };
      this.logged.push(`${level >= 40 ? "warn" : "info"}: ${detail}`);
    };
    const host = { python, clock, log: createLog("info", { write }) };
    const gpus = await openGpus(choice, host, { ...this.files, ...files });
    onTestFinished(() => clock.passDuring(gpus.close()));
    return gpus;
  }
}
