import { expect, test } from "vitest";
import { LateValue, LazyResource, Lifecycle } from "../../../src/kit/lifecycle.ts";
import { HeldClock } from "../../support/held-clock.ts";

test("parts start in order and stop in reverse, each with what its start returned", async () => {
  const events: string[] = [];
  const lifecycle = new Lifecycle();
  for (const name of ["store", "pool", "gateway"]) {
    const part = await lifecycle.start(
      name,
      () => {
        events.push(`start ${name}`);
        return `the ${name}`;
      },
      async (started) => {
        await Promise.resolve();
        events.push(`stop ${started}`);
      },
    );
    expect(part).toBe(`the ${name}`);
  }
  await lifecycle.stop();
  expect(events).toEqual([
    "start store",
    "start pool",
    "start gateway",
    "stop the gateway",
    "stop the pool",
    "stop the store",
  ]);
});

test("a part that fails to stop keeps no other from stopping, and every failure is told", async () => {
  const stopped: string[] = [];
  const lifecycle = new Lifecycle();
  const cause = new Error("socket in use");
  const part = (name: string, fails: boolean) =>
    lifecycle.start(
      name,
      () => name,
      () => {
        stopped.push(name);
        if (fails) throw cause;
      },
    );
  await part("store", false);
  await part("pool", true);
  await part("gateway", true);
  const failure = await lifecycle.stop().catch((error: unknown) => error);
  expect(stopped).toEqual(["gateway", "pool", "store"]);
  expect(failure).toBeInstanceOf(AggregateError);
  const errors = (failure as AggregateError).errors as Error[];
  expect(errors.map((error) => error.message)).toEqual(["stopping gateway", "stopping pool"]);
  expect(errors.map((error) => error.cause)).toEqual([cause, cause]);
});

test("a part that fails to start is not stopped, and those before it are", async () => {
  const stopped: string[] = [];
  const lifecycle = new Lifecycle();
  await lifecycle.start(
    "store",
    () => 1,
    () => void stopped.push("store"),
  );
  const starting = lifecycle.start(
    "pool",
    () => Promise.reject(new Error("no python")),
    () => void stopped.push("pool"),
  );
  await expect(starting).rejects.toThrow("no python");
  await lifecycle.stop();
  expect(stopped).toEqual(["store"]);
});

test("a part that is still starting when the stop comes is stopped too, and first", async () => {
  const stopped: string[] = [];
  const lifecycle = new Lifecycle();
  const { promise, resolve } = Promise.withResolvers<number>();
  await lifecycle.start(
    "store",
    () => 1,
    () => void stopped.push("store"),
  );
  const starting = lifecycle.start(
    "pool",
    () => promise,
    () => void stopped.push("pool"),
  );
  const stopping = lifecycle.stop();
  resolve(2);
  await Promise.all([starting, stopping]);
  expect(stopped).toEqual(["pool", "store"]);
});

test("nothing starts once the stop has begun", async () => {
  const lifecycle = new Lifecycle();
  await lifecycle.stop();
  let isStarted = false;
  const late = lifecycle.start(
    "gateway",
    () => void (isStarted = true),
    () => {},
  );
  await expect(late).rejects.toThrow("gateway was not started");
  expect(isStarted).toBe(false);
});

test("a second stop ends with the first and stops nothing twice", async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  let stops = 0;
  let hasSecondEnded = false;
  const lifecycle = new Lifecycle();
  await lifecycle.start(
    "store",
    () => 1,
    () => {
      stops += 1;
      return promise;
    },
  );
  const first = lifecycle.stop();
  const second = lifecycle.stop().then(() => (hasSecondEnded = true));
  await new Promise(setImmediate);
  expect(hasSecondEnded).toBe(false);
  resolve();
  await Promise.all([first, second]);
  expect(stops).toBe(1);
});

test("a value that is not known yet cannot be read, unless there is one to begin with", () => {
  const port = new LateValue<number>("the port");
  expect(() => port.value).toThrow("the port: read before it was known");
  port.set(0);
  expect(port.value).toBe(0);
  const node = new LateValue<string | null>("the node", null);
  expect(node.value).toBeNull();
  node.set("n-1");
  expect(node.value).toBe("n-1");
});

const IDLE_MS = 1_000;

function lent() {
  const clock = new HeldClock();
  clock.hold();
  const events: string[] = [];
  let opened = 0;
  const thread = new LazyResource({
    clock,
    idleMs: IDLE_MS,
    open: () => {
      opened += 1;
      events.push(`open ${opened}`);
      return { number: opened };
    },
    close: async ({ number }) => void events.push(`close ${number}`),
  });
  const use = (): Promise<number> => thread.use(async ({ number }) => number);
  return { clock, events, thread, use };
}

test("it opens with the first use, and closes once nobody has used it for a while", async () => {
  const { clock, events, use } = lent();
  expect(events).toEqual([]);
  expect(await use()).toBe(1);
  clock.advance(IDLE_MS - 1);
  expect(await use()).toBe(1);
  clock.advance(IDLE_MS - 1);
  expect(events).toEqual(["open 1"]);
  clock.advance(1);
  expect(events).toEqual(["open 1", "close 1"]);
  expect(await use()).toBe(2);
});

test("it stays as long as somebody uses it", async () => {
  const { clock, events, thread, use } = lent();
  const { promise, resolve } = Promise.withResolvers<void>();
  const long = thread.use(() => promise);
  await use();
  clock.advance(10 * IDLE_MS);
  expect(events).toEqual(["open 1"]);
  resolve();
  await long;
  clock.advance(IDLE_MS);
  expect(events).toEqual(["open 1", "close 1"]);
});

test("one that broke is replaced, and one that work failed in is not", async () => {
  const { thread, use } = lent();
  await expect(
    thread.use(async (broken) => {
      thread.forget(broken);
      throw new Error("broken");
    }),
  ).rejects.toThrow("broken");
  await expect(thread.use(async () => await Promise.reject(new Error("bad input")))).rejects.toThrow(
    "bad input",
  );
  expect(await use()).toBe(2);
});

test("closing waits for what is being closed for want of use", async () => {
  const clock = new HeldClock();
  clock.hold();
  const closing = Promise.withResolvers<void>();
  const thread = new LazyResource({ clock, idleMs: IDLE_MS, open: () => ({}), close: () => closing.promise });
  await thread.use(async () => {});
  clock.advance(IDLE_MS);
  let isClosed = false;
  const closed = thread.close().then(() => (isClosed = true));
  await Promise.resolve();
  expect(isClosed).toBe(false);
  closing.resolve();
  await closed;
});
