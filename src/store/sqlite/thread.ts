import { parentPort, receiveMessageOnPort } from "node:worker_threads";
import { systemClock } from "../../kit/clock.ts";
import { collectWhenIdle } from "../../kit/memory.ts";
import { operationNamed } from "../operations.ts";
import { lostStorage } from "../upkeep/storage-fault.ts";
import { toFailure, translateError } from "./messages.ts";
import { identify, isSame } from "./connection.ts";
import { commitTogether } from "./group-commit.ts";
import type { FromThread, Reply, Request, ThreadData, ToThread } from "./messages.ts";
import { openSession, type SqliteSession } from "./session.ts";

// The body of a database thread: opens the database that the first message names, then answers until `close`.

const port = parentPort!;
const waiting: Request[] = [];
let data: ThreadData | null = null;
let session: SqliteSession | null = null;
let isBusy = false;
let isClosing = false;
collectWhenIdle(systemClock);

port.on("message", (message: ToThread) => {
  take(message);
  if (!isBusy) void work();
});

async function work(): Promise<void> {
  isBusy = true;
  const { mode, path, identity } = data!;
  if (!session) {
    // Another file has taken the place of this service's database.
    if (identity && !isSame(identity, identify(path))) throw lostStorage();
    session = await openSession(mode, path);
    send("ready");
  }
  for (let request = next(); request; request = next()) {
    const isAlone = mode !== "write" || isUpkeep(request);
    send(isAlone ? [await answer(session, request)] : await commitTogether(session, request, nextWrite));
  }
  if (isClosing) {
    await session.db.destroy();
    // Kysely closes it only if it was ever used.
    if (session.database.isOpen) session.database.close();
    session = null;
    isClosing = false;
    send("closed");
  }
  isBusy = false;
}

async function answer(session: SqliteSession, { id, name, packed, deadlineMs }: Request): Promise<Reply> {
  session.deadline.atMs = deadlineMs ?? null;
  try {
    return { id, result: await operationNamed(name).run(session, packed as never) };
  } catch (error) {
    return { id, failure: toFailure(translateError(error)) };
  }
}

function take(message: ToThread): void {
  if (message === "close") isClosing = true;
  else if ("id" in message) waiting.push(message);
  else data = message;
}

/** Also reads the port, so that calls which arrived while the disk was busy do not wait for the event loop. */
function next(): Request | null {
  look();
  return waiting.shift() ?? null;
}

/** The next, if it may be one of a batch. */
function nextWrite(): Request | null {
  look();
  const [first] = waiting;
  return first && !isUpkeep(first) ? next() : null;
}

function look(): void {
  if (waiting.length > 0) return;
  const received = receiveMessageOnPort(port);
  if (received) take(received.message);
}

function isUpkeep({ name }: Request): boolean {
  return operationNamed(name).mode === "upkeep";
}

function send(message: FromThread): void {
  port.postMessage(message);
}
