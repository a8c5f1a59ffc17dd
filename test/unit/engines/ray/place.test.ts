import { createHash } from "node:crypto";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { expect, onTestFinished } from "vitest";
import { createLog } from "../../../../src/kit/log.ts";
import { Condition } from "../../../../src/kit/concurrency.ts";
import { RayPlace } from "../../../../src/engines/ray/place.ts";
import type { Workload } from "../../../../src/engines/engine.ts";
import { HandClock } from "../../../support/clocks.ts";
import { PlayedRay } from "../../../support/ray/played-ray.ts";
import { testSettings } from "../../../support/test-settings.ts";
import { until } from "../../../support/until.ts";
import { verifies } from "../../../verifies.ts";

const TOKEN = "0123456789abcdef0123456789abcdef";
const PROOF = `millrace supervisor ${createHash("sha256").update(TOKEN).digest("hex")}\n`;
const SEAT = "s-abcdefghijkl";
const ORDER = { seatId: SEAT, addresses: [], authority: "", ticket: "t", graceMs: 1 };
const WORKLOAD = {
  limits: { memoryBytes: null, cpus: 1, cpuShare: 1 },
  gpus: null,
} as unknown as Workload;

/** A supervisor's connection, as a test plays it. */
class PlayedSupervisor {
  readonly heard: unknown[] = [];
  readonly socket: Socket;
  readonly condition = new Condition();

  constructor(socket: Socket) {
    this.socket = socket;
    socket.setEncoding("utf8").on("error", () => {});
    socket.on("data", (text: string) => {
      this.heard.push(
        ...text
          .trim()
          .split("\n")
          .map((line) => JSON.parse(line) as unknown),
      );
      this.condition.notify();
    });
  }

  say(message: unknown): void {
    this.socket.write(`${JSON.stringify(message)}\n`);
  }

  async hears(count: number): Promise<unknown[]> {
    await until(`${count} messages came`, () => this.heard.length >= count, this.condition);
    return this.heard;
  }
}

async function open() {
  const ray = await PlayedRay.listen();
  const clock = new HandClock();
  const settings = testSettings({ engine: "ray", rayAddress: ray.address });
  const place = await RayPlace.open({ settings, clock, log: createLog("silent") });
  place.openAt({ address: "127.0.0.1:4300", authority: "", graceMs: 30_000 });
  await until("a supervisor is submitted", () => ray.jobs.size === 1, ray.condition);
  ray.job.log = PROOF;
  const server = createServer((socket) => place.usher(`millrace 1 ray ${ray.job.id} ${TOKEN}`, socket));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(async () => {
    ray.job.status = "SUCCEEDED";
    await clock.passDuring(place.close());
    server.close();
    await once(server, "close");
  });
  const come = async (): Promise<PlayedSupervisor> => {
    const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
    await once(socket, "connect");
    onTestFinished(() => void socket.destroy());
    const supervisor = new PlayedSupervisor(socket);
    await supervisor.hears(1);
    supervisor.say({ hello: { ray: "2.60.0", python: "3.11.7" } });
    return supervisor;
  };
  const phases: string[] = [];
  const begin = (more: Partial<Workload> = {}) =>
    place.begin(
      ORDER,
      { ...WORKLOAD, ...more },
      {
        onPhase: (phase) => phases.push(phase),
        onError: (error) => {
          throw error;
        },
      },
    );
  return { place, ray, come, begin, phases };
}

verifies("ray.gpus", "the supervisor is told of the models that an app asks for", async () => {
  const { come, begin } = await open();
  begin({ gpus: { models: ["H100", "ADA_L4"], count: 2, memoryBytes: null } });
  const order = { seat: SEAT, order: ORDER, needs: { CPU: 1, GPU: 2 }, accelerators: ["H100", "L4"] };
  expect(await (await come()).hears(2)).toEqual([{ keep: { seats: [SEAT] } }, { begin: order }]);
});

verifies("ray.supervisor", "another supervisor is told what there should be", async () => {
  const { come, begin, phases } = await open();
  const seat = begin();
  expect(seat.obstacle()).toContain("has not started the supervisor");
  const first = await come();
  const asked = { begin: { seat: SEAT, order: ORDER, needs: { CPU: 1 } } };
  expect(await first.hears(2)).toEqual([{ keep: { seats: [SEAT] } }, asked]);
  first.say({ waiting: { seat: SEAT, why: "no room" } });
  await until("that is known", () => seat.obstacle() === "no room");

  const second = await come();
  expect(await second.hears(2)).toEqual([{ keep: { seats: [SEAT] } }, asked]);
  second.say({ begun: { seat: SEAT } });
  await until("it has begun", () => phases.length === 1);
  expect([phases, seat.obstacle()]).toEqual([["scheduled"], null]);

  const third = await come();
  expect(await third.hears(2)).toEqual([
    { keep: { seats: [SEAT] } },
    { find: { seat: SEAT, namespace: expect.any(String) } },
  ]);
  third.say({ ended: { seat: SEAT, code: null, why: "its Ray node died", is_out_of_memory: false } });
  expect(await seat.exited).toEqual({ detail: "its Ray node died", initFailure: null });
  // So that it need not be remembered there.
  expect((await third.hears(3)).at(-1)).toEqual({ end: { seat: SEAT } });
  expect((await (await come()).hears(1))[0]).toEqual({ keep: { seats: [] } });
});

verifies("ray.supervisor", "a seat that nobody wants any more is not waited for", async () => {
  const { come, begin } = await open();
  const unheard = begin();
  unheard.kill();
  expect((await unheard.exited).detail).toBe("ended");

  const seat = begin();
  const first = await come();
  await first.hears(2);
  seat.kill();
  expect((await first.hears(3)).at(-1)).toEqual({ end: { seat: SEAT } });
  // It dies before it has told of the end.
  const second = await come();
  expect(await second.hears(1)).toEqual([{ keep: { seats: [] } }]);
  expect((await seat.exited).detail).toBe("ended");
});

verifies("ray.adopted", "the actor of another service is looked for where it has its name", async () => {
  const { come, place } = await open();
  const events = { onPhase: () => {}, onError: () => {} };
  const seat = place.adopt({ seatId: SEAT, placeName: `millrace-before/${SEAT}` }, WORKLOAD, events);
  expect(seat.placeName).toBe(`millrace-before/${SEAT}`);
  const first = await come();
  const find = { find: { seat: SEAT, namespace: "millrace-before" } };
  expect(await first.hears(2)).toEqual([{ keep: { seats: [SEAT] } }, find]);
  first.say({ begun: { seat: SEAT } });
  // Nobody ends what is another's.
  seat.letGo?.();
  expect((await first.hears(3)).at(-1)).toEqual({ forget: { seat: SEAT } });
  expect((await seat.exited).detail).toBe("left to another service");
  expect((await (await come()).hears(1))[0]).toEqual({ keep: { seats: [] } });
});

verifies("ray.adopted", "what another service has taken over is kept by every supervisor", async () => {
  const { come, begin } = await open();
  const seat = begin();
  const first = await come();
  await first.hears(2);
  seat.letGo?.();
  expect((await first.hears(3)).at(-1)).toEqual({ forget: { seat: SEAT } });
  const second = await come();
  expect(await second.hears(1)).toEqual([{ keep: { seats: [SEAT] } }]);
  // Until it has ended.
  second.say({ ended: { seat: SEAT, code: 0, why: null, is_out_of_memory: false } });
  await second.hears(2);
  expect((await (await come()).hears(1))[0]).toEqual({ keep: { seats: [] } });
});

verifies("ray.messages", "one that says what none says is not listened to", async () => {
  const { come, begin, place } = await open();
  const seat = begin();
  const supervisor = await come();
  supervisor.say({ begun: { seat: SEAT, more: 1 } });
  await once(supervisor.socket, "close");
  await until("that is known", () => seat.obstacle()?.includes("was lost") ?? false);
  expect(place.usher("millrace 1 ray somebody", supervisor.socket)).toBe(false);
});

verifies("ray.old", "a cluster that is too old, or refuses the token, is not begun with", async () => {
  const ray = await PlayedRay.listen();
  const parts = { clock: new HandClock(), log: createLog("silent") };
  const settings = testSettings({ engine: "ray", rayAddress: ray.address });
  ray.version = "2.30.0";
  await expect(RayPlace.open({ ...parts, settings })).rejects.toThrow("2.40 or newer is needed");
  ray.answer = (response) => void response.writeHead(401).end();
  await expect(RayPlace.open({ ...parts, settings })).rejects.toThrow("Ray refused the token");
  // One that does not answer may do so later.
  ray.answer = (response) => void response.destroy();
  await RayPlace.open({ ...parts, settings });
});
