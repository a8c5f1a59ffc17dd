import { expect, test } from "vitest";
import { ThreadClient } from "../../../../src/store/sqlite/thread-client.ts";

/** A thread with a body of its own in place of a database. */
function clientOf(body: string): ThreadClient {
  const code = `import { parentPort as port } from "node:worker_threads"; ${body}`;
  return new ThreadClient(new URL(`data:text/javascript,${encodeURIComponent(code)}`), {
    mode: "write",
    path: "p",
  });
}

// Opens like a database thread; answers "echo" with its argument, and dies of "crash".
const ECHO = `
  port.on("message", (message) => {
    if (message.path) port.postMessage("ready");
    else if (message === "close") port.postMessage("closed");
    else if (message.name === "crash") throw new Error("struck by lightning");
    else if (message.name === "echo") port.postMessage([{ id: message.id, result: message.packed }]);
  });
`;

test("when the thread dies all who wait are told, and the next call starts a new thread", async () => {
  const client = clientOf(ECHO);
  await client.open();
  const settled = await Promise.allSettled([
    client.call("unanswered", 1),
    client.call("crash", 2),
    client.call("unanswered", 3),
  ]);
  for (const outcome of settled) {
    expect(outcome).toMatchObject({
      status: "rejected",
      reason: { name: "AppError", code: "in_doubt", cause: { message: "struck by lightning" } },
    });
  }
  expect(await client.call("echo", "again")).toBe("again");
  await client.close();
});

test("a thread that cannot open says why", async () => {
  const client = clientOf(`port.on("message", () => { throw new Error("no such file"); });`);
  await expect(client.open()).rejects.toThrow("no such file");
});

test("answers find their callers in any order", async () => {
  const client = clientOf(`
    const held = [];
    port.on("message", (message) => {
      if (message.path) return;
      if (message === "close") return port.postMessage("closed");
      held.unshift({ id: message.id, result: message.packed });
      if (held.length === 3) port.postMessage(held);
    });
  `);
  expect(await Promise.all(["a", "b", "c"].map((text) => client.call("x", text)))).toEqual(["a", "b", "c"]);
  await client.close();
});
