import { expect } from "vitest";
import { testDatabases } from "../../support/databases.ts";
import { remoteService } from "../../support/remote/remote-service.ts";
import { verifies } from "../../verifies.ts";

const databases = testDatabases();

verifies("seats.questions", "a seat may be asked what its program uses before the program runs", async () => {
  const toml = '[deployment]\nfork = "never"\n';
  const { on, place } = await remoteService(databases, {
    good: { main: "def run():\n    return 1\n", toml },
  });
  const state = { isOver: false };
  const call = on.call("good").finally(() => (state.isOver = true));
  while (!state.isOver) {
    for (const replica of on.apps.get("good")?.pool.replicas ?? []) void replica.usage();
    await new Promise((resolve) => setImmediate(resolve));
  }
  const { status, text } = await call;
  expect(status === 200 ? [] : [text, on.logs, place.words]).toEqual([]);
  expect(text).toContain('"result":1');
  // A first start that fails for no known reason is tried again.
  expect(place.seats).toHaveLength(1);
  expect(on.logs.filter(({ text }) => text.includes("out of turn"))).toEqual([]);
});
