import { setImmediate } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { threadScript } from "../../config/package-files.ts";
import { systemClock } from "../../kit/clock.ts";
import { LazyResource } from "../../kit/lifecycle.ts";
import type { BodyPiece, Checked } from "./thread.ts";

/** From here on a body is checked in the thread: on the event loop it would hold up every other call. */
export const OFF_THREAD_BYTES = 256 * 1024;

/**
 * The body is copied in pieces with the event loop free in between, and each copy changes hands. Measured for
 * 32 MiB: one message that carries it holds the loop for 40 ms, a piece for 0.6 ms. Shared memory is as quick,
 * but V8 does not count it: 40 such bodies left 1.4 GB uncollected.
 */
const PIECE_BYTES = 1024 * 1024;

/** What a large body left in the thread goes with it. */
const IDLE_MS = 20_000;

const thread = new LazyResource({
  clock: systemClock,
  idleMs: IDLE_MS,
  open: startThread,
  close: async (worker) => void (await worker.terminate()),
});
let lastTurn: Promise<unknown> = Promise.resolve();
let closing = new AbortController();

/**
 * What `checkJson` says and the names of the members, worked out in a thread of its own, one body after the other; the body must not change
 * meanwhile. Rejects if the thread dies under this body; the next one gets a new thread.
 */
export function checkJsonOffThread(body: Buffer): Promise<Checked> {
  const { signal } = closing;
  const turn = lastTurn.then(() => takeTurn(body, signal));
  lastTurn = turn.catch(() => undefined);
  return turn;
}

/** Ends the thread and rejects every check in progress; a later check starts a new thread. */
export async function closeJsonChecker(): Promise<void> {
  closing.abort(new Error("the JSON checker was closed"));
  closing = new AbortController();
  await thread.close();
  await lastTurn;
}

async function takeTurn(body: Buffer, signal: AbortSignal): Promise<Checked> {
  signal.throwIfAborted();
  return await thread.use(async (worker) => {
    // Referenced only while it works: an idle thread must not keep the process alive.
    worker.ref();
    try {
      const [checked] = await Promise.all([answer(worker), send(worker, body)]);
      return checked;
    } finally {
      worker.unref();
    }
  });
}

async function send(worker: Worker, body: Buffer): Promise<void> {
  for (let at = 0; ; at += PIECE_BYTES) {
    const piece = new Uint8Array(body.subarray(at, at + PIECE_BYTES));
    const isLast = at + PIECE_BYTES >= body.length;
    worker.postMessage({ piece, isLast } satisfies BodyPiece, [piece.buffer]);
    if (isLast) return;
    await setImmediate();
  }
}

function startThread(): Worker {
  const started = new Worker(threadScript("gateway/json/thread"), {
    name: "check-json",
    // Not the flags of the process: some are for its own script, and `--input-type` would stop the thread.
    execArgv: [],
  });
  const forget = () => thread.forget(started);
  started.on("error", forget);
  started.on("exit", forget);
  return started;
}

/** The thread's next answer; rejects if it ends before. */
function answer(worker: Worker): Promise<Checked> {
  const { promise, resolve, reject } = Promise.withResolvers<Checked>();
  const onError = (cause: unknown) => reject(new Error("the JSON checking thread failed", { cause }));
  const onExit = (code: number) => reject(new Error(`the JSON checking thread ended with code ${code}`));
  worker.once("message", resolve);
  worker.once("error", onError);
  worker.once("exit", onExit);
  return promise.finally(() => {
    worker.off("message", resolve);
    worker.off("error", onError);
    worker.off("exit", onExit);
  });
}
