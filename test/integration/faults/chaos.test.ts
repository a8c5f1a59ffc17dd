import { readdirSync } from "node:fs";
import { expect } from "vitest";
import { untouchedPlace } from "../../support/untouched-place.ts";
import { Command, MILLRACE } from "../../support/command-line.ts";
import { verifies } from "../../verifies.ts";

verifies("cli.chaos", "Ctrl-C in the middle of it ends everything it started", async () => {
  const { env, temporary } = untouchedPlace();
  const command = new Command(MILLRACE, ["doctor", "--chaos"], { env });
  await command.printed(/async and sync calls begin/);
  expect(await command.interrupt()).toBe(130);
  expect(readdirSync(temporary)).toEqual([]);
  expect(command.stdout).toBe("");
});
