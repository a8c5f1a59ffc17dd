import { once } from "node:events";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import type { Exit } from "../../../../src/engines/engine.ts";
import { type BuildSeat, buildSeats } from "../../../../src/engines/agent/build-seat.ts";
import type { BuildSeats } from "../../../../src/engines/build-seats.ts";
import type { SeatOrder, SeatPlace } from "../../../../src/engines/agent/seat-place.ts";
import { until } from "../../../support/until.ts";
import { verifies } from "../../../verifies.ts";
import { BUNDLE, GRACE_MS, HELLO, type PlayedAgent, playedSeat } from "./played-seat.ts";
import { agentPython } from "./agent-python.ts";
import { scratchDirectory } from "../../../support/command-line.ts";

const WAIT_MS = 60_000;
const READY = { ready: { folder: "/tmp/seat", python: "/usr/bin/python3" } };
const done = (id: number, more: object = {}): object => ({
  done: { id, code: 0, is_out_of_memory: false, problem: null, ...more },
});
const WISH: Parameters<BuildSeats["open"]>[0] = {
  buildId: "b",
  projectId: "p-1",
  bundle: BUNDLE,
  python: null,
  image: null,
  containerRuntime: null,
  memoryBytes: null,
};

/** A build whose place and agent a test plays. */
async function playedBuild(wish: Partial<typeof WISH> = {}) {
  const played = await playedSeat();
  const placed = { kills: 0, obstacle: null as string | null };
  const ended = Promise.withResolvers<Exit>();
  const image = Promise.withResolvers<string>();
  const orders: SeatOrder[] = [];
  const place: SeatPlace = {
    name: "there",
    begin: (given) => {
      orders.push(given);
      return {
        placeName: "pod-1",
        exited: ended.promise,
        image: image.promise,
        kill: () => (placed.kills += 1),
        obstacle: () => placed.obstacle,
      };
    },
  };
  const cancel = new AbortController();
  const obstacles: string[] = [];
  const seats = buildSeats({ ...played.remote, place }, WAIT_MS, played.clock, (error) => {
    throw error;
  });
  const seat = seats.open({ ...WISH, ...wish }, (why) => obstacles.push(why), cancel.signal) as BuildSeat;
  const sit = async (): Promise<PlayedAgent> => {
    const agent = await played.call(`millrace 1 seat ${orders[0]?.ticket}`);
    await agent.hears(1);
    return agent;
  };
  /** An agent that is ready to build. */
  const begin = async (): Promise<PlayedAgent> => {
    const agent = await sit();
    agent.say(HELLO, READY);
    image.resolve("sha256:1");
    await seat.ground;
    return agent;
  };
  return { played, placed, ended, obstacles, cancel, seat, orders, sit, begin };
}

/** How something is refused, however long that takes. */
async function refusalInTime(
  { played }: Awaited<ReturnType<typeof playedBuild>>,
  refused: Promise<unknown>,
): Promise<string> {
  let message: string | null = null;
  refused.then(
    () => (message = "not at all"),
    (error: Error) => (message = error.message),
  );
  await until("it is refused", () => {
    played.clock.advance(GRACE_MS);
    return message !== null;
  });
  return message ?? "";
}

const step = (program: string, lines: string[] = []) => ({
  program,
  args: ["-x"],
  env: { PATH: "/bin" },
  onLine: (line: string, stream: string) => void lines.push(`${stream} ${line}`),
});

verifies(
  ["pod-builds.build", "pod-builds.failures"],
  "steps are carried out one after the other, and tell how they ended",
  async () => {
    const { seat, begin, placed } = await playedBuild();
    const agent = await begin();
    expect(agent.heard[0].session.sit).toMatchObject({ bundle: BUNDLE, build: true, variables: {} });
    expect(await seat.ground).toEqual({
      folder: "/tmp/seat",
      python: { path: "/usr/bin/python3", version: "3.11.7" },
      tag: HELLO.hello.tag,
      image: "sha256:1",
    });
    const lines: string[] = [];
    const running = seat.run(step("pip", lines));
    await agent.hears(2);
    expect(agent.heard[1]).toEqual({
      run: { id: 1, program: "pip", args: ["-x"], env: { PATH: "/bin" }, files: {} },
    });
    agent.say({ printed: { stream: "stderr", text: "ERROR: no such package" } }, done(1, { code: 1 }));
    expect(await running).toEqual({ code: 1, detail: "exit code 1", lastWords: "ERROR: no such package" });
    expect(lines).toEqual(["stderr ERROR: no such package"]);

    const bringing = seat.bring("f".repeat(64));
    await agent.hears(3);
    expect([seat.uses("f".repeat(64)), seat.uses("e".repeat(64))]).toEqual([true, false]);
    agent.say(done(2, { problem: "it did not arrive whole" }));
    await expect(bringing).rejects.toThrow("it did not arrive whole");

    const compiling = seat.run(step("python3"));
    await agent.hears(4);
    agent.say(done(3, { code: 137, is_out_of_memory: true }));
    expect((await compiling).detail).toBe("it used more than its memory = 4 GB");
    seat.close();
    await agent.closed();
    expect([placed.kills, agent.heard.at(-1)]).toEqual([1, { end: {} }]);
  },
);

test("a folder comes on a connection of its own", async () => {
  const { played, seat, begin } = await playedBuild();
  const agent = await begin();
  const taking = seat.take("environment", async (archive) => await text(archive));
  await agent.hears(2);
  const { id, what, ticket } = agent.heard[1].give;
  expect(what).toBe("environment");
  const sender = await played.call(`millrace 1 wire ${ticket}`);
  sender.socket.end("bytes");
  await once(sender.socket, "close");
  agent.say(done(id));
  expect(await taking).toBe("bytes");

  const failing = seat.take("bundle", async (archive) => await text(archive));
  await agent.hears(3);
  agent.say(done(2, { problem: "'x' is neither a file, a folder nor a link" }));
  await expect(failing).rejects.toThrow("neither a file");
  seat.close();
});

verifies(
  "pod-builds.failures",
  "a folder that cannot be stored is not told as a lost connection",
  async () => {
    const { played, seat, begin } = await playedBuild();
    const agent = await begin();
    const full = seat.take("environment", async (archive) => {
      for await (const piece of archive) throw new Error(`no space left for ${String(piece)}`);
    });
    const refused = full.catch((error: unknown) => error);
    await agent.hears(2);
    const sender = await played.call(`millrace 1 wire ${agent.heard[1].give.ticket}`);
    sender.socket.write("bytes");
    await sender.closed();
    agent.say(done(1, { problem: "BrokenPipeError: [Errno 32] Broken pipe" }));
    expect(await refused).toEqual(new Error("no space left for bytes"));
    seat.close();
  },
);

/** What an agent says of a folder whose connection is cut, and of one that it cannot fetch. */
const CUT = `
from millrace_agent.build import Build, Home
folder = sys.argv[1]
class Cut:
    def __enter__(self): return self
    def __exit__(self, *how): pass
    def sendall(self, data): raise ConnectionResetError(104, "Connection reset by peer")
class Relays:
    address = None
home = Home(None, Relays(), ("", ""), lambda: None, lambda *said: None, lambda *told: None)
home.connect = lambda ticket: Cut()
build = Build(None, folder, home)
os.mkdir(os.path.join(folder, "bundle"))
said = []
for work in (lambda: build._give("bundle", None, ""), lambda: home.bring("", folder)):
    try:
        work()
    except Exception as error:
        said.append(str(error))
print(json.dumps(said))
`;

const CUT_STEP = `
from millrace_agent.build import Home, _StepLines

class Loop:
    def __init__(self): self.watched = {}
    def watch(self, descriptor, _events, act): self.watched[descriptor] = act
    def forget(self, descriptor): self.watched.pop(descriptor, None)
    def turn(self):
        for act in [*self.watched.values()]: act(1)

class Line:
    is_drained = True

loop, line, said = Loop(), Line(), []
home = Home(None, None, ("", ""), lambda: line, lambda _word, value: line and said.append(value["text"]), None)
source, target = os.pipe()
lines = _StepLines(loop, source, home, "stdout", lambda: None)
os.write(target, b"one\\n")
loop.turn()
line = None
os.write(target, b"two\\nthree")
os.close(target)
for _ in range(3): lines.resume(); loop.turn()
while_gone = [*said, lines.is_over]
line = Line()
for _ in range(3): lines.resume(); loop.turn()
print(json.dumps([while_gone, [*said, lines.is_over]]))`;

verifies(
  "pod-builds.back",
  "what a step prints while there is no connection is sent when there is one again",
  () => {
    expect(agentPython(CUT_STEP)).toEqual([
      ["one", false],
      ["one", "two", "three", true],
    ]);
  },
);

verifies("pod-builds.failures", "a build tells which folder was on its way when a connection was cut", () => {
  expect(agentPython(CUT, scratchDirectory())).toEqual([
    "the bundle could not be sent to the service: ConnectionResetError: [Errno 104] Connection reset by peer; deploy again",
    "the environment could not be fetched from the service: there is no service; deploy again",
  ]);
});

verifies(
  ["pod-builds.cancel", "pod-builds.order"],
  "an agent that says it has sent a folder, and has not, keeps nobody waiting",
  async () => {
    const { played, seat, begin } = await playedBuild();
    const agent = await begin();
    const never = seat.take("bundle", async (archive) => await text(archive));
    await agent.hears(2);
    agent.say(done(1));
    await expect(never).rejects.toThrow("the bundle did not come");

    const begun = Promise.withResolvers<void>();
    const endless = seat.take("bundle", async (archive) => {
      begun.resolve();
      return await text(archive);
    });
    await agent.hears(3);
    const sender = await played.call(`millrace 1 wire ${agent.heard[2].give.ticket}`);
    await begun.promise;
    agent.say(done(2), { failed: { message: "it is over" } });
    await expect(endless).rejects.toThrow("the bundle did not arrive whole");
    await sender.closed();
  },
);

verifies(
  "pod-builds.back",
  "an agent that was lost comes back, and is told again what it has to do",
  async () => {
    const { played, seat, begin } = await playedBuild();
    const agent = await begin();
    const { secret } = agent.heard[0].session;
    const running = seat.run(step("pip"));
    await agent.hears(2);
    agent.socket.destroy();
    await agent.closed();
    const back = await played.call(`millrace 1 back ${seat.id} ${secret} 1`);
    await back.hears(2);
    expect(back.heard[1]).toEqual(agent.heard[1]);
    back.say(HELLO, READY, done(1));
    expect((await running).code).toBe(0);
    // What is told again counts no more.
    const next = seat.run(step("python3"));
    await back.hears(3);
    back.say(done(1, { code: 9 }), done(2));
    expect((await next).code).toBe(0);
    seat.close();
  },
);

verifies("pod-builds.lost", "what keeps it from starting is told, and at last fails the build", async () => {
  const { played, placed, obstacles, seat } = await playedBuild();
  placed.obstacle = "its image cannot be pulled: not found";
  played.clock.advance(1_000);
  played.clock.advance(1_000);
  expect(obstacles).toEqual([placed.obstacle]);
  played.clock.advance(WAIT_MS);
  await expect(seat.ground).rejects.toThrow(
    "the build's seat pod-1 did not start within 60 s: its image cannot be pulled: not found",
  );
  expect(placed.kills).toBe(1);
});

verifies(
  ["pod-builds.lost", "kubernetes.last-words"],
  "a pod that ends before its agent has called fails the build with what it said last",
  async () => {
    const { ended, seat } = await playedBuild();
    ended.resolve({ detail: "exit code 1: No module named 'json'", initFailure: null });
    await expect(seat.ground).rejects.toThrow(
      "the build's seat pod-1 ended before it reached the service: exit code 1: No module named 'json'; deploy again, or find out more with millrace doctor",
    );
  },
);

verifies("pod-builds.lost", "a pod that ends, or is not heard of, fails the build in words", async () => {
  const killed = await playedBuild();
  await killed.begin();
  const running = killed.seat.run(step("pip"));
  killed.ended.resolve({ detail: "evicted by the cluster: memory", initFailure: null });
  await expect(running).rejects.toThrow(
    "the build's seat pod-1 ended: evicted by the cluster: memory; deploy again",
  );
  await expect(killed.seat.run(step("pip"))).rejects.toThrow("evicted");

  const silent = await playedBuild();
  const agent = await silent.begin();
  const waiting = silent.seat.run(step("pip"));
  agent.socket.destroy();
  await agent.closed();
  expect(await refusalInTime(silent, waiting)).toBe(
    "the build's seat pod-1 was lost: no word from it for 30 s; deploy again",
  );

  const asked = await playedBuild();
  const leaving = await asked.begin();
  const ending = asked.seat.run(step("pip"));
  await leaving.hears(2);
  leaving.say({ exited: { code: 143, is_out_of_memory: false } });
  asked.ended.resolve({ detail: "evicted by the cluster: disk", initFailure: null });
  await expect(ending).rejects.toThrow("ended: evicted by the cluster: disk; deploy again");

  const untold = await playedBuild();
  const left = await untold.begin();
  const untoldEnd = untold.seat.run(step("pip"));
  await left.hears(2);
  left.say({ exited: { code: 143, is_out_of_memory: false } });
  left.socket.end();
  // The service has read all of it, then.
  await left.closed();
  // An agent that reconnects is still about to end.
  const { secret } = left.heard[0].session;
  const back = await untold.played.call(`millrace 1 back ${untold.seat.id} ${secret} 1`);
  await back.hears(1);
  expect(await refusalInTime(untold, untoldEnd)).toContain("was asked to end");
});

verifies("pod-builds.cancel", "a cancelled build ends its seat, also before that is there", async () => {
  const early = await playedBuild();
  early.cancel.abort(new Error("cancelled by Ada"));
  await expect(early.seat.ground).rejects.toThrow("cancelled by Ada");
  expect(early.placed.kills).toBe(1);

  const late = await playedBuild();
  const agent = await late.begin();
  const running = late.seat.run(step("pip"));
  await agent.hears(2);
  late.cancel.abort(new Error("cancelled by Ada"));
  await expect(running).rejects.toThrow("cancelled by Ada");
  await agent.closed();
  expect([late.placed.kills, agent.heard.at(-1)]).toEqual([1, { end: {} }]);
});

verifies(
  "pod-builds.order",
  "what an agent says out of turn, or of another kind, fails the build",
  async () => {
    const cases: [readonly object[], string][] = [
      [[READY], '"ready" out of turn'],
      [[HELLO, done(1)], '"done" out of turn'],
      [[HELLO, { fetched: { ms: 1 } }], '"fetched" out of turn'],
      [[HELLO, READY, READY], '"ready" out of turn'],
      [[HELLO, READY, { leaving: {} }], '"leaving" out of turn'],
      [[HELLO, { ready: { folder: "work", python: "/usr/bin/python3" } }], "a message that no agent sends"],
      [[HELLO, READY, done(0)], "a message that no agent sends"],
      [[HELLO, READY, done(1, { code: 256 })], "a message that no agent sends"],
    ];
    for (const [messages, fault] of cases) {
      const { seat, sit, placed } = await playedBuild();
      (await sit()).say(...messages);
      await until("it is over", () => placed.kills === 1);
      await expect(seat.run(step("pip"))).rejects.toThrow(`broke the protocol: ${fault}`);
    }
  },
);

verifies("pod-builds.order", "more printed lines than an agent passes on fail the build", async () => {
  const { seat, begin, placed } = await playedBuild();
  const agent = await begin();
  const lines: string[] = [];
  const running = seat.run(step("pip", lines));
  await agent.hears(2);
  const printed = { printed: { stream: "stdout", text: "x".repeat(60_000) } };
  // Each order begins anew.
  for (let count = 0; count < 200; count += 1) agent.say(printed);
  agent.say(done(1));
  await running;
  expect(lines).toHaveLength(200);
  const endless = seat.run(step("pip", lines));
  await agent.hears(3);
  for (let count = 0; count < 220; count += 1) agent.say(printed);
  await expect(endless).rejects.toThrow("broke the protocol: more printed lines than an agent passes on");
  expect([lines.length, placed.kills]).toEqual([200 + 209, 1]);
});

verifies("pod-builds.back", "its agent looks for nobody but the service that builds", async () => {
  const { played, seat, sit, orders } = await playedBuild();
  played.others.push("127.0.0.1:1");
  const agent = await sit();
  const own = [`127.0.0.1:${played.listener.port}`];
  expect([orders[0]?.addresses, agent.heard[0].session.addresses]).toEqual([own, own]);
  seat.close();
});

test("another Python than the app asks for, or none that can be told", async () => {
  const other = await playedBuild({ python: { version: "3.12", isStrict: false } });
  (await other.sit()).say(HELLO);
  await expect(other.seat.ground).rejects.toThrow("has Python 3.11.7 on there, and the app asks for 3.12");
  const none = await playedBuild();
  (await none.sit()).say({ hello: { python: "3.11.7", tag: "something" } });
  await expect(none.seat.ground).rejects.toThrow("cannot be told");
});
