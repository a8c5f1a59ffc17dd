import { writeFileSync } from "node:fs";
import path from "node:path";
import type { ClockPosition } from "./clocked-service.ts";
import { testProgram } from "./command-line.ts";
import type { KillableService } from "./killable-service.ts";

/** The time of a service in a process of its own, to be moved by a test. */
export class ServiceClock {
  readonly service: KillableService;
  readonly #file: string;
  #position: ClockPosition = { aheadMs: 0, skippedMs: 0 };
  #moves = 0;

  constructor(service: KillableService) {
    this.service = service;
    this.#file = path.join(service.database.dataDir, "clock");
  }

  /** Starts the service with this clock, which shows the true time. */
  async start(): Promise<boolean> {
    this.#position = { aheadMs: 0, skippedMs: 0 };
    this.#moves = 0;
    return await this.service.start([process.execPath, testProgram("clocked-service")], {
      SERVICE_CLOCK: this.#file,
    });
  }

  /** Sets the date so far ahead of the true one, as somebody does who mends a wrong clock: no time passes by that. */
  async setAhead(aheadMs: number): Promise<void> {
    await this.#move({ ...this.#position, aheadMs });
  }

  /** Lets time pass: what would be due in so many milliseconds is due when this resolves. */
  async skip(ms: number): Promise<void> {
    await this.#move({ ...this.#position, skippedMs: this.#position.skippedMs + ms });
  }

  async #move(position: ClockPosition): Promise<void> {
    const { command } = this.service;
    this.#position = position;
    writeFileSync(this.#file, JSON.stringify(position));
    process.kill(command.pid, "SIGUSR2");
    await command.printed(new RegExp(`^clock moved ${(this.#moves += 1)}$`, "m"));
  }
}
