import { existsSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect } from "vitest";
import { testService, WITHOUT_WALLS } from "../../support/service.ts";
import { until } from "../../support/until.ts";
import { verifies } from "../../verifies.ts";

const main = `
import os, time
import millrace

class Decoder:
    capacity = 8

    def __init__(self):
        self.calls = {}

    def add(self, id, word: str):
        with open("added.txt", "a") as file:
            file.write(f"{word} {millrace.run.attempt}\\n")
        self.calls[id] = [word]

    def remove(self, id):
        del self.calls[id]

    def step(self, paused):
        if os.path.exists("die") and len(self.calls) == 4:
            os._exit(9)
        made = {id: words.pop() for id, words in self.calls.items() if words}
        time.sleep(0.005)
        return made
`;
const toml = `[scaling]\nmax_replicas = 1\nmax_attempts = 2\n[batching.say]\nstepper = "Decoder"\n`;
const WORDS = ["one", "two", "three", "four"];

verifies(
  "stepper.crash",
  "when its process dies, each call of a stepper ends, and none begins again behind its reader's back",
  async () => {
    const service = await testService({ app: { main, toml } }, WITHOUT_WALLS);
    const replies = WORDS.map((word) =>
      fetch(service.url("app", "say"), {
        method: "POST",
        headers: {
          authorization: `Bearer ${service.service.owner.token}`,
          "content-type": "application/json",
        },
        body: JSON.stringify({ word }),
      }),
    );
    const file = path.join(service.bundleDir("app"), "added.txt");
    const added = () => (existsSync(file) ? readFileSync(file, "utf8").split("\n").filter(Boolean) : []);
    await until("all run", () => added().length === WORDS.length);
    const streams = await Promise.all(replies);
    for (const replica of service.apps.get("app")?.pool.replicas ?? []) replica.kill();
    for (const { body, headers } of streams) {
      const read = new Response(body).text();
      await expect(read).rejects.toThrow("terminated");
      const { json } = await service.ofRun("app", headers.get("x-request-id") ?? "");
      expect(json).toMatchObject({ status: "failure", error: { code: "app_crashed" } });
    }
    expect(added()).toHaveLength(WORDS.length);
  },
);

verifies(
  "stepper.crash",
  "each death of its process uses up one attempt of all calls that a stepper had",
  async () => {
    const service = await testService({ app: { main, toml } }, WITHOUT_WALLS);
    writeFileSync(path.join(service.bundleDir("app"), "die"), "");
    const ids: string[] = [];
    for (const word of WORDS) {
      const answer = await service.call("app", { word }, { functionName: "say", suffix: "?async=true" });
      ids.push(answer.json.run_id);
    }
    for (const id of ids) {
      await until("it has failed", async () => (await service.ofRun("app", id)).json.status === "failure");
      const { json } = await service.ofRun("app", id);
      expect(json).toMatchObject({ attempt: 2, error: { code: "app_crashed" } });
    }
  },
);
