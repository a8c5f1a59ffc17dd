import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, onTestFinished } from "vitest";
import { Condition } from "../../../src/kit/concurrency.ts";
import { HandClock } from "../../support/clocks.ts";
import { WAIT_FOR, WAIT_FOR_ASYNC, letGo } from "../../support/run-apps.ts";
import { sharedService } from "../../support/shared-service.ts";
import { openStream } from "../../support/stream-reader.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

/** Each step ends when the test has left a file for it. */
const MAIN = `${WAIT_FOR}
def steps(count, run_id):
    for number in range(count):
        yield number
        wait_for("%s-%d" % (run_id, number))

def busy(count, run_id):
    """Computes between its yields: the interpreter is never idle."""
    for number in range(count):
        yield number
        while not os.path.exists(gate_file("%s-%d" % (run_id, number))):
            sum(range(100_000))

def idle():
    yield "before"
    wait_for("idle-1")
    yield "after"
    wait_for("idle-2")

def plain():
    return "at once"
`;

/** The seed's own example; its seconds pass when the test says so, for all its runs at a time. */
const EXAMPLE = `
import seconds as time

def run(upper_range: int):
    for number in range(upper_range):
        yield "Number %d " % number
        time.sleep(1)
`;

const SECONDS = `${WAIT_FOR}
passed = 0

def sleep(seconds):
    global passed
    for _ in range(seconds):
        wait_for("second-%d" % passed)
        passed += 1
`;

const ASYNC = `${WAIT_FOR_ASYNC}
async def steps(count, run_id):
    for number in range(count):
        yield number
        await wait_for("%s-%d" % (run_id, number))
`;

const GZIP = { "accept-encoding": "gzip" };
const one = "[scaling]\nmax_replicas = 1\nreplica_concurrency = 4\n";
const clock = new HandClock();
const service = sharedService(
  {
    app: { main: MAIN, toml: "[scaling]\nmax_replicas = 3\n" },
    example: {
      main: EXAMPLE,
      toml: "[scaling]\nmax_replicas = 3\n",
      files: { "seconds.py": SECONDS },
    },
    threads: { main: MAIN, toml: one },
    looped: { main: ASYNC, toml: one },
  },
  {},
  { clock },
);

for (const [title, app, functionName] of [
  ["a generator", "app", "steps"],
  ["a generator that computes between its yields", "app", "busy"],
  ["a generator in a thread", "threads", "steps"],
  ["an async generator", "looped", "steps"],
] as const) {
  verifies(
    ["stream.progressive", "stream.gzip"],
    `a message of ${title} arrives before anything else is yielded, plain and gzip`,
    async () => {
      for (const headers of [{}, GZIP]) {
        const reader = openStream(service(), app, { count: 20 }, { functionName, headers });
        for (let number = 0; number < 20; number++) {
          await reader.hasMessages(number + 1);
          letGo(service(), app, `${reader.runId}-${number}`);
        }
        expect((await reader.ended()).data).toEqual(Array.from({ length: 20 }, (_, number) => `${number}`));
        reader.leave();
      }
    },
  );
}

verifies(
  ["stream.example", "stream.progressive"],
  "one text per second for upper_range iterations is that many messages, one per second",
  async () => {
    const wanted = ["Number 0 ", "Number 1 ", "Number 2 "];
    const curl = new Curl(service().url("example"), '{"upper_range": 3}');
    const readers = [{}, GZIP].map((headers) =>
      openStream(service(), "example", { upper_range: 3 }, { headers }),
    );
    for (let second = 0; second < 3; second++) {
      const soFar = wanted.slice(0, second + 1);
      await curl.printed(soFar.map((data) => `data: ${data}\n\n`).join(""));
      for (const reader of readers) {
        await reader.hasMessages(soFar.length);
        expect([reader.data, reader.isWhole]).toEqual([soFar, false]);
      }
      letGo(service(), "example", `second-${second}`);
    }
    for (const reader of readers) {
      expect((await reader.ended()).data).toEqual(wanted);
      expect(reader.isWhole).toBe(true);
      reader.leave();
    }
    expect(await curl.exited).toEqual([0, null]);
    expect(curl.text).toBe(wanted.map((data) => `data: ${data}\n\n`).join(""));
  },
);

/** `curl -N`, and what it has printed so far. */
class Curl {
  text = "";
  readonly exited: Promise<unknown[]>;
  readonly #news = new Condition();

  constructor(url: string, body: string) {
    const token = `Authorization: Bearer ${service().service.owner.token}`;
    const type = "Content-Type: application/json";
    const child = spawn("curl", ["-sS", "-N", "-X", "POST", url, "-H", token, "-H", type, "-d", body]);
    this.exited = once(child, "close");
    child.stdout.on("data", (data) => {
      this.text += String(data);
      this.#news.notify();
    });
    onTestFinished(() => void child.kill());
  }

  /** Waits until it has printed that, and nothing else. */
  async printed(text: string): Promise<void> {
    await until(`curl prints ${text}`, () => this.text === text, this.#news);
  }
}

verifies("stream.heartbeat", "a stream idle for more than 15 s gets a comment line", async () => {
  const readers = [{}, GZIP].map((headers) =>
    openStream(service(), "app", {}, { functionName: "idle", headers }),
  );
  /** Lets time pass; a comment that was sent then has come when another call is answered. */
  const pass = async (ms: number): Promise<number[]> => {
    clock.advance(ms);
    await service().call("app", {}, { functionName: "plain" });
    return readers.map(({ comments }) => comments.length);
  };
  for (const reader of readers) await reader.hasMessages(1);
  expect(await pass(14_999)).toEqual([0, 0]);
  letGo(service(), "app", "idle-1");
  for (const reader of readers) await reader.hasMessages(2);
  // A message is a sign of life: the count begins again.
  expect(await pass(14_999)).toEqual([0, 0]);
  for (const beats of [1, 2]) {
    clock.advance(beats === 1 ? 1 : 15_000);
    for (const reader of readers) await reader.hasComments(beats);
    expect(await pass(0)).toEqual([beats, beats]);
  }
  letGo(service(), "app", "idle-2");
  for (const reader of readers) {
    expect((await reader.ended()).text).toMatch(/^data: before\n\ndata: after\n\n(: ?\n\n){2}$/);
    reader.leave();
  }
});
