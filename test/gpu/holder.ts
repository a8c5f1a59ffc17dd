import { readFileSync, readdirSync, statSync } from "node:fs";
import { expect } from "vitest";
import { z } from "zod";
import { parentOf } from "../support/process-tree.ts";
import type { Answer } from "../support/service.ts";

export const GB = 1e9;

/** An app that holds so many bytes of a GPU, a Python expression. */
export function holder(bytes: string): string {
  return `
import os, time
import torch

replica = ""
held = None
times = {}

def setup():
    global replica, held
    replica = os.urandom(8).hex()
    times["began"] = time.time()
    held = torch.ones(${bytes}, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    times["ended"] = time.time()

def run():
    who = {"replica": replica, "pid": os.getpid(), "namespace": os.stat("/proc/self/ns/pid").st_ino}
    return {**who, **times, "bytes": held.numel(), "sum": int(held[-1000:].sum())}

def meet(count):
    """Waits for calls of so many replicas."""
    folder = os.environ["PERSISTENT_STORAGE"]
    open(os.path.join(folder, "replica-" + replica), "w").close()
    while sum(name.startswith("replica-") for name in os.listdir(folder)) < count:
        time.sleep(0.01)
    return run()

def stay():
    time.sleep(3600)
`;
}

const HELD = z.object({
  /** Of its own: ids of processes repeat. */
  replica: z.string(),
  /** In its own namespace. */
  pid: z.int(),
  namespace: z.int(),
  /** When `setup()` began and ended, in seconds since the epoch. */
  began: z.number(),
  ended: z.number(),
  bytes: z.number(),
  sum: z.number(),
});
export type Held = z.infer<typeof HELD>;

/** What a replica answers that holds its memory. */
export function heldBy({ status, text, json }: Pick<Answer, "status" | "text" | "json">): Held {
  expect([status, text]).toEqual([200, expect.any(String)]);
  return HELD.parse(json.result);
}

/** The id by which the host knows a replica of a service of this process. */
export function hostPid({ pid, namespace }: Held): number {
  const isBelow = (one: number): boolean => one === process.pid || (one > 1 && isBelow(parentOf(one)));
  const found = readdirSync("/proc")
    .filter((entry) => /^\d+$/.test(entry))
    .map(Number)
    .filter((each) => ownIdOf(each) === pid && isIn(each, namespace) && isBelow(each));
  if (found.length === 0) throw new Error(`no process of this service has the id ${pid}`);
  return Math.max(...found);
}

/** The id that a process has in its innermost namespace. */
function ownIdOf(pid: number): number {
  try {
    const ids = /^NSpid:\s+(.*)$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? "";
    return Number(ids.split(/\s+/).at(-1));
  } catch {
    return 0; // It has ended.
  }
}

/** True where that cannot be seen: of processes behind walls only root sees it. */
function isIn(pid: number, namespace: number): boolean {
  try {
    return statSync(`/proc/${pid}/ns/pid`).ino === namespace;
  } catch {
    return true;
  }
}
