import { readSettings } from "../../src/config/settings.ts";
import { createLog } from "../../src/kit/log.ts";
import { startService } from "../../src/main.ts";
import type { Store } from "../../src/store/store.ts";

// A service that dies at a certain write: `node kill-point.ts runs.accept after [part of its input as JSON]`. It
// does so from SIGUSR2 on.

const [name = "", moment = "", part = ""] = process.argv.slice(2);
const [table = "", operation = ""] = name.split(".");
let isArmed = false;

type Call = (input: unknown) => Promise<unknown>;

process.on("SIGUSR2", () => {
  isArmed = true;
  process.stdout.write("armed\n");
});

const { settings } = readSettings({ flags: {}, env: process.env });
await startService(settings, { log: createLog(settings.logLevel), aroundStore: withPoint });

function withPoint(store: Store): Store {
  const operations = store[table as keyof Store] as unknown as Record<string, Call>;
  const original = operations[operation];
  if (!original) throw new Error(`there is no operation ${name}`);
  const deadly: Call = async (input) => {
    if (!isArmed || !isMeant(input)) return await original(input);
    if (moment === "before") die();
    const writing = original(input);
    // It may be on its way to the disk, or not have left this thread.
    if (moment === "amid") die();
    const result = await writing;
    die();
    return result;
  };
  return { ...store, [table]: { ...operations, [operation]: deadly } };
}

function isMeant(input: unknown): boolean {
  return part === "" || JSON.stringify(input).includes(part);
}

function die(): void {
  process.kill(process.pid, "SIGKILL");
}
