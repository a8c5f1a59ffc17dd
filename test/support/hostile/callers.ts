import { Agent, request } from "node:http";
import { setTimeout as pause } from "node:timers/promises";
import { Random } from "./random.ts";
import type { ServiceWord } from "./words.ts";

type Address = Extract<ServiceWord, { up: unknown }>["up"];
type Answered = { readonly status: number | "none" | "left"; readonly text: string };

const REFUSED_MS = 20;
const QUERIES = ["", "", "", "", "", "", "", "", "", "?async=true"];
const HEADERS: readonly Record<string, string>[] = [
  {},
  {},
  { accept: "text/event-stream" },
  { prefer: "wait=1" },
  { "x-disconnect": "cancel" },
  { "accept-encoding": "gzip" },
];

/** Callers of hostile apps, and one of their good neighbour. */
export class Callers {
  readonly #address: Address;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 200 });
  readonly #random: Random;
  /** How often callers of hostile apps got each status; "none" where there was no answer. */
  readonly answers = new Map<number | "none", number>();
  /** What the neighbour answered wrongly. */
  readonly wrong: string[] = [];
  neighbourCalls = 0;

  constructor(address: Address, seed: number) {
    this.#address = address;
    this.#random = new Random(seed, -1);
  }

  /** Calls a hostile app in one of many ways; some callers leave before their answer. */
  async attack(app: string): Promise<void> {
    const random = this.#random;
    const leaveAfterMs = random.chance(0.05) ? random.below(30) : null;
    const { status } = await this.#call(
      `${app}/run${random.pick(QUERIES)}`,
      "{}",
      random.pick(HEADERS),
      leaveAfterMs,
    );
    // As an app that cannot start asks for it.
    if (status === 503) await pause(REFUSED_MS);
    if (status !== "left") this.answers.set(status, (this.answers.get(status) ?? 0) + 1);
  }

  /** Calls the good neighbour, whose answer has to be right. */
  async neighbour(): Promise<void> {
    const n = ++this.neighbourCalls;
    const { status, text } = await this.#call("good/run", JSON.stringify({ n }), {}, null);
    if (status !== 200 || !text.includes(`"result":${n + 1},`)) this.wrong.push(`${n}: ${status} ${text}`);
  }

  close(): void {
    this.#agent.destroy();
  }

  async #call(
    place: string,
    body: string,
    headers: Record<string, string>,
    leaveAfterMs: number | null,
  ): Promise<Answered> {
    const { apiUrl, projectId, token } = this.#address;
    return await new Promise<Answered>((resolve) => {
      const call = request(
        `${apiUrl}/v4/${projectId}/${place}`,
        {
          method: "POST",
          agent: this.#agent,
          headers: { authorization: `Bearer ${token}`, "content-type": "application/json", ...headers },
        },
        (response) => {
          const { statusCode: status = 0 } = response;
          let text = "";
          response.on("data", (data) => (text += String(data).slice(0, 1_000)));
          // A stream may be broken off, which is an answer too.
          response.on("error", () => {});
          response.on("close", () => resolve({ status, text }));
        },
      );
      let hasLeft = false;
      call.on("error", (error) => resolve({ status: hasLeft ? "left" : "none", text: String(error) }));
      const leave = (): void => {
        hasLeft = true;
        call.destroy();
      };
      if (leaveAfterMs !== null) setTimeout(leave, leaveAfterMs);
      call.end(body);
    });
  }
}
