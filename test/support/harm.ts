import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished } from "vitest";
import { Condition } from "../../src/kit/concurrency.ts";
import { explains } from "./explain.ts";
import { until } from "./until.ts";

/** A process that does harm until it is told to end, and then tells of it. */
export class Harm<Told> {
  readonly #child;
  readonly #news = new Condition();
  readonly #closed: Promise<unknown>;
  #text = "";

  constructor(program: "crowd" | "greedy-project" | "reader-crowd", order: object) {
    const script = fileURLToPath(new URL(`./${program}.ts`, import.meta.url));
    const args = ["--disable-warning=ExperimentalWarning", script, JSON.stringify(order)];
    this.#child = spawn(process.execPath, args, { stdio: ["pipe", "pipe", "inherit"] });
    this.#child.stdout.on("data", (data) => {
      this.#text += String(data);
      this.#news.notify();
    });
    this.#closed = once(this.#child, "close").then(() => this.#news.notify());
    const silence = explains(() => `${program} said:\n${this.#text}`);
    onTestFinished(async () => {
      silence();
      await this.end();
    });
  }

  async says(words: string): Promise<void> {
    const isOver = (): boolean => this.#child.exitCode !== null;
    await until(`it says: ${words}`, () => this.#text.includes(words) || isOver(), this.#news);
    expect(this.#text).toContain(words);
  }

  async end(): Promise<Told> {
    this.#child.stdin.end();
    await this.#closed;
    return JSON.parse(this.#text.trim().split("\n").at(-1) ?? "") as Told;
  }
}
