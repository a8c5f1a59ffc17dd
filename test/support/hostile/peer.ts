// A process that plays any number of hostile replicas and templates, each by its seed: `service.ts` starts it.
import { connect, type Socket } from "node:net";
import { FRAME } from "../../../src/replicas/frames.ts";
import type { ConnectionKind } from "../../../src/engines/home.ts";
import { anyFrames } from "../any-frames.ts";
import { answer, askedBack, type HostileTickets, opening, pinged, type Plan, type Step } from "./cases.ts";
import { frame } from "./mutate.ts";
import type { FromPeer, ToPeer } from "./orders.ts";
import { Random } from "./random.ts";
import { templateOpening } from "./template-cases.ts";

const seed = Number(process.env["HOSTILE_SEED"] ?? 1);
let nextPlan = Number(process.env["HOSTILE_FROM"] ?? 0);
let cases = 0;

/** The next plan; only a hostile one is a case. */
function begin<P extends Plan>(make: (random: Random) => P): P {
  const plan = make(new Random(seed, nextPlan++));
  if (plan.isHostile && ++cases % 20 === 0) tell({ cases, plans: nextPlan });
  return plan;
}

function tell(message: FromPeer): void {
  process.send?.(message);
}

/** Of a fork: its template's word about its end goes out on the template's connection. */
type OnExit = () => void;

/** One that the service takes for a process. */
class HostileProcess {
  readonly #address: string;
  readonly #onExit: OnExit;
  readonly #sockets = new Map<ConnectionKind, Socket>();
  readonly #all = new Set<Socket>();
  readonly #children = new Map<string, HostileProcess>();
  #isOver = false;

  constructor(address: string, onExit: OnExit) {
    this.#address = address;
    this.#onExit = onExit;
  }

  async start(tickets: HostileTickets): Promise<void> {
    if (tickets.template !== undefined) {
      const { steps, becomesReplica, obeys, patienceMs } = begin((random) =>
        templateOpening(random, tickets),
      );
      this.#live(patienceMs);
      await this.#play(steps, (line) => obeys && this.#obey(line));
      if (!becomesReplica) return;
    }
    const { steps, patienceMs } = begin((random) => opening(random, tickets));
    this.#live(patienceMs);
    await this.#play(steps);
  }

  #live(patienceMs: number | null): void {
    if (patienceMs !== null) setTimeout(() => this.exit(), patienceMs);
  }

  exit(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    for (const child of this.#children.values()) child.exit();
    for (const socket of this.#all) socket.destroy();
    this.#onExit();
  }

  async #play(steps: readonly Step[], onLine: (line: string) => void = () => {}): Promise<void> {
    for (const step of steps) {
      if (this.#isOver) return;
      if (step.act === "exit") this.exit();
      else if (step.act === "connect") await this.#connect(step, onLine);
      else if (step.act === "send") this.#sockets.get(step.on)?.write(step.bytes);
      else if (step.act === "end") this.#sockets.get(step.on)?.end();
      else this.#sockets.get(step.on)?.destroy();
    }
  }

  async #connect(
    { kind, preface }: Extract<Step, { act: "connect" }>,
    onLine: (line: string) => void,
  ): Promise<void> {
    const socket = connect(this.#address);
    this.#all.add(socket);
    socket.on("error", () => {});
    socket.on("close", () => {
      this.#all.delete(socket);
      // As a process would that cannot go on; some stay, and have to be ended.
      if (this.#sockets.get(kind) === socket && kind === "wire" && nextPlan % 5 !== 0) this.exit();
    });
    await new Promise<void>((resolve) => {
      socket.once("connect", resolve);
      socket.once("close", () => resolve());
    });
    socket.write(preface);
    if (!this.#sockets.has(kind)) this.#sockets.set(kind, socket);
    if (kind === "wire") this.#listen(socket, (type, callId) => this.#onWire(type, callId));
    else if (kind === "control") this.#listen(socket, (type, callId) => this.#onControl(type, callId));
    else if (kind === "template") hearLines(socket, onLine);
    else socket.resume();
  }

  #listen(socket: Socket, onFrame: (type: number, callId: number) => void): void {
    const reader = anyFrames(onFrame);
    socket.on("data", (data: Buffer) => reader.push(data));
  }

  #onWire(type: number, callId: number): void {
    if (type === FRAME.CALL) void this.#play(begin((random) => answer(random, callId)).steps);
  }

  #onControl(type: number, callId: number): void {
    if (type === FRAME.STOP) this.exit();
    if (type === FRAME.PING) void this.#play(begin(pinged).steps);
    if (type !== FRAME.CANCEL && type !== FRAME.WITHDRAW) return;
    void this.#play(begin((random) => askedBack(random, callId)).steps);
    if (type === FRAME.CANCEL) this.#sockets.get("wire")?.write(frame(FRAME.CANCELLED, callId));
  }

  #obey(line: string): void {
    const { fork, kill } = JSON.parse(line) as { fork?: { id: string; ticket: string }; kill?: string };
    if (fork) {
      const child = new HostileProcess(this.#address, () => {
        this.#children.delete(fork.id);
        this.#sockets.get("template")?.write(`${JSON.stringify({ exited: { id: fork.id, code: 1 } })}\n`);
        // Another one is started, and may be worse.
        if (nextPlan % 6 === 0) this.exit();
      });
      this.#children.set(fork.id, child);
      void child.start({ replica: fork.ticket });
    }
    if (kill !== undefined) this.#children.get(kill)?.exit();
  }
}

function hearLines(socket: Socket, onLine: (line: string) => void): void {
  let rest = "";
  socket.on("data", (data) => {
    const lines = (rest + String(data)).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) onLine(line);
  });
}

const processes = new Map<number, HostileProcess>();
process.on("message", (order: ToPeer) => {
  if ("kill" in order) {
    processes.get(order.kill)?.exit();
    return;
  }
  const { id, address, tickets } = order.start;
  const started = new HostileProcess(address, () => {
    processes.delete(id);
    tell({ exited: id });
  });
  processes.set(id, started);
  void started.start(tickets);
});
// The service is gone.
process.on("disconnect", () => process.exit());
