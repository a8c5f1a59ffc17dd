import { ONE_QUEUE, type QueueRecord } from "../../shapes/queues.ts";
import type { Definitions } from "../options.ts";
import { fields, paintStatus, relative } from "../output.ts";
import { asking, type Task } from "./task.ts";

export const COMMANDS: Definitions = {
  queue(command) {
    asking(command, "show <app>", "show how many async runs wait, and what limits them", showQueue, "hello");
    asking(
      command,
      "pause <app>",
      "begin no further async runs; new ones are accepted and wait",
      (task: Task, app: string) => changeQueue(task, app, "pause"),
      "hello",
    );
    asking(
      command,
      "resume <app>",
      "begin and accept async runs again",
      (task: Task, app: string) => changeQueue(task, app, "resume"),
      "hello",
    );
    asking(
      command,
      "drain <app>",
      "accept no further async runs; those that wait begin",
      (task: Task, app: string) => changeQueue(task, app, "drain"),
      "hello",
    );
  },
};

async function showQueue({ api, out }: Task, app: string): Promise<void> {
  const { item } = await api.get(ONE_QUEUE, await api.appPath(app, "/queue"), { about: { app } });
  out.show(item, () => describe(item));
}

function describe({
  state,
  changedAt,
  byPriority,
  oldestAt,
  running,
  parked,
  limits,
  ...queue
}: QueueRecord): string {
  const { high, normal, low } = byPriority;
  return fields([
    ["state", `${paintStatus(state)}${changedAt === null ? "" : `  since ${changedAt}`}`],
    ["waiting", `${queue.hasMore ? "more than " : ""}${queue.waiting}`],
    ["by priority", `high ${high}, normal ${normal}, low ${low}`],
    ["oldest", oldestAt === null ? "–" : `${relative(oldestAt)}  ${oldestAt}`],
    ["running", String(running)],
    ["held by key", String(parked)],
    ...(limits ? limitLines(limits) : []),
  ]);
}

function limitLines(limits: NonNullable<QueueRecord["limits"]>): (readonly [string, string])[] {
  const rateOf = (rate: typeof limits.rateLimit): string | null =>
    rate && `${rate.count}/${rate.periodSeconds}s`;
  const lines = {
    concurrency_limit: limits.concurrencyLimit,
    concurrency_key_limit: limits.concurrencyKeyLimit,
    rate_limit: rateOf(limits.rateLimit),
    concurrency_key_rate_limit: rateOf(limits.concurrencyKeyRateLimit),
    max_backlog: limits.maxBacklog,
  };
  return Object.entries(lines).flatMap(([name, limit]) =>
    limit === null ? [] : [[name, String(limit)] as const],
  );
}

const SAID = {
  pause: "is paused: its async runs wait, and sync calls are served",
  resume: "is open",
  drain: "is being drained: it takes no async runs until it is resumed",
} as const;

async function changeQueue({ api, out }: Task, app: string, verb: keyof typeof SAID): Promise<void> {
  const path = await api.appPath(app, `/queue/${verb}`);
  const { item } = await api.ask(ONE_QUEUE, "POST", path, { about: { app } });
  const waiting = `${item.hasMore ? "more than " : ""}${item.waiting}`;
  out.show(item, () => `The queue of ${app} ${SAID[verb]}. Waiting: ${waiting}, running: ${item.running}.\n`);
}
