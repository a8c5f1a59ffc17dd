import path from "node:path";
import { expect } from "vitest";
import { REPOSITORY } from "../../support/source-files.ts";
import type { Ran } from "./client.ts";

/** The id of a run that is not there. */
export const RUN = "019a8a3e-6c51-7d0e-b7f1-54a2f0d1c9aa";

/** What is typed after a command so that it gets as far as the service; `nosuch` is an app. */
export const WORDS: Record<string, readonly string[]> = {
  call: ["nosuch"],
  "apps list": [],
  "apps get": ["nosuch"],
  "apps scale": ["nosuch", "--min", "1"],
  "apps rollback": ["nosuch"],
  restart: ["nosuch"],
  run: [path.join(REPOSITORY, "examples/hello/main.py")],
  "apps delete": ["nosuch", "--yes"],
  "builds list": ["nosuch"],
  "builds logs": ["nosuch"],
  "builds cancel": ["nosuch"],
  "runs list": ["nosuch"],
  "runs get": ["nosuch", RUN],
  "runs tail": ["nosuch", RUN],
  "runs cancel": ["nosuch", RUN],
  "runs retry": ["nosuch", "--tag", "t", "--yes"],
  "runs delete": ["nosuch", "--tag", "t", "--yes"],
  "runs jobs": ["nosuch"],
  "queue show": ["nosuch"],
  "queue pause": ["nosuch"],
  "queue resume": ["nosuch"],
  "queue drain": ["nosuch"],
  map: ["nosuch"],
  "batches list": ["nosuch"],
  "batches get": ["nosuch", RUN],
  "batches results": ["nosuch", RUN],
  "batches cancel": ["nosuch", RUN],
  "batches retry": ["nosuch", RUN],
  "schedules list": ["nosuch"],
  "schedules create": ["nosuch", "--cron", "0 3 * * *"],
  "schedules pause": ["nosuch", "nightly"],
  "schedules resume": ["nosuch", "nightly"],
  "schedules run": ["nosuch", "nightly"],
  "schedules delete": ["nosuch", "nightly"],
  logs: ["nosuch"],
  usage: ["--app", "nosuch"],
  "containers list": ["nosuch"],
  "secrets list": ["--app", "nosuch"],
  "secrets set": ["A=1", "--app", "nosuch"],
  "secrets unset": ["A", "--app", "nosuch"],
  "files ls": [],
  "files cp": ["/etc/hostname"],
  "files download": ["a"],
  "files rm": ["a"],
  "webhook deliveries": [],
  "webhook redeliver": [RUN],
  bench: ["--app", "nosuch"],
  "nodes list": [],
  "nodes drain": ["nobody"],
  "hardware list": [],
  "hardware gpus": [],
  "members list": [],
  "members invite": ["ada@example.com"],
  "members invitations": [],
  "members revoke": ["ada@example.com"],
  "members remove": ["ada@example.com", "--yes"],
  whoami: [],
  "projects list": [],
  "projects create": ["name"],
  "projects use": ["name"],
  "projects show": [],
  "projects change": ["--name", "name"],
  "service-accounts create": ["name"],
  "service-accounts change": ["name", "--weight", "2"],
  "service-accounts list": [],
  "service-accounts token": ["sa-name", "--user", "ada"],
  "service-accounts rotate": ["name"],
  "service-accounts delete": ["name", "--yes"],
};

/** Each of them as it is typed. */
export const CASES = Object.entries(WORDS).map(([name, words]) => ({
  name,
  args: [...name.split(" "), ...words],
}));

/** How one of them ended. */
export type Ended = { readonly name: string; readonly ran: Ran };

/** It failed with this message, and what helps is named. */
export function expectFailure({ name, ran }: Ended, message: RegExp): void {
  expect([name, ran.code, ran.stdout]).toEqual([name, 1, ""]);
  expect(`${name}: ${ran.stderr}`).toMatch(message);
  expect(ran.stderr).not.toMatch(/^\s+at |node:internal|Error:/m);
  expect(`${name}: ${ran.stderr}`).toMatch(/^ {2}→ \S/m);
}
