import { existsSync, writeFileSync } from "node:fs";
import path from "node:path";
import { storageFolder } from "../../src/host/data-folders.ts";
import { until } from "./until.ts";
import type { TestService } from "./service.ts";

/** Python: waits at a gate, which is a file in the storage of the app's project. `letGo` opens it. */
export const WAIT_FOR = `
import os
import time

def gate_file(gate):
    return os.path.join(os.environ["PERSISTENT_STORAGE"], os.environ["APP_NAME"] + "." + gate)

def wait_for(gate):
    while not os.path.exists(gate_file(gate)):
        time.sleep(0.005)
`;

/** The same for a coroutine. */
export const WAIT_FOR_ASYNC = `
import asyncio
import os

async def wait_for(gate):
    gate = os.path.join(os.environ["PERSISTENT_STORAGE"], os.environ["APP_NAME"] + "." + gate)
    while not os.path.exists(gate):
        await asyncio.sleep(0.005)
`;

/** Functions of every kind, to look at their runs from outside. */
export const RUNS_MAIN = `${WAIT_FOR}
def echo(value=None):
    return value

def code(code):
    return {"status_code": code, "why": "asked"}

def fail():
    raise ValueError("no")

def held(gate):
    wait_for(gate)
    return "let go"

def count(upto, size=0):
    for i in range(1, upto + 1):
        yield ("%d " % i).ljust(size, ".") if size else "m%d" % i

def values():
    yield "two\\nlines"
    yield {"a": [1, None]}
    yield 9007199254740993
    yield ""
    yield '"quoted"'

def broken(upto):
    yield from count(upto)
    raise ValueError("broken")

def late(gate):
    wait_for(gate)
    yield from fail()

def empty():
    yield from ()

def own():
    yield "id: 70\\nevent: a\\ndata: x \\n\\n"
    yield "id: 71\\ndata: 1\\n\\nid: 72\\ndata: 2\\n\\n"
    yield "data: 3\\nid: 99\\n\\n"

def gated(gate, before, after, size=0):
    yield from count(before, size)
    wait_for(gate)
    for i in range(before + 1, before + after + 1):
        yield ("%d " % i).ljust(size, ".") if size else "m%d" % i
`;

/** The messages that `count(upto)` yields after the `after`th. */
export function counted(upto: number, after = 0): string[] {
  return Array.from({ length: upto - after }, (_, i) => `m${after + i + 1}`);
}

/** The whole numbers from one to another. */
export function range(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, i) => first + i);
}

/** The file that opens a gate of an app. */
export function gateFile(service: TestService, app: string, gate: string): string {
  const { projectId } = service.service.owner;
  return path.join(storageFolder(projectId, service.settings.dataDir), `${app}.${gate}`);
}

/** Opens a gate that a function of the app waits at. */
export function letGo(service: TestService, app: string, gate: string): void {
  const file = gateFile(service, app, gate);
  if (existsSync(file)) throw new Error(`the gate ${gate} is open already`);
  writeFileSync(file, "");
}

/** The id of the one run of a function that a replica of the app holds. */
export async function runningId(service: TestService, app: string, functionName: string): Promise<string> {
  const ids = (): string[] =>
    [...(service.apps.get(app)?.pool.replicas ?? [])].flatMap(({ calls }) =>
      [...calls.values()]
        .filter((call) => call.functionName === functionName && !call.hasEnded)
        .map(({ runId }) => runId),
    );
  await until(`${functionName} runs`, () => ids().length === 1);
  return ids()[0] ?? "";
}

/** Waits until a run that has ended is in the store, and no longer on its way there. */
export async function stored(service: TestService, app: string, id: string): Promise<void> {
  const { store } = service.service;
  const appNumber = service.apps.get(app)?.app.number ?? 0;
  await until(`the run ${id} is stored`, async () => (await store.runs.find({ appNumber, id })) !== null);
  await service.service.settle();
}
