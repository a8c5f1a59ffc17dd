import { Agent, type ClientRequest, request } from "node:http";
import type { Roll } from "./dice.ts";
import { type TestService, testService } from "./service.ts";

/** Callers that call one after the other. */
const CALLERS = 96;
/** What a call may do besides returning: one call in so many. */
const ONE_IN = { item: 20, raise: 60, leave: 50, cancel: 100, die: 4_000, hang: 8_000 } as const;
/** Once in so many calls, the test kills a replica, or deploys the app again. */
const KILL_EVERY = 2_500;
const DEPLOY_EVERY = 6_000;
const APP = "storm";

const main = `
import os, time

def _act(n, mode):
    if "die" in mode:
        os._exit(7)
    if "hang" in mode:
        time.sleep(1_000)
    bad = [each for each, how in zip(n, mode) if how == "raise"]
    if bad:
        raise LookupError("raised " + " ".join(map(str, bad)))
    time.sleep(0.0002 * len(n))

def listed(n: list[int], mode: list[str]) -> list[int]:
    _act(n, mode)
    return [KeyError(str(each)) if how == "item" else 3 * each + 1 for each, how in zip(n, mode)]

async def awaited(n: list[int], mode: list[str], run_id: list[str]) -> list[dict]:
    _act(n, mode)
    return [KeyError(str(each)) if how == "item" else {"n": 3 * each + 1, "id": id} for each, how, id in zip(n, mode, run_id)]

def yielded(n: list[int], mode: list[str]):
    _act(n, mode)
    for step in range(4):
        yield [KeyError(str(each)) if how == "item" and step == each % 4 else [each, step] for each, how in zip(n, mode)]
`;

const toml = `
[scaling]
min_replicas = 1
max_replicas = 3
response_grace_period = 3
max_queue = 1000

[batching.listed]
max_size = 32

[batching.awaited]
max_size = 16
key = "mode"

[batching.yielded]
max_size = 8
on_error = "split"
`;

type FunctionName = "listed" | "awaited" | "yielded";
type Mode = keyof typeof ONE_IN | "return";
type Answer = { readonly status: number; readonly text: string; readonly id: string };

/** Calls of batched functions by many callers, while calls raise, leave, die and hang, replicas are killed and the app is deployed. */
export class BatchStorm {
  readonly done: Record<string, number> = {};
  /** What went wrong: another's answer, none, or an error that nothing explains. */
  readonly faults: string[] = [];
  readonly #service: TestService;
  readonly #roll: Roll;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: CALLERS });
  readonly #calls: number;
  #begun = 0;

  private constructor(service: TestService, calls: number, roll: Roll) {
    this.#service = service;
    this.#calls = calls;
    this.#roll = roll;
  }

  static async open(calls: number, roll: Roll): Promise<BatchStorm> {
    return new BatchStorm(await testService({ [APP]: { main, toml } }), calls, roll);
  }

  async run(): Promise<void> {
    await Promise.all(Array.from({ length: CALLERS }, () => this.#callAgainAndAgain()));
    this.#agent.destroy();
  }

  async #callAgainAndAgain(): Promise<void> {
    while (this.#begun < this.#calls && this.faults.length === 0) {
      const n = this.#begun++;
      if (n % KILL_EVERY === KILL_EVERY - 1) this.#kill();
      if (n % DEPLOY_EVERY === DEPLOY_EVERY - 1) {
        await this.#service.deploy(APP, { main, toml });
        this.#count("deploys");
      }
      await this.#callOnce(n);
    }
  }

  #kill(): void {
    const replicas = [...(this.#service.apps.get(APP)?.pool.replicas ?? [])].filter(({ pid }) => pid > 0);
    const victim = replicas[Math.floor(this.#roll(replicas.length))];
    if (!victim) return;
    victim.kill();
    this.#count("kills");
  }

  async #callOnce(n: number): Promise<void> {
    const functionName = (["listed", "awaited", "yielded"] as const)[n % 3] ?? "listed";
    const mode = this.#chooseMode();
    this.#count(mode);
    if (mode === "leave") return await this.#leave(functionName, n);
    const isAsync = mode === "cancel" || (functionName !== "yielded" && this.#roll(10) < 1);
    const answer = isAsync
      ? await this.#callLater(functionName, n, mode)
      : await this.#post(functionName, n, mode);
    if (mode === "cancel" && answer.text.includes('"cancelled"')) return this.#count("cancelled");
    this.#judge(functionName, n, mode, answer);
  }

  #chooseMode(): Mode {
    for (const [mode, oneIn] of Object.entries(ONE_IN)) if (this.#roll(oneIn) < 1) return mode as Mode;
    return "return";
  }

  /** An answer has to be the call's own. A crash or a timeout has to have a cause. */
  #judge(functionName: FunctionName, n: number, mode: Mode, { status, text, id }: Answer): void {
    if (mode === "die" || mode === "hang") {
      const code = mode === "die" ? "app_crashed" : "timed_out";
      // A version that is replaced may end the wait first; a process that another call ended counts as its own crash.
      if (!text.includes(code) && !text.includes("app_crashed")) this.#fault(n, mode, status, text);
      return;
    }
    if (text.includes('"app_crashed"')) return this.#count("crashed");
    if (text.includes('"timed_out"')) return this.#count("timedOut");
    if (mode === "raise" || mode === "item") {
      const own = mode === "raise" ? `LookupError: raised ${n}"` : `KeyError: '${n}'"`;
      if (!text.includes(own)) this.#fault(n, mode, status, text);
      return;
    }
    const expected = expectedResult(functionName, n, id);
    if (!text.includes(expected)) this.#fault(n, mode, status, text);
    else this.#count("answered");
  }

  #fault(n: number, mode: Mode, status: number, text: string): void {
    this.faults.push(`call ${n} (${mode}): ${status} ${text.slice(0, 500)}`);
  }

  #count(what: string): void {
    this.done[what] = (this.done[what] ?? 0) + 1;
  }

  async #leave(functionName: FunctionName, n: number): Promise<void> {
    const { sent, answered } = this.#send(this.#service.url(APP, functionName), n, "return");
    const gone = answered.catch(() => null);
    await this.#pause();
    sent.destroy();
    await gone;
  }

  /** While others are called and answered. */
  async #pause(): Promise<void> {
    for (let turns = this.#roll(100); turns > 0; turns--)
      await new Promise((resolve) => setImmediate(resolve));
  }

  async #callLater(functionName: FunctionName, n: number, mode: Mode): Promise<Answer> {
    const accepted = await this.#send(`${this.#service.url(APP, functionName)}?async=true`, n, mode).answered;
    const { run_id: id } = JSON.parse(accepted.text) as { run_id: string };
    const run = this.#service.url(APP, `runs/${id}`);
    if (mode === "cancel") {
      await this.#pause();
      await this.#send(`${run}/cancel`, n, mode).answered;
    }
    for (;;) {
      const { status, text } = await this.#send(`${run}/result`, n, mode, "GET").answered;
      if (status !== 202) return { status, text, id };
    }
  }

  async #post(functionName: FunctionName, n: number, mode: Mode): Promise<Answer> {
    return await this.#send(this.#service.url(APP, functionName), n, mode).answered;
  }

  #send(
    url: string,
    n: number,
    mode: Mode,
    method = "POST",
  ): { sent: ClientRequest; answered: Promise<Answer> } {
    const { promise: answered, resolve, reject } = Promise.withResolvers<Answer>();
    const headers = {
      authorization: `Bearer ${this.#service.service.owner.token}`,
      "content-type": "application/json",
      ...(method === "GET" && { prefer: "wait=60" }),
    };
    const sent = request(url, { method, headers, agent: this.#agent }, (response) => {
      const parts: Buffer[] = [];
      response.on("data", (part: Buffer) => parts.push(part));
      // A stream that ends with an error is broken off.
      response.on("error", () => {});
      response.once("close", () =>
        resolve({
          status: response.statusCode ?? 0,
          text: Buffer.concat(parts).toString(),
          id: String(response.headers["x-request-id"] ?? ""),
        }),
      );
    });
    sent.once("error", reject);
    sent.end(method === "GET" ? undefined : JSON.stringify({ n, mode: mode === "cancel" ? "return" : mode }));
    return { sent, answered };
  }
}

function expectedResult(functionName: FunctionName, n: number, id: string): string {
  if (functionName === "listed") return `"result":${3 * n + 1},`;
  if (functionName === "awaited") return `"result":{"n":${3 * n + 1},"id":"${id}"}`;
  return [0, 1, 2, 3].map((step) => `data: [${n},${step}]\n\n`).join("");
}
