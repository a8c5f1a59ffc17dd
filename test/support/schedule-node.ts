import { createInterface } from "node:readline";
import { systemClock } from "../../src/kit/clock.ts";
import { createLog } from "../../src/kit/log.ts";
import { Scheduler } from "../../src/runs/schedules/scheduler.ts";
import { Tracer } from "../../src/runs/traces/tracer.ts";
import { openStore } from "../../src/store/store.ts";

// The schedules of a node in a process of its own: it fires those of a database, and executes nothing. Its date stands
// still, at the epoch milliseconds of the last line of its input. It tells of each firing before and after it is written.

const options = JSON.parse(process.argv[2] ?? "{}") as Parameters<typeof openStore>[0] & { owner: string };
const store = await openStore(options);
const tell = (line: string): void => void process.stdout.write(`${line}\n`);
const input = createInterface({ input: process.stdin });
let now = 0;

const scheduler = new Scheduler({
  store: {
    ...store,
    firings: {
      ...store.firings,
      fire: async (query) => {
        tell("firing");
        const fired = await store.firings.fire(query);
        tell(`fired ${fired.runs}`);
        return fired;
      },
    },
  },
  clock: { ...systemClock, now: () => now },
  log: createLog("error"),
  owner: options.owner,
  reserve: { refusal: null },
  tracer: new Tracer(null),
  wake: () => {},
  cancel: async () => {},
});

input.on("line", (line) => {
  const isFirst = now === 0;
  now = Number(line);
  if (isFirst) scheduler.start();
  else scheduler.wake();
  tell(`now ${now}`);
});
