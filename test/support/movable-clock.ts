import { readFileSync } from "node:fs";

// Loaded before a service, lets a test set its wall clock: on SIGUSR2 the service reads from the file that
// MOVABLE_CLOCK names how many milliseconds it is ahead of the true time.

const RealDate = Date;
let aheadMs = 0;
let moves = 0;

class MovedDate extends RealDate {
  constructor(...args: [] | ConstructorParameters<typeof Date>) {
    if (args.length === 0) super(MovedDate.now());
    else super(...args);
  }

  static override now(): number {
    return RealDate.now() + aheadMs;
  }
}

globalThis.Date = MovedDate as DateConstructor;

process.on("SIGUSR2", () => {
  aheadMs = Number(readFileSync(process.env["MOVABLE_CLOCK"] ?? "", "utf8"));
  process.stdout.write(`clock moved ${(moves += 1)}\n`);
});
